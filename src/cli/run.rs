//! `ostler run`: the daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::tell_error;
use crate::config::{self, Loaded, Outside, watch};
use crate::daemon::{Daemon, Ended, Service, StartError, on_system, stop_on_signal};
use crate::telemetry;

/// Runs the daemon until it is told to stop.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// The file, or a directory whose `*.toml` are read together.
    #[arg(long, value_name = "PATH", default_value = "/etc/ostler")]
    config: PathBuf,
    /// What is logged, for instance `info` or `ostler=debug,warn`.
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
}

impl Run {
    pub(super) fn run(self) -> ExitCode {
        if let Err(error) = telemetry::begin(self.log.as_deref()) {
            tell_error("run", &error);
            return ExitCode::from(2);
        }
        let loaded = match config::load(&self.config, &Outside::real()) {
            Ok(loaded) => loaded,
            Err(problems) => {
                eprint!("{problems}");
                return ExitCode::from(2);
            }
        };
        for warning in loaded.warnings.iter() {
            tracing::warn!(config.key = %warning.key, "configuration: {}; {}", warning.what, warning.help);
        }
        match on_system(self.serve(loaded)) {
            Ok(Ok(Ended::Asked)) => ExitCode::SUCCESS,
            Ok(Ok(Ended::Hopeless)) => ExitCode::from(70),
            Ok(Err(error)) => {
                tell_error("run", &error);
                ExitCode::FAILURE
            }
            Err(error) => {
                tell_error("run", &error);
                ExitCode::FAILURE
            }
        }
    }

    async fn serve(self, loaded: Loaded) -> Result<Ended, StartError> {
        let stop = stop_on_signal().map_err(StartError::Signals)?;
        let hangup = signal(SignalKind::hangup()).map_err(StartError::Signals)?;
        let service = service();
        let watching = watch::Watch::new(&self.config, Outside::real(), &loaded);
        let (tell, config_changes) = mpsc::channel(1);
        let telling = service.clone();
        tokio::spawn(watch::run(watching, hangup, move || telling.reloading(), tell));
        let daemon = Daemon::open(loaded, service).await?;
        tracing::info!("listening on {}", daemon.url());
        daemon.run(config_changes, stop).await
    }
}

/// Returns the line to whoever started us as a service.
fn service() -> Service {
    let Some(manager) = config::service_manager() else { return Service::default() };
    Service::to(&manager).unwrap_or_else(|why| {
        tracing::warn!("the service manager at `{}` hears nothing of us: {why}", manager.socket);
        Service::default()
    })
}
