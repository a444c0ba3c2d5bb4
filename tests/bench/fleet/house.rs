//! The whole daemon as `ostler run` runs it, with the simulated provider lent to it.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ostler::config::{Outside, load, watch};
use ostler::daemon::{Daemon, Service, on_system, stop_on_signal};
use ostler_actors::model::{ProviderId, State};
use ostler_actors::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::yard::Yard;

/// Runs a daemon until it is told to stop; writes its two addresses to `addresses` in its folder.
pub(crate) fn run(folder: &Path, late: Option<Duration>) {
    let config = folder.join("ostler.toml");
    ostler::telemetry::begin(Some("warn")).expect("a filter");
    let loaded = load(&config, &Outside::real()).expect("a configuration");
    let yard = Arc::new(Yard::open(folder, late).expect("a folder"));
    let ended = on_system(async move {
        let stop = stop_on_signal().expect("signals");
        let hangup = signal(SignalKind::hangup()).expect("signals");
        let watching = watch::Watch::new(&config, Outside::real(), &loaded);
        let (tell, news) = mpsc::channel(1);
        tokio::spawn(watch::run(watching, hangup, || {}, tell));
        let mut daemon = Daemon::open(loaded, Service::default()).await.expect("a daemon");
        daemon.lend(ProviderId::new("local"), yard);
        let board = show_board(Arc::clone(daemon.registry()));
        println!("{} {board}", daemon.address());
        daemon.run(news, stop).await
    });
    ended.expect("a system").expect("a daemon");
}

/// Answers whoever connects with how many instances have an owner, and how many are idle.
fn show_board(registry: Arc<Registry>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("a port");
    std::thread::spawn(move || {
        for mut visitor in listener.incoming().filter_map(Result::ok) {
            let rows = registry.instances();
            let idle = rows.iter().filter(|row| row.state == State::Idle).count();
            // Whoever left early does not want to know.
            drop(write!(visitor, "{} {idle} {}", rows.len(), registry.violations()));
        }
    });
    address
}
