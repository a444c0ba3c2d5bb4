//! What goes wrong, and how often.
//!
//! Every world draws a *weather* from its seed: calm, one lying side, or everything at once.
//! Some lies no rule can survive (see the documentation of the promises); they are not in
//! here at all: absence never lies twice running, a machine's witness is silent but never
//! wrong, a worker starts sooner than `idle_confirm`, and *cancel* and *nasty* do not meet
//! where machines have no witness.

use super::dice::{Dice, Rate};

/// Names the kind of trouble a world is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weather {
    /// Slow at times, never wrong.
    Calm,
    /// The forge loses, lies and refuses.
    LyingForge,
    /// The provider fails, forgets and lies.
    LyingProvider,
    /// Machines die in every way there is.
    Deadly,
    /// The store fails and the daemon crashes.
    Crashing,
    Everything,
}

impl Weather {
    pub const ALL: [Self; 6] = [
        Self::Calm,
        Self::LyingForge,
        Self::LyingProvider,
        Self::Deadly,
        Self::Crashing,
        Self::Everything,
    ];
}

/// Holds the rates of all faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub forge: ForgeFaults,
    pub provider: ProviderFaults,
    pub machine: MachineFaults,
    /// The store's and the daemon's.
    pub store: StoreFaults,
    pub people: PeopleFaults,
}

/// Holds the forge's faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgeFaults {
    /// A webhook is never delivered.
    pub hook_lost: Rate,
    /// A webhook is delivered twice, under one id or under two.
    pub hook_doubled: Rate,
    /// A webhook is minutes late, so that others overtake it.
    pub hook_reordered: Rate,
    /// A webhook is hours late.
    pub hook_late: Rate,
    /// A delivery of another organization arrives here.
    pub hook_strange: Rate,
    /// `busy` or `online` of a direct read or a listing is stale.
    pub runner_stale: Rate,
    /// A direct read of an existing runner says 404; never twice running.
    pub runner_false_404: Rate,
    pub read_fails: Rate,
    pub list_fails: Rate,
    /// A listing misses the young and shows the gone.
    pub list_lags: Rate,
    /// A mint was made and its answer is lost.
    pub mint_lost: Rate,
    /// A mint was not made and not answered.
    pub mint_vain: Rate,
    /// A mint is repeated on its way: the first was made, the second finds its name taken (409).
    pub mint_taken: Rate,
    /// A mint is put off.
    pub mint_later: Rate,
    /// A mint is refused.
    pub mint_refused: Rate,
    /// A removal fails without effect.
    pub deregister_fails: Rate,
    /// A removal is done and its answer is lost.
    pub deregister_lost: Rate,
    /// A removal of an existing runner says 404; shares the lie with `runner_false_404`.
    pub deregister_false_404: Rate,
    /// *nasty*: a removal is accepted although a job is assigned or runs, which goes on.
    pub nasty: Rate,
    /// *lie422*: a removal of a free runner is refused as busy; at most twice running.
    pub lie422: Rate,
    /// *cancel*: a job is cancelled between its assignment and its pick-up.
    pub cancel: Rate,
    /// A job is cancelled while it is queued or runs.
    pub cancel_elsewhere: Rate,
    /// A direct read of a job says 404; never twice running.
    pub job_false_404: Rate,
    /// A run fails at start-up and leaves its job queued for ever.
    pub startup_failure: Rate,
    /// An assignment is not picked up and lapses after 60 s.
    pub missed_assignment: Rate,
    /// A job whose runner went away under it is given back to the queue instead of called lost.
    pub given_back: Rate,
    /// Points a minute that all calls may cost; zero is no limit.
    pub points: u32,
    /// A call is slow.
    pub slow: Rate,
    /// A call has its effect, and its adapter panics over the answer.
    pub panics: Rate,
}

/// Holds the provider's faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderFaults {
    /// A create is refused, and vouched for.
    pub create_refused: Rate,
    /// A create answers an error and the machine comes anyway.
    pub create_refused_comes: Rate,
    /// A create is done and its answer lost.
    pub create_lost: Rate,
    /// A create is neither done nor answered.
    pub create_vain: Rate,
    /// A create never answers.
    pub create_hangs: Rate,
    /// A machine comes after everybody stopped waiting for it.
    pub create_too_late: Rate,
    /// A delete fails without effect.
    pub delete_fails: Rate,
    /// A delete is done and its answer lost.
    pub delete_lost: Rate,
    /// A delete is accepted and nothing happens.
    pub delete_lies: Rate,
    pub list_fails: Rate,
    /// A listing is empty by mistake and calls itself complete.
    pub list_empty: Rate,
    /// A listing misses any machine and calls itself complete.
    pub list_partial: Rate,
    /// A listing misses the young and shows the gone.
    pub list_lags: Rate,
    pub read_fails: Rate,
    /// A read of an existing machine says absent; never twice running.
    pub read_false_absent: Rate,
    /// The machine's witness does not answer.
    pub witness_silent: Rate,
    /// The remains take longer than anybody waits.
    pub exit_report_slow: Rate,
    /// The remains cannot be had.
    pub exit_report_fail: Rate,
    /// A change is not told to the watcher.
    pub watch_lost: Rate,
    /// A change is told late.
    pub watch_late: Rate,
    /// The answer to a machine that asks for work is lost.
    pub dispatch_lost: Rate,
    /// A call is slow.
    pub slow: Rate,
    /// A call has its effect, and its adapter panics over the answer.
    pub panics: Rate,
}

/// Holds what happens to machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFaults {
    /// It never boots: unschedulable, no image, or for no reason.
    pub never_boots: Rate,
    pub slow_boot: Rate,
    /// It dies before its runner is ready.
    pub dies_booting: Rate,
    /// It dies while it waits.
    pub dies_idle: Rate,
    /// It dies under a job.
    pub dies_busy: Rate,
    /// Its runner ends in an odd way after the job.
    pub odd_exit: Rate,
    /// Its process is dead and no report says so.
    pub hangs: Rate,
    /// A host is lost with all machines on it, for each job that arrives.
    pub host_lost: Rate,
    /// Its provider is in doubt about it for a while.
    pub doubt: Rate,
}

/// Holds the store's faults, and crashes of the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFaults {
    /// A save fails without effect.
    pub save_fails: Rate,
    /// A save is done and its answer lost.
    pub save_lost: Rate,
    pub read_fails: Rate,
    /// A call takes a moment.
    pub slow: Rate,
    /// A call takes half a minute.
    pub stalls: Rate,
    /// The inbox does not take a delivery.
    pub inbox_fails: Rate,
    /// The daemon crashes before a save.
    pub crash_before: Rate,
    /// The daemon crashes after a save.
    pub crash_after: Rate,
    /// The daemon crashes at a read.
    pub crash_reading: Rate,
    /// The daemon crashes between an effect outside and its answer.
    pub crash_effect: Rate,
    /// The writing actor panics.
    pub panics: Rate,
    /// The record of a living instance is lost with a crash, as by a backup that is restored.
    pub record_lost: Rate,
    /// The row of a living instance cannot be decoded from a crash to the next one.
    pub row_unreadable: Rate,
}

/// Holds what people do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeopleFaults {
    /// A stranger deletes a machine at the provider, for each job that arrives.
    pub deletes_machine: Rate,
    /// An operator asks for an instance to be deleted.
    pub requests_delete: Rate,
    /// An operator forces an instance.
    pub forces: Rate,
    /// An operator drains a pool for a while.
    pub drains: Rate,
    /// The config changes a pool's machines.
    pub rolls: Rate,
    /// The config loses a pool for a while.
    pub removes_pool: Rate,
    /// An administrator removes the registration of a free runner at the forge.
    pub unregisters: Rate,
    /// The daemon is restarted in an orderly way.
    pub restarts: Rate,
}

impl Faults {
    /// Returns no faults at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// Draws the faults of a weather. `blind` tells whether some machines have no witness.
    pub fn draw(weather: Weather, blind: bool, dice: &mut Dice) -> Self {
        let mut faults = Self::none();
        let everything = weather == Weather::Everything;
        if everything || weather == Weather::LyingForge {
            faults.forge = ForgeFaults::draw(dice, blind);
        }
        if everything || weather == Weather::LyingProvider {
            faults.provider = ProviderFaults::draw(dice);
        }
        if everything || weather == Weather::Deadly {
            faults.machine = MachineFaults::draw(dice);
            faults.people = PeopleFaults::draw(dice);
        }
        if everything || weather == Weather::Crashing {
            faults.store = StoreFaults::draw(dice);
        }
        faults.forge.slow = up_to(dice, 300);
        faults.provider.slow = up_to(dice, 300);
        faults.store.slow = up_to(dice, 1000);
        faults.machine.slow_boot = up_to(dice, 500);
        faults
    }

    /// Ends all lies and crashes: what is broken stays broken, nothing new breaks.
    pub fn calm(&mut self) {
        *self = Self::none();
    }

    /// Returns whether nothing new breaks.
    pub fn is_calm(&self) -> bool {
        *self == Self::none()
    }
}

/// Draws a rate; half of the time there is none at all, so that worlds differ in kind.
fn up_to(dice: &mut Dice, most: u64) -> Rate {
    if dice.hits(5_000) {
        return 0;
    }
    Rate::try_from(dice.between(most / 10, most)).unwrap_or(Rate::MAX)
}

impl ForgeFaults {
    fn draw(dice: &mut Dice, blind: bool) -> Self {
        let mut faults = Self {
            hook_lost: up_to(dice, 3000),
            hook_doubled: up_to(dice, 2000),
            hook_reordered: up_to(dice, 3000),
            hook_late: up_to(dice, 300),
            hook_strange: up_to(dice, 500),
            runner_stale: up_to(dice, 3000),
            runner_false_404: up_to(dice, 1500),
            read_fails: up_to(dice, 1500),
            list_fails: up_to(dice, 1500),
            list_lags: up_to(dice, 3000),
            mint_lost: up_to(dice, 800),
            mint_vain: up_to(dice, 500),
            mint_taken: up_to(dice, 500),
            mint_later: up_to(dice, 1000),
            mint_refused: up_to(dice, 100),
            deregister_fails: up_to(dice, 1500),
            deregister_lost: up_to(dice, 1000),
            deregister_false_404: up_to(dice, 1500),
            nasty: up_to(dice, 8000),
            lie422: up_to(dice, 3000),
            cancel: up_to(dice, 1500),
            cancel_elsewhere: up_to(dice, 800),
            job_false_404: up_to(dice, 1500),
            startup_failure: up_to(dice, 200),
            missed_assignment: up_to(dice, 1000),
            given_back: up_to(dice, 5000),
            points: 0,
            slow: 0,
            panics: 0,
        };
        if dice.hits(2_000) {
            faults.points = u32::try_from(dice.between(15, 200)).unwrap_or(200);
        }
        if blind && faults.nasty > 0 && faults.cancel > 0 {
            if dice.hits(5_000) { faults.nasty = 0 } else { faults.cancel = 0 }
        }
        faults.panics = up_to(dice, 300);
        faults
    }
}

impl ProviderFaults {
    fn draw(dice: &mut Dice) -> Self {
        Self {
            create_refused: up_to(dice, 800),
            create_refused_comes: up_to(dice, 500),
            create_lost: up_to(dice, 800),
            create_vain: up_to(dice, 300),
            create_hangs: up_to(dice, 300),
            create_too_late: up_to(dice, 300),
            delete_fails: up_to(dice, 2000),
            delete_lost: up_to(dice, 1500),
            delete_lies: up_to(dice, 1500),
            list_fails: up_to(dice, 2000),
            list_empty: up_to(dice, 1500),
            list_partial: up_to(dice, 1500),
            list_lags: up_to(dice, 3000),
            read_fails: up_to(dice, 2000),
            read_false_absent: up_to(dice, 1000),
            witness_silent: up_to(dice, 3000),
            exit_report_slow: up_to(dice, 1000),
            exit_report_fail: up_to(dice, 1500),
            watch_lost: up_to(dice, 5000),
            watch_late: up_to(dice, 2000),
            dispatch_lost: up_to(dice, 2000),
            slow: 0,
            panics: up_to(dice, 300),
        }
    }
}

impl MachineFaults {
    fn draw(dice: &mut Dice) -> Self {
        Self {
            never_boots: up_to(dice, 500),
            slow_boot: 0,
            dies_booting: up_to(dice, 500),
            dies_idle: up_to(dice, 800),
            dies_busy: up_to(dice, 1500),
            odd_exit: up_to(dice, 1500),
            hangs: up_to(dice, 500),
            host_lost: up_to(dice, 150),
            doubt: up_to(dice, 1000),
        }
    }
}

impl StoreFaults {
    fn draw(dice: &mut Dice) -> Self {
        Self {
            save_fails: up_to(dice, 800),
            save_lost: up_to(dice, 800),
            read_fails: up_to(dice, 800),
            slow: 0,
            stalls: up_to(dice, 100),
            inbox_fails: up_to(dice, 1000),
            crash_before: up_to(dice, 30),
            crash_after: up_to(dice, 30),
            crash_reading: up_to(dice, 60),
            crash_effect: up_to(dice, 60),
            panics: up_to(dice, 60),
            record_lost: up_to(dice, 5000),
            row_unreadable: up_to(dice, 3000),
        }
    }
}

impl PeopleFaults {
    fn draw(dice: &mut Dice) -> Self {
        Self {
            deletes_machine: up_to(dice, 300),
            requests_delete: up_to(dice, 300),
            forces: up_to(dice, 150),
            drains: up_to(dice, 100),
            rolls: up_to(dice, 100),
            removes_pool: up_to(dice, 150),
            unregisters: up_to(dice, 500),
            restarts: up_to(dice, 100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nasty_and_cancel_never_meet_where_machines_have_no_witness() {
        for seed in 0..500 {
            let mut dice = Dice::new(seed, 0);
            let faults = Faults::draw(Weather::Everything, true, &mut dice);
            assert!(faults.forge.nasty == 0 || faults.forge.cancel == 0);
        }
    }
}
