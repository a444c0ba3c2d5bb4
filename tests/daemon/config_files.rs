//! Configuration files: what ships loads, what is broken says how to mend it, and secrets stay secret.

mod broken;
mod commands;
mod reload;
mod secrets;
mod shipped;

use std::path::Path;

use ostler::config::{Loaded, Outside, Problems, load};

/// Returns the variables that these tests pretend to have.
fn variable(name: &str) -> Option<String> {
    let value = match name {
        "SECRET" => "correct-horse-battery-staple",
        "PEM" => "-----BEGIN RSA PRIVATE KEY-----\nnot a real one\n-----END RSA PRIVATE KEY-----",
        "EMPTY" => "",
        _ => return None,
    };
    Some(value.into())
}

/// Loads a file of these tests with their variables.
fn load_here(path: &Path) -> Result<Loaded, Problems> {
    load(path, &Outside::with_variables(&variable))
}

/// Loads a text as if it were a file of its own.
fn load_text(text: &[u8]) -> Result<Loaded, Problems> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("ostler.toml");
    std::fs::write(&path, text).expect("the file can be written");
    load_here(&path)
}
