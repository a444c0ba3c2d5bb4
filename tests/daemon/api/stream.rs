use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use super::*;

/// One who follows the events.
struct Reader {
    lines: BufReader<TcpStream>,
}

impl Reader {
    fn open(client: &Client, after: Option<i64>) -> Self {
        let mut stream = TcpStream::connect(client.address).expect("the server listens");
        stream.set_read_timeout(Some(HANG_LIMIT)).expect("a timeout");
        let after = after.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let token = client.token.as_deref().unwrap_or_default();
        write!(
            stream,
            "GET /api/v1/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n{after}\r\n",
            client.address
        )
        .expect("a request");
        let mut reader = Self { lines: BufReader::new(stream) };
        assert!(reader.line().contains(" 200 "));
        reader
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line in time");
        line.trim_end().to_owned()
    }

    /// Returns the next one of a kind: its id and data.
    fn next(&mut self, kind: &str) -> (i64, Value) {
        let (mut id, mut found) = (0, false);
        loop {
            let line = self.line();
            if let Some(text) = line.strip_prefix("id: ") {
                id = text.parse().expect("a number");
            } else if let Some(text) = line.strip_prefix("event: ") {
                found = text == kind;
            } else if let Some(data) = line.strip_prefix("data: ") {
                if found {
                    return (id, serde_json::from_str(data).expect("JSON"));
                }
                id = 0;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_hear_everything_and_those_who_come_back_what_they_missed() {
    let mut house = House::open(&pool(0, 2)).await;
    let mut reader = Reader::open(&house.eye, None);
    let (_, totals) = reader.next("fleet");
    assert_eq!(totals["instances"]["total"], 0, "{totals}");
    house.stage.queue(Step::Succeed, 50);
    let (first, event) = reader.next("event");
    assert_eq!(event["id"], first);
    assert_eq!(event["subject"]["kind"], "job", "{event}");
    let mut heard = vec![first];
    while {
        let (id, event) = reader.next("event");
        heard.push(id);
        event["detail"]["to"] != "deleted"
    } {}
    assert!(heard.is_sorted() && heard.len() > 5, "{heard:?}");

    // Another one comes back with an old id, and hears the same in the same order.
    let mut late = Reader::open(&house.eye, Some(first));
    for expected in heard.iter().skip(1) {
        assert_eq!(late.next("event").0, *expected);
    }
    house.daemon.must_live();
    assert_eq!(house.anonymous.get("/api/v1/events").status, 401);
    let address = house.anonymous.address;
    let odd = house.anonymous.raw(&format!(
        "GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {EYE}\r\n\
         Last-Event-ID: soon\r\nConnection: close\r\n\r\n"
    ));
    assert_eq!(odd.status, 400);
    house.stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_do_not_hold_up_the_end_of_the_daemon() {
    let mut house = House::open(&pool(0, 1)).await;
    let mut reader = Reader::open(&house.eye, None);
    reader.next("fleet");
    house.daemon.signal(rustix::process::Signal::TERM);
    let end = house.daemon.ended().await;
    assert_eq!(end.code(), Some(0));
    assert!(!house.daemon.log().contains("cut off"), "{}", house.daemon.log());
}
