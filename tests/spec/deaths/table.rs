//! Every row of the verdict table: a way to end, and what it must be called.

use ostler_actors::model::{State, VerdictClass};
use ostler_actors::testing::{CreatePlan, Death, Fate, Plan, Watched, pool};

use crate::spec::story::Tell as _;
use crate::spec::{MINUTE, SECOND};

/// Names a way to end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    Working(Death),
    Leaving(Death),
    /// Ready, before any job came.
    Waiting(Death),
    /// Before its runner was ready.
    Booting(Death),
    /// Never ready, with the provider's word for it or without one.
    NeverUp(Option<&'static str>),
    Refused,
    /// Deleted by a stranger, and gone before it was seen to end.
    DeletedByOthers,
    /// Forced by an operator.
    Forced,
    /// Dead inside, while its job's end names no runner.
    Zombie,
}

/// How many classes a verdict has.
pub(super) const CLASSES: usize = 25;

/// The table: each death of the simulation, and each class of the contract.
pub(super) const TABLE: [(Way, VerdictClass); 32] = [
    (Way::Leaving(Death::Clean), VerdictClass::Clean),
    (Way::Leaving(Death::BareZero), VerdictClass::Clean),
    (Way::Leaving(Death::Unreported), VerdictClass::Unreported),
    (Way::Waiting(Death::Clean), VerdictClass::Wasted),
    (Way::Working(Death::Clean), VerdictClass::HandshakeLost),
    (Way::Working(Death::RunnerError), VerdictClass::RunnerError),
    (Way::Working(Death::HostFailed), VerdictClass::RunnerError),
    (Way::Working(Death::Outdated), VerdictClass::OutdatedRunner),
    (Way::Working(Death::HostOom), VerdictClass::HostOom),
    (Way::Working(Death::GuestKilled), VerdictClass::GuestKilled),
    (Way::Working(Death::Invented), VerdictClass::Unknown),
    (Way::Working(Death::Terminated), VerdictClass::Terminated),
    (Way::Working(Death::Signalled), VerdictClass::Terminated),
    (Way::Working(Death::Aborted), VerdictClass::Aborted),
    (Way::Working(Death::Crashed), VerdictClass::Crashed),
    (Way::Working(Death::Evicted), VerdictClass::Evicted),
    (Way::Working(Death::Preempted), VerdictClass::Preempted),
    (Way::Working(Death::Deadline), VerdictClass::Deadline),
    (Way::Working(Death::NodeLost), VerdictClass::NodeLost),
    (Way::Working(Death::Unreported), VerdictClass::Unreported),
    (Way::Working(Death::Wordless), VerdictClass::Unreported),
    (Way::Working(Death::Vanished), VerdictClass::Vanished),
    (Way::Working(Death::Hung), VerdictClass::Removed),
    (Way::Booting(Death::ImagePull), VerdictClass::ImagePull),
    (Way::Booting(Death::PollerFailed), VerdictClass::BootFailed),
    (Way::NeverUp(Some("Unschedulable")), VerdictClass::Unschedulable),
    (Way::NeverUp(Some("ImagePullBackOff")), VerdictClass::ImagePull),
    (Way::NeverUp(None), VerdictClass::BootFailed),
    (Way::Refused, VerdictClass::CreateFailed),
    (Way::DeletedByOthers, VerdictClass::DeletedExternally),
    (Way::Forced, VerdictClass::Forced),
    (Way::Zombie, VerdictClass::Zombie),
];

impl Way {
    /// Returns the death it is about.
    pub(super) fn death(self) -> Option<Death> {
        match self {
            Self::Working(death)
            | Self::Leaving(death)
            | Self::Waiting(death)
            | Self::Booting(death) => Some(death),
            Self::Zombie => Some(Death::Hung),
            Self::NeverUp(_) | Self::Refused | Self::DeletedByOthers | Self::Forced => None,
        }
    }

    /// Returns a world in which it can happen.
    pub(super) fn plan(self) -> Plan {
        let provider = match self {
            // Only split machines have a poller, and a word for why they do not come up.
            Self::Booting(_) | Self::NeverUp(Some(_)) => "split",
            Self::Working(_)
            | Self::Leaving(_)
            | Self::Waiting(_)
            | Self::NeverUp(None)
            | Self::Refused
            | Self::DeletedByOthers
            | Self::Forced
            | Self::Zombie => "witness",
        };
        let mut spec = pool("linux", provider, 2);
        // Long enough to see each runner leave by itself.
        spec.policy.linger = MINUTE;
        Plan::quiet(vec![spec])
    }

    /// Plans the end before anything exists.
    pub(super) fn prepare(self, world: &Watched) {
        match self {
            Self::Working(death) => world.next_machine(Fate::DiesWorking(30_000, death)),
            Self::Zombie => world.next_machine(Fate::DiesWorking(30_000, Death::Hung)),
            Self::Leaving(death) => world.next_machine(Fate::Ends(death)),
            Self::Booting(death) => world.next_machine(Fate::Dies(50, death)),
            Self::NeverUp(Some(reason)) => world.next_machine(Fate::StuckAs(reason)),
            Self::NeverUp(None) => world.next_machine(Fate::NeverBoots),
            Self::Refused => world.next_create(CreatePlan::Refused),
            Self::Waiting(_) => world.hold_assignments(),
            Self::DeletedByOthers | Self::Forced => {}
        }
    }

    /// Brings the end about, where it does not come by itself.
    pub(super) async fn strike(self, world: &mut Watched, job: u64) {
        let row = world.only();
        match self {
            Self::Waiting(death) => {
                world.until(&row.id, State::Idle, 2 * MINUTE).await;
                world.kill(&row.machine, death);
                world.free_assignments();
            }
            Self::DeletedByOthers => {
                world.until_working(&row.machine, job).await;
                world.delete_from_outside(&row.machine);
                // The watch tells that it is leaving and that it is gone, not how it ended.
                world.run_for(SECOND).await;
                world.outside().faults.provider.watch_lost = 10_000;
                let over = |world: &Watched| world.working(&row.machine).is_none();
                world.wait_for("it is over", MINUTE, over).await;
                assert!(world.exists(&row.machine), "over, and not gone");
                world.outside().faults.provider.watch_lost = 0;
            }
            Self::Forced => {
                world.until_working(&row.machine, job).await;
                world.force(&row.id);
            }
            Self::Zombie => world.end_nameless(job),
            Self::Working(_)
            | Self::Leaving(_)
            | Self::Booting(_)
            | Self::NeverUp(_)
            | Self::Refused => {}
        }
    }
}
