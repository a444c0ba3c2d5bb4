//! The jobs of the demo: most end well, the rest dies in every interesting way.

use ostler_actors::model::{Labels, Place};

use super::agent::{Script, Step};
use super::github::JobPlan;

/// The job that alone wants its kind of runner: no other can bring one along by chance.
pub(super) const RARE: u32 = 1;

/// Returns where all jobs come from.
pub(super) fn place() -> Place {
    Place { owner: "acme".into(), repository: "web".into(), enterprise: None }
}

/// Returns the n-th job.
pub(super) fn plan(number: u32) -> JobPlan {
    let step = match number % 20 {
        3 => Step::Kill,
        5 | 13 => Step::Fail,
        7 => Step::Abort,
        9 => Step::Devour,
        11 => Step::Hang,
        14 => Step::Crash,
        16 => Step::Vanish,
        18 => Step::Terminate,
        _ => Step::Succeed,
    };
    let size = match number {
        RARE => "gpu",
        number if number % 4 == 1 => "large",
        _ => "small",
    };
    let script = Script { step, millis: 300 + u64::from(number % 7) * 250 };
    JobPlan {
        name: format!("{} {number}", name(step)),
        labels: Labels::from_iter(["self-hosted", size]),
        script: serde_json::json!(script),
    }
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Succeed => "build",
        Step::Fail => "test that fails",
        Step::Kill => "job whose runner is killed",
        Step::Terminate => "job whose runner is told to stop",
        Step::Abort => "job that fills the disk",
        Step::Crash => "job whose runner crashes",
        Step::Devour => "job that takes all memory",
        Step::Hang => "job whose runner hangs",
        Step::Vanish => "job whose runner vanishes",
    }
}
