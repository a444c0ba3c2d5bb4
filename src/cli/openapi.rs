//! `ostler openapi`: the description of the HTTP API.

use std::process::ExitCode;

use clap::Args;

use super::finish;
use crate::http::api::openapi;

/// Prints the description of the HTTP API.
#[derive(Debug, Args)]
pub(super) struct Openapi {}

impl Openapi {
    pub(super) fn run(&self) -> ExitCode {
        let Self {} = self;
        finish("openapi", |out| {
            write!(out, "{}", openapi::document())?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
