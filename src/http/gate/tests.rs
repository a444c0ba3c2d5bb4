//! The gate, with tokens from files as an operator writes them.

use std::net::IpAddr;

use actix_web::http::header::{HeaderName, HeaderValue};

use super::*;
use crate::config::{Outside, load};

const PEER: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

fn gate(tokens: &str) -> Gate {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ops"), "operators-own-token").unwrap();
    std::fs::write(folder.path().join("eye"), "viewers-own-token").unwrap();
    let file = folder.path().join("ostler.toml");
    std::fs::write(&file, tokens).unwrap();
    Gate::new(&load(&file, &Outside::real()).unwrap().config.http)
}

const TOKENS: &str = r#"
    [[http.token]]
    name = "ops"
    role = "operator"
    secret = { file = "ops" }
    [[http.token]]
    name = "eye"
    role = "viewer"
    secret = { file = "eye" }
"#;

fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    };
    of.iter().map(pair).collect()
}

fn asked(gate: &Gate, authorization: &str) -> Result<Caller, u16> {
    let headers = headers(&[("authorization", authorization), ("host", "localhost")]);
    gate.admit(&headers, &Method::GET, PEER).map_err(|problem| problem.status)
}

#[test]
fn a_token_names_the_caller_and_its_role() {
    let gate = gate(TOKENS);
    let ops = asked(&gate, "Bearer operators-own-token").unwrap();
    assert_eq!((ops.name.as_str(), ops.role), ("ops", Role::Operator));
    assert_eq!(asked(&gate, "bearer viewers-own-token").unwrap().role, Role::Viewer);
    for wrong in ["Bearer operators-own-toke", "Bearer operators-own-token1", "Bearer x"] {
        assert_eq!(asked(&gate, wrong), Err(401), "{wrong}");
    }
    for none in ["Basic b3BzOm9wZXJhdG9ycy1vd24tdG9rZW4=", "Bearer ", "operators-own-token"] {
        assert_eq!(asked(&gate, none), Err(401), "{none}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_guesses_is_refused_for_a_while_even_when_right() {
    let gate = gate(TOKENS);
    for _ in 0..10 {
        assert_eq!(asked(&gate, "Bearer a-guess"), Err(401));
    }
    assert_eq!(asked(&gate, "Bearer operators-own-token"), Err(429));
    let elsewhere = Some("192.0.2.7".parse().unwrap());
    let right = headers(&[("authorization", "Bearer operators-own-token")]);
    assert!(gate.admit(&right, &Method::GET, elsewhere).is_ok(), "others are heard");
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    assert!(asked(&gate, "Bearer operators-own-token").is_ok());
}

#[test]
fn without_tokens_this_machine_may_do_everything_and_strangers_nothing() {
    let gate = gate("");
    let admit = |host: &str, method| gate.admit(&headers(&[("host", host)]), &method, PEER);
    assert_eq!(admit("localhost:7480", Method::DELETE).unwrap().role, Role::Operator);
    assert_eq!(admit("evil.example", Method::GET).unwrap_err().status, 403);
    let forged = headers(&[("host", "localhost"), ("origin", "http://evil.example")]);
    assert_eq!(gate.admit(&forged, &Method::POST, PEER).unwrap_err().status, 403);
}
