//! People are told when one of them is needed: a real receiver on loopback, a real daemon.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use ostler::demo::agent::Step;
use serde_json::Value;

use crate::support::daemon::{LONG_JOB, Stage, pool, until};

const PATH: &str = "/services/canary-hook-77aa11";

/// Receives messages; returns its address and what arrives.
fn receiver() -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (tell, messages) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = BufReader::new(stream);
            let (mut top, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                    break;
                }
                if let Some(size) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = size.trim().parse().unwrap_or(0);
                }
                top += &line;
            }
            let mut body = vec![0; length];
            if stream.read_exact(&mut body).is_err() {
                continue;
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
            let _gone = stream.get_mut().write_all(answer);
            if tell.send((top, serde_json::from_slice(&body).unwrap_or_default())).is_err() {
                return;
            }
        }
    });
    (format!("http://{address}{PATH}"), messages)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_odd_end_and_a_job_that_waits_are_notified_once_and_the_address_stays_secret() {
    let (url, messages) = receiver();
    let mut stage = Stage::on_sqlite("");
    stage.write("notify.url", &url);
    let notify = "[notify]\nurl = { file = \"notify.url\" }\nqueue_after = \"1s\"\n\
                  template = \"<{fleet}> {occasion} {subject}: {sentence} {advice}\"\n";
    stage.write_config(&format!("{}\n{notify}\n{}", stage.base(), pool(0, 1)));
    let mut daemon = stage.lead().await;
    stage.queue(Step::Crash, 50);
    let mut told: Vec<(String, Value)> = Vec::new();
    let has = |told: &[(String, Value)], occasion: &str| {
        told.iter().filter(|(_, body)| body["occasion"] == occasion).count()
    };
    until("the death is told", async || {
        daemon.must_live();
        told.extend(messages.try_iter());
        has(&told, "death") == 1
    })
    .await;
    let (top, body) = told.iter().find(|(_, body)| body["occasion"] == "death").expect("it");
    assert!(top.starts_with(&format!("POST {PATH} ")), "{top}");
    assert!(top.to_ascii_lowercase().contains("content-type: application/json"), "{top}");
    let text = body["text"].as_str().expect("what chats show");
    assert!(text.starts_with("<tested> death linux-") && text.contains("crashed"), "{text}");
    assert!(body["advice"].as_str().is_some_and(|advice| !advice.is_empty()), "{body}");

    // One that runs for long, and one that waits for it.
    let long = stage.queue(Step::Succeed, LONG_JOB);
    stage.until_at_work(&[long]).await;
    stage.queue(Step::Succeed, 50);
    until("the wait is told", async || {
        told.extend(messages.try_iter());
        has(&told, "queue") >= 1
    })
    .await;
    stage.until_all_jobs_are_over(&mut daemon).await;
    told.extend(messages.try_iter());
    assert_eq!(has(&told, "death"), 1, "normal ends are not reported: {told:?}");
    assert!(has(&told, "queue") <= 2, "told while it holds, not at each look: {told:?}");
    stage.check_logs(&[PATH, "canary-hook"]);
    stage.leave();
}
