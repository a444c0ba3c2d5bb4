//! `ostler completions`, `man`, `openapi`: documents that the program prints about itself.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::http::api::openapi;

/// Prints shell completions.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell to complete for.
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn run(&self) -> ExitCode {
        super::finish("completions", |out| {
            // Written to memory first: the generator panics when its reader leaves.
            let mut text = Vec::new();
            clap_complete::generate(self.shell, &mut visible(), "ostler", &mut text);
            out.write_all(&text)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Returns the command line without the hidden commands, which the generator would offer too.
fn visible() -> Command {
    let whole = super::Cli::command();
    let shown: Vec<_> = whole.get_subcommands().filter(|it| !it.is_hide_set()).cloned().collect();
    Command::new("ostler")
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .subcommands(shown)
}

/// Prints the manual page, or writes one per command.
#[derive(Debug, Args)]
pub(super) struct ManualArgs {
    /// Writes `ostler.1`, `ostler-run.1`, … into a folder instead.
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

impl ManualArgs {
    pub(super) fn run(&self) -> ExitCode {
        let command = super::Cli::command();
        match &self.to {
            None => super::finish("man", |out| {
                let mut text = Vec::new();
                Man::new(command).render(&mut text)?;
                out.write_all(&text)?;
                Ok(ExitCode::SUCCESS)
            }),
            Some(folder) => match write_all(folder, command) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("ostler man: cannot write into `{}`: {error}", folder.display());
                    ExitCode::FAILURE
                }
            },
        }
    }
}

/// Prints the description of the HTTP API (OpenAPI 3.1).
#[derive(Debug, Args)]
pub(super) struct OpenapiArgs {}

impl OpenapiArgs {
    pub(super) fn run(&self) -> ExitCode {
        let Self {} = self;
        super::finish("openapi", |out| {
            write!(out, "{}", openapi::document())?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Writes the page of a command and of all below it.
fn write_all(folder: &Path, mut command: Command) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    command.build();
    write_one(folder, &command, "ostler")
}

fn write_one(folder: &Path, command: &Command, name: &str) -> io::Result<()> {
    let mut text = Vec::new();
    // The names of pages are few and live as long as the program.
    let title: &'static str = Box::leak(name.to_owned().into_boxed_str());
    Man::new(command.clone().name(title).disable_help_subcommand(true)).render(&mut text)?;
    std::fs::File::create(folder.join(format!("{name}.1")))?.write_all(&text)?;
    let below = command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help");
    for one in below {
        write_one(folder, one, &format!("{name}-{}", one.get_name()))?;
    }
    Ok(())
}
