use serde_json::json;

use super::*;
use crate::support::port::Port;

/// Everything there is, with the method it takes.
fn operations() -> Vec<(String, String)> {
    let text = ostler::http::api::openapi::document();
    let described: Value = serde_json::from_str(&text).expect("JSON");
    let mut operations = Vec::new();
    for (path, methods) in described["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            operations
                .push((method.to_uppercase(), path.replace("{name}", "x").replace("{id}", "1")));
        }
    }
    assert!(operations.len() > 20, "{operations:?}");
    operations
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_answers_without_a_token_and_a_viewer_changes_nothing() {
    let house = House::open(&pool(0, 1)).await;
    for (method, path) in operations() {
        let answer = house.anonymous.send(&method, &path, None);
        assert_eq!(answer.status, 401, "{method} {path} without a token: {answer:?}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{method} {path}");
        if method != "GET" {
            let answer = house.eye.send(&method, &path, Some(r#"{"why": "x"}"#));
            assert_eq!(answer.status, 403, "{method} {path} by a viewer: {answer:?}");
        }
    }
    // Neither what is not there nor odd spellings of what is.
    for path in [
        "/api/v1",
        "/api/v1/",
        "/api/v1/none",
        "/api/v1//fleet",
        "/api/v1/./fleet",
        "/api/v1/../v1/fleet",
        "//api/v1/fleet",
        "/API/V1/fleet",
        "/api%2Fv1%2Ffleet",
        "/api/v1/fleet/",
        "/api/v1/fleet%00",
        "/healthz/../api/v1/fleet",
        "/webhooks/../api/v1/fleet",
        "/page/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
    ] {
        let answer = house.anonymous.get(path);
        assert!(matches!(answer.status, 400 | 401 | 404), "{path}: {answer:?}");
        assert!(!answer.body.contains("controller"), "{path}: {answer:?}");
    }
    assert_eq!(house.anonymous.get("/healthz").status, 200);
    assert_eq!(house.anonymous.get("/readyz").status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_counts_only_in_its_header_and_is_never_written_down() {
    let house = House::open(&pool(0, 1)).await;
    let address = house.anonymous.address;
    for request in [
        format!(
            "GET /api/v1/fleet?token={OPS} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        ),
        format!(
            "GET /api/v1/fleet?access_token={OPS} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        ),
        format!(
            "GET /api/v1/fleet HTTP/1.1\r\nHost: {address}\r\nCookie: token={OPS}\r\nConnection: close\r\n\r\n"
        ),
        format!(
            "GET /api/v1/fleet HTTP/1.1\r\nHost: {address}\r\nAuthorization: Basic {OPS}\r\nConnection: close\r\n\r\n"
        ),
        format!(
            "GET /api/v1/fleet HTTP/1.1\r\nHost: {address}\r\nAuthorization: {OPS}\r\nConnection: close\r\n\r\n"
        ),
    ] {
        assert_eq!(house.anonymous.raw(&request).status, 401, "{request}");
    }
    assert_eq!(house.ops.get("/api/v1/fleet").status, 200);
    assert_eq!(house.ops.post("/api/v1/pools/linux/drain", &json!({})).status, 200);
    house.anonymous.with("a-wrong-token-8d1e").get("/api/v1/fleet");
    house.stage.check_logs(&[OPS, EYE, "a-wrong-token-8d1e"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_guesses_tokens_is_shut_out_for_a_minute() {
    let house = House::open(&pool(0, 1)).await;
    let statuses: Vec<u16> = (0..12)
        .map(|at| house.anonymous.with(&format!("guess-number-{at}")).get("/api/v1/fleet").status)
        .collect();
    assert_eq!(statuses, [[401; 10].as_slice(), &[429; 2]].concat());
    let shut = house.ops.get("/api/v1/fleet");
    assert_eq!((shut.status, shut.header("retry-after").is_some()), (429, true));
    assert_eq!(house.anonymous.get("/healthz").status, 200, "health is no secret");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_too_large_broken_or_of_another_kind_are_refused() {
    let house = House::open(&pool(0, 1)).await;
    let large = json!({ "why": "x".repeat(20 << 10) });
    for (method, path) in [
        ("DELETE", "/api/v1/instances/x"),
        ("POST", "/api/v1/instances/x/forget"),
        ("POST", "/api/v1/foreign/adopt"),
    ] {
        let send = |body: &str| house.ops.send(method, path, Some(body)).status;
        assert_eq!(send(&large.to_string()), 413, "{method} {path}");
        assert_eq!(send("{"), 400, "{method} {path}");
        assert_eq!(send(r#"{"why": 7}"#), 400, "{method} {path}");
        assert_eq!(send(r#"{"why": "x", "more": 1}"#), 400, "{method} {path}");
        let address = house.anonymous.address;
        let form = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {OPS}\r\n\
             Content-Type: text/plain\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{{\"why\":\"x\"}}"
        );
        assert_eq!(house.anonymous.raw(&form).status, 415, "{method} {path}");
        let endless = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {OPS}\r\n\
             Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
             5000\r\n{}\r\n0\r\n\r\n",
            "x".repeat(0x5000)
        );
        assert_eq!(house.anonymous.raw(&endless).status, 413, "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_two_servers_would_read_differently_are_refused() {
    let house = House::open(&pool(0, 1)).await;
    let address = house.anonymous.address;
    let smuggled = format!("GET /api/v1/fleet HTTP/1.1\r\nHost: {address}\r\n\r\n");
    for framing in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 4\r\nContent-Length: 40\r\n",
        "Content-Length: +4\r\n",
        "Content-Length: 4, 40\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding : chunked\r\n",
    ] {
        let request = format!(
            "POST /webhooks/github HTTP/1.1\r\nHost: {address}\r\n{framing}\r\n0\r\n\r\n{smuggled}"
        );
        let answer = house.anonymous.raw(&request);
        assert!(matches!(answer.status, 0 | 400 | 401 | 501), "{framing:?}: {answer:?}");
        assert!(!answer.body.contains("\"controller\""), "{framing:?}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_a_request_drop_by_drop_is_disconnected_and_delays_no_other() {
    use std::io::{Read as _, Write as _};
    let house = House::open(&pool(0, 1)).await;
    let slow = |_| {
        let mut stream = std::net::TcpStream::connect(house.anonymous.address).expect("it listens");
        stream.set_read_timeout(Some(HANG_LIMIT)).expect("a timeout");
        stream.write_all(b"GET /api/v1/fleet HTTP/1.1\r\nHost: x\r\nX-Slow: ").expect("a part");
        stream
    };
    let streams: Vec<_> = (0..200).map(slow).collect();
    assert_eq!(house.eye.get("/api/v1/fleet").status, 200, "others are served meanwhile");
    for mut stream in streams {
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        let timed_out = ended.as_ref().is_err_and(|why| {
            matches!(why.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
        });
        assert!(!timed_out, "the server still waits: {ended:?}");
        let said = String::from_utf8_lossy(&rest).into_owned();
        assert!(said.is_empty() || said.contains(" 408 "), "{said}");
    }
}

/// Ways to write a path that some server somewhere reads as another one.
const DETOURS: [&str; 18] = [
    "/healthz/../api/v1/fleet",
    "/healthz/%2e%2e/api/v1/fleet",
    "/webhooks/../api/v1/fleet",
    "/webhooks/github/..%2f..%2fapi/v1/fleet",
    "/runner/v1/../../api/v1/fleet",
    "/runner/v1/%2e%2e/%2e%2e/api/v1/fleet",
    "//api/v1/fleet",
    "/./api/v1/fleet",
    "/api//v1/fleet",
    "/api%2fv1%2ffleet",
    "/API/V1/FLEET",
    "/api/v1/fleet/",
    "/api/v1/fleet;x=1",
    "/api/v1/fleet%00",
    "/api/v1/fleet%20",
    "\\api\\v1\\fleet",
    "http://127.0.0.1/api/v1/fleet",
    "/page/../../../../../../etc/passwd",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_detour_leads_past_the_gate_or_to_a_file() {
    let house = House::open(&pool(0, 1)).await;
    for path in DETOURS
        .into_iter()
        .chain(["/..%2f..%2f..%2f..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd"])
    {
        let answer = house.anonymous.get(path);
        assert!(matches!(answer.status, 0 | 400 | 401 | 404), "{path}: {answer:?}");
        assert!(!answer.body.contains("\"controller\":\""), "{path}: {answer:?}");
        assert!(!answer.body.contains("root:"), "{path}: {answer:?}");
        // A viewer sees the fleet at its own address, and at no other.
        let answer = house.eye.get(path);
        let is_own = path.starts_with("http://");
        assert_eq!(answer.status == 200, is_own, "{path}: {answer:?}");
    }
    // A name is one segment whatever is in it, and finds only its owner.
    for name in ["..%2f..%2ffleet", "%2e%2e", "x%2fexplain", "%00", "%ff", "%0d%0aX-Evil:1"] {
        let answer = house.eye.get(&format!("/api/v1/instances/{name}"));
        assert!(matches!(answer.status, 400 | 404), "{name}: {answer:?}");
        assert_eq!(answer.header("x-evil"), None, "{name}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_tells_browsers_to_trust_nothing() {
    let house = House::open(&pool(0, 1)).await;
    for answer in [
        house.anonymous.get("/"),
        house.anonymous.get("/healthz"),
        house.anonymous.get("/api/v1/fleet"),
        house.eye.get("/api/v1/fleet"),
        house.anonymous.get("/none"),
    ] {
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{answer:?}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{answer:?}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{answer:?}");
    }
    assert_eq!(house.eye.get("/api/v1/fleet").header("cache-control"), Some("no-store"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_tokens_only_this_machines_own_pages_and_programs_are_heard() {
    let stage = Stage::on_sqlite(&pool(0, 1));
    let mut daemon = stage.lead().await;
    let client = Client::new(daemon.address().expect("it listens"));
    let address = client.address;
    assert_eq!(client.get("/api/v1/fleet").status, 200);
    assert_eq!(client.post("/api/v1/pools/linux/drain", &json!({})).status, 200);
    let send = |method: &str, headers: &str| {
        client.raw(&format!("{method} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n")).status
    };
    let drain = "POST /api/v1/pools/linux/drain";
    assert_eq!(send("GET /api/v1/fleet", "Host: evil.example"), 403, "rebound");
    assert_eq!(send(drain, "Host: evil.example"), 403, "rebound");
    let forged = format!("Host: {address}\r\nOrigin: http://evil.example");
    assert_eq!(send(drain, &forged), 403, "forged");
    let forged = format!("Host: {address}\r\nSec-Fetch-Site: cross-site");
    assert_eq!(send(drain, &forged), 403, "forged");
    let own = format!("Host: {address}\r\nOrigin: http://{address}\r\nSec-Fetch-Site: same-origin");
    assert_eq!(send(drain, &own), 200, "our own page");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_public_address_serves_webhooks_and_nothing_else() {
    let stage = Stage::on_sqlite("");
    let port = Port::choose();
    let public = std::net::SocketAddr::from(([127, 0, 0, 1], port.number));
    let base = stage.base().replace(
        "listen = \"127.0.0.1:0\"",
        &format!("listen = \"127.0.0.1:0\"\npublic_listen = \"{public}\""),
    );
    stage.write_config(&format!("{base}\n{}", pool(0, 1)));
    let _daemon = stage.lead().await;
    let outside = Client::new(public);
    for path in ["/", "/healthz", "/readyz", "/metrics", "/api/v1/fleet", "/openapi.json"] {
        assert_eq!(outside.get(path).status, 404, "{path}");
    }
    for path in DETOURS {
        let answer = outside.get(path);
        assert!(matches!(answer.status, 0 | 400 | 401 | 404 | 405), "{path}: {answer:?}");
    }
    assert_eq!(outside.post("/webhooks/github", &json!({})).status, 401, "unsigned");
}
