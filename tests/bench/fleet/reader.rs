//! A client that reads over HTTP, as plainly as can be: what is measured is the other side.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Asks once, over a connection of its own, and returns the body.
pub(crate) fn once(host: &str, path: &str) -> String {
    Kept::open(host).ask(path)
}

/// Holds a connection that is used again and again.
pub(crate) struct Kept {
    host: String,
    stream: BufReader<TcpStream>,
}

impl Kept {
    pub(crate) fn open(host: &str) -> Self {
        let stream = TcpStream::connect(host).expect("a server");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        Self { host: host.to_owned(), stream: BufReader::new(stream) }
    }

    /// Asks, and returns the body of a good answer.
    pub(crate) fn ask(&mut self, path: &str) -> String {
        let question = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        self.stream.get_mut().write_all(question.as_bytes()).expect("the server listens");
        let (mut status, mut length, mut line) = (String::new(), 0, String::new());
        loop {
            line.clear();
            let read = self.stream.read_line(&mut line).expect("the server answers");
            assert!(read > 0, "the server hung up");
            let text = line.trim_end();
            if status.is_empty() {
                text.clone_into(&mut status);
            } else if text.is_empty() {
                break;
            } else if let Some((name, value)) = text.split_once(": ")
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("the whole answer");
        assert!(status.contains(" 200 "), "{path}: {status}");
        String::from_utf8(body).expect("text")
    }
}
