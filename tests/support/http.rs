//! A client so plain that it can also misbehave: one request, one connection, bytes as given.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::HANG_LIMIT;

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// Returns the body as JSON.
    pub(crate) fn json(&self) -> Value {
        let read = serde_json::from_str(&self.body);
        assert!(read.is_ok(), "{read:?}: {self:?}");
        read.unwrap_or_default()
    }
}

/// A client of one server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<String>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, token: None }
    }

    pub(crate) fn with(&self, token: &str) -> Self {
        Self { token: Some(token.into()), ..self.clone() }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, Some(&body.to_string()))
    }

    /// Sends one request, with a JSON body if there is one.
    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&str>) -> Answer {
        let token = self.token.as_ref();
        let token = token.map(|it| format!("Authorization: Bearer {it}\r\n")).unwrap_or_default();
        let length = |body: &str| {
            format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())
        };
        let length = body.map(length).unwrap_or_default();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n{token}{length}", self.address);
        self.raw(&format!("{head}Connection: close\r\n\r\n{}", body.unwrap_or_default()))
    }

    /// Sends bytes and reads one answer.
    pub(crate) fn raw(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(HANG_LIMIT)).expect("a timeout");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = Vec::new();
        // A server that refuses may close while we still send.
        let _closed = stream.read_to_end(&mut answer);
        read(&String::from_utf8_lossy(&answer))
    }
}

fn read(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunk(body) } else { body.to_owned() };
    Answer { status, head: head.to_owned(), body }
}

fn unchunk(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        whole += &rest[..size];
        text = rest[size..].trim_start_matches("\r\n");
    }
    whole
}
