//! The jobs of the demo: most end well, the rest dies in every interesting way.

use ostler_actors::model::{Labels, Place};

use super::agent::{Deed, Script};
use super::github::JobWish;

/// The job that alone wants its kind of runner: no other can bring one along by chance.
pub(super) const RARE: u32 = 1;

/// Returns where all jobs come from.
pub(super) fn place() -> Place {
    Place { owner: "acme".into(), repository: "web".into(), enterprise: None }
}

/// Returns the n-th job.
pub(super) fn wish(number: u32) -> JobWish {
    let deed = match number % 20 {
        3 => Deed::Kill,
        5 | 13 => Deed::Fail,
        7 => Deed::Abort,
        9 => Deed::Devour,
        11 => Deed::Hang,
        14 => Deed::Crash,
        16 => Deed::Vanish,
        18 => Deed::Terminate,
        _ => Deed::Succeed,
    };
    let size = match number {
        RARE => "gpu",
        number if number % 4 == 1 => "large",
        _ => "small",
    };
    let script = Script { deed, millis: 300 + u64::from(number % 7) * 250 };
    JobWish {
        name: format!("{} {number}", name(deed)),
        labels: Labels::from_iter(["self-hosted", size]),
        script: serde_json::json!(script),
    }
}

fn name(deed: Deed) -> &'static str {
    match deed {
        Deed::Succeed => "build",
        Deed::Fail => "test that fails",
        Deed::Kill => "job whose runner is killed",
        Deed::Terminate => "job whose runner is told to stop",
        Deed::Abort => "job that fills the disk",
        Deed::Crash => "job whose runner crashes",
        Deed::Devour => "job that takes all memory",
        Deed::Hang => "job whose runner hangs",
        Deed::Vanish => "job whose runner vanishes",
    }
}
