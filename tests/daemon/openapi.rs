//! The committed description of the API is what the handlers say.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const COMMITTED: &str = "src/http/api/openapi.json";

#[test]
fn openapi_json_equals_the_handlers() {
    let printed = Command::new(env!("CARGO_BIN_EXE_ostler")).arg("openapi").output().expect("runs");
    assert!(printed.status.success());
    let printed = String::from_utf8(printed.stdout).expect("text");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(COMMITTED);
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        printed == committed,
        "{COMMITTED} is not what the handlers say; write it anew: cargo run -- openapi > {COMMITTED}"
    );
}

#[test]
fn the_description_is_openapi_3_1_and_every_answer_is_described() {
    let described: Value =
        serde_json::from_str(&ostler::http::api::openapi::document()).expect("JSON");
    assert!(described["openapi"].as_str().expect("a version").starts_with("3.1"));
    for (path, methods) in described["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let answers = operation["responses"].as_object().expect("answers");
            assert!(answers.contains_key("200"), "{method} {path}");
            assert!(answers.contains_key("4XX"), "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path} says nothing");
        }
    }
}
