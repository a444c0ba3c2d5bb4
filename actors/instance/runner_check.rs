//! Whether the runner still serves the forge.
//!
//! A listing that shows a runner offline, or does not name it, only raises a suspicion; two direct
//! reads, [`CONFIRM_AFTER`] apart, prove it. A runner that was seen online since is above suspicion.

use std::time::Duration;

use super::effect::Effect;
use super::transition::Transition;
use crate::model::{Reason, Registration, RunnerView, Sighting, State, Timestamp, after, elapsed};

/// How far apart the two reads must be that prove a runner offline.
const CONFIRM_AFTER: Duration = Duration::from_mins(1);
/// How long to wait after a read that failed.
const READ_RETRY_DELAY: Duration = Duration::from_secs(15);

#[derive(Clone, Debug, Default)]
pub(super) struct RunnerCheck {
    /// Whether a listing showed the runner of an idle instance offline, or not at all.
    suspected: bool,
    /// When the first of the current row of direct reads that showed it so began.
    since: Option<Timestamp>,
    /// Whether two such reads are in.
    proven: bool,
    /// Whether the last of them did not find the registration.
    absent: bool,
    /// When the runner may be read again.
    read_at: Option<Timestamp>,
    /// When the runner was last shown online; what was asked before that is old.
    last_online: Option<Timestamp>,
}

impl RunnerCheck {
    /// Reads the runner until two direct reads call it offline or do not find it; returns whether
    /// they did.
    pub(super) fn drive(&mut self, ctx: &mut Transition<'_>) -> bool {
        if self.proven {
            return true;
        }
        let due = match self.read_at {
            Some(at) => ctx.is_time(at),
            None => true,
        };
        if due && let Registration::Known { name, id } = ctx.row.registration.clone() {
            ctx.start(Effect::ReadRunner(name, Some(id)));
        }
        false
    }

    /// Takes a registration as a listing or a direct read shows it.
    pub(super) fn seen(&mut self, view: &RunnerView, ctx: &mut Transition<'_>) {
        // `busy` lies both ways (actions/runner#4422); only `online` is used, and only to rise.
        if !ctx.row.answers_to(&view.name) {
            return;
        }
        if view.online {
            *self = Self { last_online: Some(ctx.now), ..Self::default() };
        } else {
            Self::missed(ctx);
        }
        if view.online && ctx.row.ready_at.is_none() {
            ctx.row.ready_at = Some(ctx.now);
            ctx.row.once_started = true;
        }
    }

    /// Takes a listing that shows the runner offline or not at all: the ledger asks about the job
    /// at work here.
    pub(super) fn missed(ctx: &mut Transition<'_>) {
        if ctx.row.state == State::Busy && ctx.is_working() {
            ctx.report_runner_lost();
        }
    }

    /// Takes a direct read of the runner.
    pub(super) fn read(
        &mut self,
        begun: Timestamp,
        seen: &Sighting<RunnerView>,
        ctx: &mut Transition<'_>,
    ) {
        let is_old = self.last_online.is_some_and(|online| begun < online);
        match seen {
            Sighting::Seen(view) if view.online => self.seen(view, ctx),
            Sighting::Seen(_) | Sighting::Absent if is_old => {}
            Sighting::Seen(_) | Sighting::Absent => {
                self.absent = *seen == Sighting::Absent;
                match self.since {
                    Some(first) if elapsed(first, begun) >= CONFIRM_AFTER => self.proven = true,
                    Some(_) => {}
                    None => {
                        self.since = Some(begun);
                        self.read_at = Some(after(begun, CONFIRM_AFTER));
                    }
                }
            }
            Sighting::Unknown(_) => self.read_at = Some(after(ctx.now, READ_RETRY_DELAY)),
        }
    }

    /// Begins the check of an idle runner, unless it is under way.
    pub(super) fn suspect(&mut self) {
        if !self.suspected {
            let last_online = self.last_online;
            *self = Self { suspected: true, last_online, ..Self::default() };
        }
    }

    pub(super) fn is_suspected(&self) -> bool {
        self.suspected
    }

    /// Returns whether two direct reads proved that the runner is of no use.
    pub(super) fn is_proven(&self) -> bool {
        self.proven
    }

    /// Returns why a runner that is proven to be of no use is removed.
    pub(super) fn removal(&self) -> (Reason, &'static str) {
        if self.absent {
            (Reason::Unregistered, "its registration is gone")
        } else {
            (Reason::Offline, "its runner is offline")
        }
    }
}
