//! Every way a machine ends, as the facts a provider would tell.

use super::Kind;
use crate::model::{ExitFacts, Timestamp};
use crate::testing::dice::Dice;
use crate::testing::script::Death;

impl Death {
    /// Returns the facts this end leaves, if it leaves any.
    pub fn facts(self, at: Timestamp) -> ExitFacts {
        let of = |code: Option<i32>, reason: &str, machine: &str| ExitFacts {
            code,
            signal: None,
            reason: Some(reason.to_owned()).filter(|word| !word.is_empty()),
            machine_reason: Some(machine.to_owned()).filter(|word| !word.is_empty()),
            part: None,
            ended_at: Some(at),
        };
        match self {
            Self::Clean => of(Some(0), "Completed", ""),
            Self::BareZero => of(Some(0), "", ""),
            Self::RunnerError => of(Some(1), "Error", ""),
            Self::Outdated => of(Some(7), "Error", ""),
            Self::Aborted => of(Some(134), "Error", ""),
            Self::HostOom => of(Some(137), "OOMKilled", ""),
            Self::GuestKilled => of(Some(137), "Error", ""),
            Self::Invented => of(Some(137), "ContainerStatusUnknown", ""),
            Self::Crashed => of(Some(139), "Error", ""),
            Self::Terminated => of(Some(143), "Error", ""),
            Self::Signalled => ExitFacts { signal: Some(15), ..of(None, "Error", "") },
            Self::HostFailed => of(Some(1), "TartRunFailed", ""),
            Self::Evicted => of(Some(137), "Error", "Evicted"),
            Self::Preempted => of(None, "", "Preempting"),
            Self::Deadline => of(None, "", "DeadlineExceeded"),
            Self::NodeLost => of(None, "", "NodeLost"),
            Self::ImagePull => of(None, "", "ErrImagePull"),
            Self::PollerFailed => {
                ExitFacts { part: Some("poller".into()), ..of(Some(1), "Error", "") }
            }
            Self::Unreported => of(Some(0), "TartRunExited", ""),
            Self::Wordless | Self::Vanished | Self::Hung => ExitFacts::default(),
        }
    }

    /// Draws an end for a machine that should not have ended.
    pub(super) fn draw(dice: &mut Dice, kind: Kind) -> Self {
        let all: &[Self] = match kind {
            Kind::Split => &[
                Self::RunnerError,
                Self::Outdated,
                Self::Aborted,
                Self::HostOom,
                Self::GuestKilled,
                Self::Invented,
                Self::Crashed,
                Self::Terminated,
                Self::Evicted,
                Self::Preempted,
                Self::Deadline,
                Self::NodeLost,
                Self::Wordless,
                Self::Vanished,
                Self::BareZero,
                Self::Clean,
            ],
            Kind::Witness => &[
                Self::RunnerError,
                Self::Outdated,
                Self::Aborted,
                Self::GuestKilled,
                Self::Crashed,
                Self::Terminated,
                Self::Signalled,
                Self::Vanished,
                Self::Clean,
            ],
            Kind::Blind => &[
                Self::Wordless,
                Self::Unreported,
                Self::HostFailed,
                Self::Vanished,
                Self::NodeLost,
            ],
        };
        dice.pick(all).copied().unwrap_or(Self::RunnerError)
    }
}
