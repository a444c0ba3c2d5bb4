//! `ostler`: parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use ostler::cli::Cli;

/// A burst of creates leaves holes that the system's allocator keeps.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    Cli::parse().run()
}
