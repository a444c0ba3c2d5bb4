//! `ostler import garm`: takes a GARM installation over as configuration files.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use secrecy::SecretString;

use crate::import::garm::{ImportError, Rows, Survey, from_file, from_url, providers, write};

/// Imports the configuration of another runner manager.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    #[command(subcommand)]
    from: ImportSource,
}

#[derive(Debug, Subcommand)]
enum ImportSource {
    /// Reads GARM's pools, entities and endpoints and writes equivalent configuration.
    Garm(Garm),
}

#[derive(Debug, Args)]
struct Garm {
    /// GARM's SQLite database; it is only read.
    #[arg(long, value_name = "FILE", conflicts_with = "url", required_unless_present = "url")]
    db: Option<PathBuf>,
    /// The URL of a running GARM: `https://garm.example.com`.
    #[arg(long, value_name = "URL", requires = "token_file")]
    url: Option<String>,
    /// The file with the token that `garm-cli` got when it logged in.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// GARM's config.toml; its providers are declared only there.
    #[arg(long = "garm-config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The file to write; it must not exist. Without it the configuration is printed.
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

impl ImportArgs {
    pub(super) fn run(&self) -> ExitCode {
        let ImportSource::Garm(garm) = &self.from;
        garm.run()
    }
}

impl Garm {
    fn run(&self) -> ExitCode {
        let written = match self.read() {
            Ok((rows, known)) => write(&Survey::of(&rows), &known),
            Err(error) => {
                super::print_error("import garm", &error);
                return ExitCode::FAILURE;
            }
        };
        for note in &written.remarks {
            eprintln!("note: {note}");
        }
        match &self.to {
            None => super::finish("import garm", |out| {
                out.write_all(written.toml.as_bytes())?;
                Ok(ExitCode::SUCCESS)
            }),
            Some(path) => {
                match create(path).and_then(|mut it| it.write_all(written.toml.as_bytes())) {
                    Ok(()) => {
                        eprintln!(
                            "wrote {0}; review it, then run `ostler check --config {0}`",
                            path.display()
                        );
                        ExitCode::SUCCESS
                    }
                    Err(error) => {
                        eprintln!("ostler import garm: cannot write `{}`: {error}", path.display());
                        ExitCode::FAILURE
                    }
                }
            }
        }
    }

    fn read(&self) -> Result<(Rows, Vec<crate::import::garm::GarmProvider>), ImportFailed> {
        let known = match &self.config {
            Some(path) => providers(path)?,
            None => Vec::new(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let rows = match (&self.db, &self.url, &self.token_file) {
            (Some(path), _, _) => runtime.block_on(from_file(path))?,
            (None, Some(url), Some(file)) => {
                let token = std::fs::read_to_string(file)
                    .map_err(|source| ImportFailed::Token { path: file.clone(), source })?;
                runtime.block_on(from_url(url, &SecretString::from(token)))?
            }
            (None, _, _) => Rows::default(),
        };
        Ok((rows, known))
    }
}

/// Tells why nothing was imported.
#[derive(Debug, thiserror::Error)]
enum ImportFailed {
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error("cannot read the token in `{path}`")]
    Token {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot start")]
    Runtime(#[from] io::Error),
}

fn create(path: &PathBuf) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}
