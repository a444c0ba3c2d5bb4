//! How fast: from a webhook to a create call, one by one and many at once.

use super::measure::{Floors, LONG, Setting, at};
use super::part::{Figure, Part};
use super::stage::{Machines, Stage, until};

/// From the moment GitHub sends a webhook to the moment the provider is called.
pub(crate) fn latency(part: &mut Part, setting: &Setting, rate: u32, floors: Floors) {
    let (from_sent, from_answer) = latency_times(setting, rate);
    let floor = floors.commit * 5.0 + floors.ask * 2.0 + spawns(setting.machines) * floors.spawn;
    let what = |which: &str| format!("webhook sent to create, {rate}/s, {}, {which}", setting.name);
    let floor_is = "five commits and two round trips, one after another";
    let goal = |figure: Figure, most: f64| if rate == 200 { figure.at_most(most) } else { figure };
    part.take(goal(
        Figure::new(what("p50"), at(&from_sent, 50), "ms").floor(floor_is, floor),
        20.0,
    ));
    let note = format!(
        "after the 202: p50 {:.1} ms, p99 {:.1} ms",
        at(&from_answer, 50),
        at(&from_answer, 99)
    );
    part.take(
        goal(Figure::new(what("p99"), at(&from_sent, 99), "ms").floor(floor_is, floor), 100.0)
            .remark(note),
    );
}

/// Returns p50 and p99 from a webhook sent to the create call, in milliseconds.
pub(crate) fn latencies(setting: &Setting, rate: u32) -> (f64, f64) {
    let (from_sent, _) = latency_times(setting, rate);
    (at(&from_sent, 50), at(&from_sent, 99))
}

/// Returns the sorted times to the create call, from the webhook sent and from its answer.
fn latency_times(setting: &Setting, rate: u32) -> (Vec<f64>, Vec<f64>) {
    let count = (rate * 10).clamp(100, 2_000);
    let mut stage = Stage::build(setting.spec(10_000));
    stage.start();
    stage.queue(u64::from(count), u64::from(rate));
    let want = usize::try_from(count).unwrap_or_default();
    until("every job has its create", LONG, || stage.created() >= want);
    let (creates, shown) = (stage.creates(), stage.forge());
    assert_eq!(creates.len(), want, "one create a job");
    // One job, one create, both in order: the n-th answers the n-th.
    let after = |from: &[u64]| -> Vec<f64> {
        let mut times: Vec<f64> = creates
            .iter()
            .zip(from)
            .map(|(at, since)| (*at as f64 - *since as f64) / 1e6)
            .collect();
        times.sort_by(f64::total_cmp);
        times
    };
    let sent: Vec<u64> = shown.sent.iter().map(|it| it.0).collect();
    let mut answered: Vec<u64> = shown.sent.iter().map(|it| it.1).collect();
    answered.sort_unstable();
    (after(&sent), after(&answered))
}

/// So many jobs at once: when is the last create called?
pub(crate) fn bursts(part: &mut Part, setting: &Setting, sizes: &[u32], floors: Floors) {
    let mut each = Vec::new();
    for size in sizes {
        let Burst { took, accepted, cpu } = burst(setting, *size);
        each.push(took / f64::from(*size));
        let floor = f64::from(*size) * (floors.ask * 2.0 + spawns(setting.machines) * floors.spawn);
        part.take(
            Figure::new(
                format!("burst of {size} jobs to the last create, {}", setting.name),
                took,
                "ms",
            )
            .floor("two round trips a job, one after another", floor)
            .remark(format!("last webhook answered after {accepted:.0} ms; CPU {cpu:.2} s")),
        );
    }
    if let (Some(first), Some(last)) = (each.iter().copied().reduce(f64::min), each.last()) {
        part.take(
            Figure::new(
                format!(
                    "growth: a job of the largest burst against the cheapest, {}",
                    setting.name
                ),
                last / first,
                "times",
            )
            .at_most(1.5),
        );
    }
}

/// Returns how many milliseconds a burst takes to the last create call.
pub(crate) fn burst_time(setting: &Setting, size: u32) -> f64 {
    burst(setting, size).took
}

/// Milliseconds to the last create and to the last answered webhook, and seconds of CPU.
struct Burst {
    took: f64,
    accepted: f64,
    cpu: f64,
}

fn burst(setting: &Setting, size: u32) -> Burst {
    let mut stage = Stage::build(setting.spec(10_000));
    stage.start();
    stage.queue(u64::from(size), 0);
    let want = usize::try_from(size).unwrap_or_default();
    until("every job has its create", LONG, || stage.created() >= want);
    let (creates, shown) = (stage.creates(), stage.forge());
    assert_eq!(creates.len(), want, "one create a job");
    let began = shown.sent.first().map_or(0, |it| it.0);
    let since = |at: u64| (at as f64 - began as f64) / 1e6;
    let answered = shown.sent.iter().map(|it| it.1).max().unwrap_or_default();
    Burst {
        took: since(creates.last().copied().unwrap_or_default()),
        accepted: since(answered),
        cpu: stage.cost().cpu,
    }
}

/// Returns how many processes a create starts before it counts: keeper and runner, or the provider.
fn spawns(machines: Machines) -> f64 {
    match machines {
        Machines::Simulated => 0.0,
        Machines::Processes => 2.0,
        Machines::External => 1.0,
    }
}
