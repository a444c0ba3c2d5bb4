//! The deadlines and budgets of a pool.

use std::time::Duration;

use ostler_actors::model::Policy;

use super::durations::written;
use super::keys::{Key, Kind};
use super::section::Section;

/// The longest time from a job's assignment to its first process, as seen at GitHub.
const WORKER_START: Duration = Duration::from_mins(1);

/// The keys of a pool that say how patient it is; `[defaults]` takes them too.
pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "boot_timeout",
        Kind::Duration { least: 1 },
        "How long a machine may take until its runner is ready.",
    )
    .or("\"5m\""),
    Key::new(
        "idle_confirm",
        Kind::Duration { least: 0 },
        "How long a deregistered runner is watched before its machine may go; \
            longer than a job takes to start.",
    )
    .or("\"90s\""),
    Key::new(
        "linger",
        Kind::Duration { least: 0 },
        "How long a machine that served its job is left to end by itself.",
    )
    .or("\"5s\""),
    Key::new(
        "zombie_after",
        Kind::Duration { least: 1 },
        "How long after its job ended a machine that lives on is called a zombie.",
    )
    .or("\"15m\""),
    Key::new("stuck_after", Kind::Duration { least: 1 }, "When slow becomes stuck.").or("\"5m\""),
    Key::new(
        "postmortem_timeout",
        Kind::Duration { least: 1 },
        "How long the post-mortem of an instance may take.",
    )
    .or("\"10s\""),
    Key::new(
        "create_settle",
        Kind::Duration { least: 1 },
        "How long an unanswered create may still make a machine; the provider's \
            call timeout when left out.",
    ),
    Key::new(
        "absence_confirm",
        Kind::Duration { least: 1 },
        "How far apart two reads must be to prove that a machine is gone.",
    )
    .or("\"60s\""),
    Key::new(
        "scale_down_after",
        Kind::Duration { least: 0 },
        "How long a surplus runner stays idle before it is asked to go.",
    )
    .or("\"300s\""),
    Key::new("max_lifetime", Kind::DurationOrOff, "The age at which an idle runner is replaced.")
        .or("\"off\""),
    Key::new(
        "start_permits",
        Kind::Whole { least: 1, most: 10_000 },
        "How many machines of the pool may be starting at once.",
    )
    .or("32"),
    Key::new(
        "start_permits_per_host",
        Kind::Whole { least: 1, most: 10_000 },
        "How many machines may be starting at once on one host, where the \
            provider has hosts.",
    )
    .or("4"),
];

/// Reads a policy. `call_timeout` is the provider's, `retire_budget` the reaper's.
pub(crate) fn read(section: &Section<'_>, call_timeout: Duration, retire_budget: u32) -> Policy {
    let standard = Policy::default();
    let duration = |key: &str, default: Duration| section.duration(key).unwrap_or(default);
    let policy = Policy {
        boot_timeout: duration("boot_timeout", standard.boot_timeout),
        idle_confirm: duration("idle_confirm", standard.idle_confirm),
        linger: duration("linger", standard.linger),
        zombie_after: duration("zombie_after", standard.zombie_after),
        stuck_after: duration("stuck_after", standard.stuck_after),
        postmortem_timeout: duration("postmortem_timeout", standard.postmortem_timeout),
        create_settle: duration("create_settle", call_timeout),
        absence_confirm: duration("absence_confirm", standard.absence_confirm),
        scale_down_after: duration("scale_down_after", standard.scale_down_after),
        max_lifetime: section.duration("max_lifetime"),
        start_permits: section.whole("start_permits").unwrap_or(standard.start_permits),
        start_permits_per_host: section
            .whole("start_permits_per_host")
            .unwrap_or(standard.start_permits_per_host),
        retire_budget,
    };
    check(section, &policy, call_timeout);
    policy
}

fn check(section: &Section<'_>, policy: &Policy, call_timeout: Duration) {
    let key = |name: &str| section.key(name);
    if policy.idle_confirm < WORKER_START {
        let what = format!(
            "`{}` is {}; GitHub may take {} from assigning a job to its first \
                    process, and a machine could be deleted in between",
            key("idle_confirm"),
            written(policy.idle_confirm),
            written(WORKER_START)
        );
        section.note(
            section
                .warning("idle_confirm", what)
                .help("write at least \"60s\"; the default is \"90s\""),
        );
    }
    if policy.create_settle < call_timeout {
        let what = format!(
            "`{}` is {}, but a call to the provider may act for {}",
            key("create_settle"),
            written(policy.create_settle),
            written(call_timeout)
        );
        section.note(section.error("create_settle", what).help(
            "leave it out, or write at least the provider's call timeout: a machine \
                could appear after it was given up",
        ));
    }
    if policy.zombie_after < policy.linger {
        let what = format!(
            "`{}` is {}, shorter than `{}` = {}",
            key("zombie_after"),
            written(policy.zombie_after),
            key("linger"),
            written(policy.linger)
        );
        section.note(section.error("zombie_after", what).help(
            "a machine must be allowed to linger before it is a zombie: raise \
                zombie_after or lower linger",
        ));
    }
    if let Some(lifetime) = policy.max_lifetime.filter(|lifetime| *lifetime <= policy.boot_timeout)
    {
        let what = format!(
            "`{}` is {}, no longer than `{}` = {}: runners would be replaced before they are ready",
            key("max_lifetime"),
            written(lifetime),
            key("boot_timeout"),
            written(policy.boot_timeout)
        );
        section.note(
            section
                .error("max_lifetime", what)
                .help("raise max_lifetime to hours, or write \"off\""),
        );
    }
}
