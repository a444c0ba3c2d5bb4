//! A certificate authority of the test's own, made by `openssl` where it is installed.

use std::path::Path;
use std::process::Command;

/// Makes `ca.pem`, and `it.pem` with `it.key` for this machine; says so where it cannot.
pub(crate) fn certificates(folder: &Path) -> bool {
    let run = |line: &str| {
        let made = Command::new("openssl").args(line.split(' ')).current_dir(folder).output();
        made.is_ok_and(|made| made.status.success())
    };
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1").expect("our folder");
    let made = run(
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca",
    ) && run("req -newkey rsa:2048 -nodes -keyout it.key -out it.csr -subj /CN=it")
        && run(
            "x509 -req -in it.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out it.pem",
        );
    if !made {
        super::skip::say("`openssl` is not here to make certificates");
    }
    made
}
