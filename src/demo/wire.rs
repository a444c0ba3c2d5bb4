//! As much HTTP as the demo's runner needs: one question, one answer, one connection.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than the server lets anyone wait.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Posts a body as JSON, with a bearer token. HTTP/1.0, so that the end of the connection is the
/// end of the answer.
pub(super) fn post(host: &str, path: &str, bearer: &str, body: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(CALL_TIMEOUT))?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {bearer}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    read(&answer).ok_or_else(|| io::Error::other("the answer is not HTTP"))
}

fn read(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_status_and_body() {
        let answer = read("HTTP/1.0 410 Gone\r\nA: b\r\n\r\nbye").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (410, "bye"));
        assert!(read("nonsense").is_none() && read("HTTP/1.0 x\r\n\r\n").is_none());
    }
}
