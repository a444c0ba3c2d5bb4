//! What a service manager such as systemd is told, by the protocol of `sd_notify(3)`.
//!
//! | when | what |
//! |---|---|
//! | HTTP is served, leading or standing by | `READY=1` |
//! | an operator asks for a reload, and when it is done or refused | `RELOADING=1`, `READY=1` |
//! | something changes | `STATUS=` and a sentence |
//! | it was asked to stop | `STOPPING=1` |
//! | every quarter of the watchdog's patience, if all is well | `WATCHDOG=1` |
//!
//! The watchdog is fed only if the fleet answers from its mailbox. A fleet that waits for a silent
//! store is well all the same: to restart the daemon would not bring the store back.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use ostler_actors::fleet::ToFleet;
use ostler_actors::mail::ActorRef;
use ostler_actors::ports::Records;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::config::ServiceManager;
use crate::ports::{Shown, Stage};

/// Speaks to the service manager that started the daemon, if there is one.
#[derive(Clone, Default)]
pub struct Service(Option<Arc<Line>>);

struct Line {
    socket: UnixDatagram,
    to: SocketAddr,
    watchdog: Option<Duration>,
}

impl Service {
    /// Speaks to a service manager.
    pub fn to(manager: &ServiceManager) -> io::Result<Self> {
        let to = match manager.socket.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&manager.socket)?,
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not listen must not hold up the daemon.
        socket.set_nonblocking(true)?;
        Ok(Self(Some(Arc::new(Line { socket, to, watchdog: manager.watchdog }))))
    }

    /// Tells that a reload begins. Its end is told by [`Service::ready`].
    pub fn reloading(&self) {
        // systemd wants to know that this is the answer to its own request, and compares clocks.
        let now = clock_gettime(ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// Tells that the daemon does its work, with the configuration it has.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    fn tell(&self, what: &str) {
        let Some(line) = &self.0 else { return };
        if let Err(why) = line.socket.send_to_addr(what.as_bytes(), &line.to) {
            debug!("the service manager does not hear `{what}`: {why}");
        }
    }

    fn watchdog(&self) -> Option<Duration> {
        self.0.as_ref().and_then(|line| line.watchdog)
    }
}

/// Keeps the service manager informed until the daemon stops.
pub(super) async fn inform(
    service: Service,
    mut status: watch::Receiver<Shown>,
    fleet: ActorRef<ToFleet>,
    records: Arc<dyn Records>,
) {
    let feeding = service.watchdog().map(|timeout| {
        actix_rt::spawn(feed(service.clone(), timeout / 4, status.clone(), fleet, records))
    });
    let mut ready = false;
    loop {
        let shown = status.borrow_and_update().clone();
        match shown.stage {
            Stage::Standby | Stage::Leading if !ready => {
                ready = true;
                service.ready();
            }
            Stage::Starting | Stage::Standby | Stage::Leading => {}
            Stage::Stopping => service.tell("STOPPING=1"),
        }
        service.tell(&format!("STATUS={}", sentence(&shown)));
        if shown.stage == Stage::Stopping || status.changed().await.is_err() {
            break;
        }
    }
    if let Some(feeding) = feeding {
        feeding.abort();
    }
}

/// Feeds the watchdog for as long as all is well.
async fn feed(
    service: Service,
    period: Duration,
    status: watch::Receiver<Shown>,
    fleet: ActorRef<ToFleet>,
    records: Arc<dyn Records>,
) {
    let mut ticks = tokio::time::interval(period);
    loop {
        ticks.tick().await;
        let stage = status.borrow().stage;
        if is_well(stage, period, &fleet, &*records).await {
            service.tell("WATCHDOG=1");
        } else {
            warn!("the fleet does not answer, though the store does: the watchdog is not fed");
        }
    }
}

/// Returns whether the fleet answers, or has a reason not to that a restart would not remove.
async fn is_well(
    stage: Stage,
    timeout: Duration,
    fleet: &ActorRef<ToFleet>,
    records: &dyn Records,
) -> bool {
    match stage {
        // There is no fleet; that this runs shows that its thread does.
        Stage::Starting | Stage::Standby | Stage::Stopping => true,
        Stage::Leading => {
            fleet.ask(ToFleet::Ping, timeout).await.is_ok() || !answers(records, timeout).await
        }
    }
}

async fn answers(records: &dyn Records, timeout: Duration) -> bool {
    matches!(tokio::time::timeout(timeout, records.controller()).await, Ok(Ok(_)))
}

/// Says in one line how the daemon is.
fn sentence(shown: &Shown) -> String {
    let stage = match shown.stage {
        Stage::Starting => "starting",
        Stage::Standby => "standing by: another daemon holds the lease",
        Stage::Leading => "leading",
        Stage::Stopping => "stopping; no machine is touched",
    };
    match &shown.config_problem {
        None => stage.into(),
        Some(problem) => {
            let first = problem.lines().next().unwrap_or_default();
            format!("{stage}; the last edit of the configuration is not in force: {first}")
        }
    }
}

#[cfg(test)]
mod tests {
    use ostler_actors::mail::Mailbox;

    use super::*;
    use crate::store::{Options, SqlStore};

    #[test]
    fn the_status_is_one_line_whatever_is_wrong_with_the_configuration() {
        let mut shown = Shown { stage: Stage::Leading, ..Shown::default() };
        assert_eq!(sentence(&shown), "leading");
        shown.config_problem = Some("error: no such pool\n  --> a.toml:1".into());
        assert_eq!(
            sentence(&shown),
            "leading; the last edit of the configuration is not in force: error: no such pool"
        );
    }

    #[tokio::test]
    async fn a_silent_fleet_is_ill_unless_it_waits_for_a_silent_store() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("a.db").display());
        let store = SqlStore::open(&url, Options::default()).await.unwrap();
        let fleet = ActorRef::default();
        let well = async |stage| is_well(stage, Duration::from_millis(200), &fleet, &store).await;
        assert!(well(Stage::Standby).await, "a standby has no fleet");
        assert!(!well(Stage::Leading).await, "no fleet is installed");

        let messages = std::sync::Mutex::new(Vec::new());
        fleet.install(Mailbox::new(move |message| {
            messages.lock().unwrap().push(message);
            Ok(())
        }));
        assert!(!well(Stage::Leading).await, "messages are taken and never read");
        store.clone().close().await;
        assert!(well(Stage::Leading).await, "the store is to blame");

        fleet.install(Mailbox::new(|message| {
            if let ToFleet::Ping(reply) = message {
                reply.send(());
            }
            Ok(())
        }));
        assert!(well(Stage::Leading).await, "it answers");
    }

    #[test]
    fn a_manager_that_does_not_listen_is_no_failure() {
        let manager = ServiceManager { socket: "/nowhere/at/all".into(), watchdog: None };
        Service::to(&manager).unwrap().ready();
        Service::default().ready();
    }
}
