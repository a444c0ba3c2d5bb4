//! The whole daemon as `ostler run` runs it, with the simulated provider lent to it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ostler::config::{Outside, load, watch};
use ostler::daemon::{Daemon, Service, on_system, stop_on_signal};
use ostler_actors::model::{ProviderId, State};
use ostler_actors::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::lent_provider::LentProvider;

/// Runs a daemon until it is told to stop; says its two addresses first.
pub(crate) fn run(folder: &Path, late: Option<Duration>) {
    let config = folder.join("ostler.toml");
    ostler::telemetry::begin(Some("warn")).expect("a filter");
    let loaded = load(&config, &Outside::real()).expect("a configuration");
    let lent_provider = Arc::new(LentProvider::open(folder, late).expect("a folder"));
    let ended = on_system(async move {
        let stop = stop_on_signal().expect("signals");
        let hangup = signal(SignalKind::hangup()).expect("signals");
        let watching = watch::ConfigWatch::new(&config, Outside::real(), &loaded);
        let (tell, news) = mpsc::channel(1);
        tokio::spawn(watch::run(watching, hangup, || {}, tell));
        let mut daemon = Daemon::open(loaded, Service::default()).await.expect("a daemon");
        daemon.lend(ProviderId::new("local"), Arc::clone(&lent_provider) as _);
        let board = show_board(Arc::clone(daemon.registry()), lent_provider);
        println!("{} {board}", daemon.address());
        daemon.run(news, stop).await
    });
    ended.expect("a system").expect("a daemon");
}

/// Answers every client that connects and asks for a number. Those that are waited for cost the daemon nothing;
/// idle instances are asked for one by one.
fn show_board(registry: Arc<Registry>, lent_provider: Arc<LentProvider>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("a port");
    std::thread::spawn(move || {
        for mut visitor in listener.incoming().filter_map(Result::ok) {
            let number = match asked(&visitor).as_str() {
                "owned" => registry.len(),
                "idle" => registry.instances_where(|row| row.state == State::Idle).len(),
                "machines" => lent_provider.machine_count(),
                "created" => lent_provider.created(),
                "violations" => usize::try_from(registry.violations()).unwrap_or(usize::MAX),
                other => panic!("`{other}` is unknown"),
            };
            // A client that left early does not want the answer.
            drop(write!(visitor, "{number}"));
        }
    });
    address
}

fn asked(visitor: &TcpStream) -> String {
    let mut word = String::new();
    drop(BufReader::new(visitor).read_line(&mut word));
    word.trim().to_owned()
}
