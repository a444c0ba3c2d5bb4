//! `ostler run`: the daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::print_error;
use crate::config::{self, Loaded, Outside, watch};
use crate::daemon::{Daemon, Ended, Service, StartError, on_system, stop_on_signal};
use crate::telemetry;

/// Runs the daemon until a signal stops it.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The configuration file, or a directory whose `*.toml` files are read together.
    #[arg(long, value_name = "PATH", default_value = "/etc/ostler")]
    config: PathBuf,
    /// The log filter, for example `info` or `ostler=debug,warn`.
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
}

impl RunArgs {
    pub(super) fn run(self) -> ExitCode {
        if let Err(error) = telemetry::begin(self.log.as_deref()) {
            print_error("run", &error);
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
                print_error("run", &error);
                ExitCode::FAILURE
            }
            Err(error) => {
                print_error("run", &error);
                ExitCode::FAILURE
            }
        }
    }

    async fn serve(self, loaded: Loaded) -> Result<Ended, StartError> {
        let stop = stop_on_signal().map_err(StartError::Signals)?;
        let hangup = signal(SignalKind::hangup()).map_err(StartError::Signals)?;
        let service = service();
        let watching = watch::ConfigWatch::new(&self.config, Outside::real(), &loaded);
        let (tell, config_changes) = mpsc::channel(1);
        let notified = service.clone();
        tokio::spawn(watch::run(watching, hangup, move || notified.reloading(), tell));
        let daemon = Daemon::open(loaded, service).await?;
        tracing::info!("listening on {}", daemon.url());
        daemon.run(config_changes, stop).await
    }
}

/// Returns the connection to the service manager that started us, if one did.
fn service() -> Service {
    let Some(manager) = config::service_manager() else { return Service::default() };
    Service::to(&manager).unwrap_or_else(|why| {
        tracing::warn!("service manager `{}`: cannot be notified: {why}", manager.socket);
        Service::default()
    })
}
