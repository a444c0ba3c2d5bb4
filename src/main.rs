//! `ostler`: parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use ostler::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
