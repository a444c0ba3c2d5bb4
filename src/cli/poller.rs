//! `ostler poller`: what a warm pod waits in. Started by the cluster, not by people.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::daemon::tools::{Asking, Polling, poll};

/// The code of one that was stopped, as a shell would say it.
const STOPPED: u8 = 143;

/// Asks the daemon for work and stages it for the runner's container.
#[derive(Debug, Args)]
pub(super) struct Poller {
    /// The daemon's public address.
    #[arg(long, value_name = "URL")]
    server: String,
    /// The instance this pod was made for.
    #[arg(long, value_name = "NAME")]
    instance: String,
    /// The file with the pod's token.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// The folder the runner's container reads.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Certificates to trust beside the image's own, PEM.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl Poller {
    pub(super) fn run(self) -> ExitCode {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime.and_then(|runtime| runtime.block_on(self.wait())) {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                super::tell_error("poller", &error);
                ExitCode::FAILURE
            }
        }
    }

    /// Waits for work or for the end. As the first process of its container it must listen for
    /// signals itself, or nothing stops it before the pod's grace is over.
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
            _ = term.recv() => Ok(STOPPED),
            _ = int.recv() => Ok(STOPPED),
        }
    }
}
