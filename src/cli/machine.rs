//! `ostler keeper` and `ostler poller`: the processes beside a runner. The daemon starts the keeper of a
//! local runner, the cluster starts the poller of a warm pod; they are hidden from people.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::daemon::tools::{Asking, Polling, keeper, poll};

/// The exit code of a process that SIGTERM ended, as shells report it.
const TERMINATED: u8 = 143;

/// Keeps one local runner until nothing of it is left.
#[derive(Debug, Args)]
pub(super) struct KeeperArgs {
    /// The machine's directory.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

impl KeeperArgs {
    pub(super) fn run(&self) -> ExitCode {
        keeper::run(&self.dir)
    }
}

/// Polls the daemon for work and stages it for the runner's container.
#[derive(Debug, Args)]
pub(super) struct PollerArgs {
    /// The daemon's public address.
    #[arg(long, value_name = "URL")]
    server: String,
    /// The instance this pod was created for.
    #[arg(long, value_name = "NAME")]
    instance: String,
    /// The file with the pod's token.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// The folder the runner's container reads.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Certificates (PEM) to trust in addition to the image's own.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl PollerArgs {
    pub(super) fn run(self) -> ExitCode {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime.and_then(|runtime| runtime.block_on(self.wait())) {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                super::print_error("poller", &error);
                ExitCode::FAILURE
            }
        }
    }

    /// Waits for work or for a signal. The first process of a container has no default signal
    /// handlers: without these, only the end of the pod's grace period would stop it.
    async fn wait(self) -> io::Result<u8> {
        let (mut term, mut int) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let asking = Asking {
            server: self.server.trim_end_matches('/').to_owned(),
            instance: self.instance,
            token_file: self.token_file,
            ca: self.ca,
        };
        let polling = Polling { asking, out: self.out };
        tokio::select! {
            ended = poll(&polling) => Ok(ended.code()),
            _ = term.recv() => Ok(TERMINATED),
            _ = int.recv() => Ok(TERMINATED),
        }
    }
}
