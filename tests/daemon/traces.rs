//! The lives of instances reach a collector: a real one on loopback, a real daemon.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use ostler::demo::agent::Step;
use serde_json::Value;

use crate::support::daemon::{Stage, pool, until};

const COLLECTOR_SECRET: &str = "canary-of-the-collector-51d3";

/// Collects; the first request is answered with 503. Returns its address and what arrives.
fn collector() -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (tell, messages) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let mut stream = BufReader::new(stream);
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                    break;
                }
                if let Some(size) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = size.trim().parse().unwrap_or(0);
                }
                head += &line;
            }
            let mut body = vec![0; length];
            if stream.read_exact(&mut body).is_err() {
                continue;
            }
            let status = if number == 0 { "503 Busy" } else { "200 OK" };
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}");
            let _gone = stream.get_mut().write_all(answer.as_bytes());
            if number > 0
                && tell.send((head, serde_json::from_slice(&body).unwrap_or_default())).is_err()
            {
                return;
            }
        }
    });
    (format!("http://{address}"), messages)
}

fn spans(message: &Value) -> Vec<Value> {
    message["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_is_one_trace_from_webhook_to_delete() {
    let (url, messages) = collector();
    let mut stage = Stage::on_sqlite(&pool(0, 2));
    stage.environment = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT".into(), url),
        ("OTEL_EXPORTER_OTLP_HEADERS".into(), format!("x-key={COLLECTOR_SECRET},x-other=a%20b")),
    ];
    let mut daemon = stage.lead().await;
    stage.queue(Step::Succeed, 300);
    stage.queue(Step::Crash, 300);
    let mut told: Vec<(String, Value)> = Vec::new();
    until("both lives are told", async || {
        daemon.must_live();
        told.extend(messages.try_iter());
        let roots = told.iter().flat_map(|(_, it)| spans(it));
        roots.filter(|span| span["name"] == "instance").count() == 2
    })
    .await;
    let (head, message) = &told[0];
    assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
    let lower = head.to_ascii_lowercase();
    assert!(
        lower.contains(&format!("x-key: {COLLECTOR_SECRET}")) && lower.contains("x-other: a b"),
        "{head}"
    );
    let service = &message["resourceSpans"][0]["resource"]["attributes"][0];
    assert_eq!(
        (&service["key"], &service["value"]["stringValue"]),
        (&"service.name".into(), &"ostler".into())
    );

    let all: Vec<Value> = told.iter().flat_map(|(_, it)| spans(it)).collect();
    let roots: Vec<&Value> = all.iter().filter(|span| span["name"] == "instance").collect();
    let mut codes: Vec<i64> = roots.iter().filter_map(|it| it["status"]["code"].as_i64()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [1, 2], "one ended well, the other did not: {roots:?}");
    let nanos = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u128>().unwrap();
    for root in roots {
        let of_it: Vec<&Value> = all.iter().filter(|it| it["traceId"] == root["traceId"]).collect();
        let names: Vec<&str> = of_it.iter().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(names, ["instance", "webhook", "create", "ready", "job", "delete"]);
        for span in &of_it[1..] {
            assert_eq!(span["parentSpanId"], root["spanId"], "{span}");
            assert!(nanos(span, "startTimeUnixNano") >= nanos(root, "startTimeUnixNano"), "{span}");
            assert!(nanos(span, "endTimeUnixNano") <= nanos(root, "endTimeUnixNano"), "{span}");
        }
        assert!(root["events"].as_array().is_some_and(|events| events.len() > 5), "{root}");
    }
    stage.check_logs(&[COLLECTOR_SECRET]);
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_costs_its_traces_and_nothing_else() {
    let mut stage = Stage::on_sqlite(&pool(0, 2));
    stage.environment = vec![("OTEL_EXPORTER_OTLP_ENDPOINT".into(), "http://127.0.0.1:9".into())];
    let mut daemon = stage.lead().await;
    stage.queue(Step::Succeed, 50);
    stage.until_all_jobs_are_over(&mut daemon).await;
    stage.check_jobs();
    until("it is said", async || daemon.log().contains("trace collector: traces are lost")).await;
    assert_eq!(daemon.ready().expect("it answers").status, 200);
    stage.leave();
}
