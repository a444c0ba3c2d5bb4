//! `ostler`: parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use ostler::cli::Cli;
use ostler::memory::{self, Allocator};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    memory::give_back_at_once();
    Cli::parse().run()
}
