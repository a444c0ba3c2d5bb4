//! Pods through the whole daemon beside the same calls by a bare client, on a real API server.
//!
//! Prints the rate of whole lives (created, bound to a job, run, ended, deleted, proven gone) of both
//! in one run, their ratio, the calls each made, the daemon's processor time and memory, and what a
//! watch over many pods costs. `OSTLER_PODS=2000` lives, `OSTLER_ABREAST=200` at a time,
//! `OSTLER_VIEWS=10000` pods under the watch; 0 leaves a part out.

#![expect(clippy::unwrap_used, reason = "a program of its own that stops at the first surprise")]
#![expect(clippy::panic, reason = "a bench that cannot measure stops")]
#![expect(clippy::disallowed_methods, reason = "the played GitHub measures real time")]

mod bare;
mod farm;
#[path = "../fleet/forge.rs"]
mod forge;
mod played;
mod views;

#[path = "../../support"]
mod support {
    #![expect(dead_code, reason = "the tests use the rest")]

    pub(crate) mod cluster;
    pub(crate) mod kubelet;
    pub(crate) mod skip;
}

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use support::cluster::Cluster;

fn main() {
    if std::env::args().any(|word| word == "forge") {
        forge::serve().expect("a server");
        return;
    }
    tokio::runtime::Runtime::new().unwrap().block_on(Box::pin(all()));
}

/// In how many turns the two take their lives: what else the machine does then falls on both.
const ROUNDS: usize = 4;

async fn all() {
    let Some(cluster) = Cluster::shared().await else { return };
    let (pods, abreast) = (number("OSTLER_PODS", 2000), number("OSTLER_ABREAST", 200));
    if pods > 0 {
        Box::pin(compare(&cluster, pods / ROUNDS, abreast)).await;
    }
    views::measure(&cluster.place().await, number("OSTLER_VIEWS", 10_000)).await;
}

/// Lets the bare client and the daemon live in turns, and prints how they compare.
async fn compare(cluster: &Arc<Cluster>, pods: usize, abreast: usize) {
    let mut client = bare::Bare::start(cluster.place().await, abreast).await;
    let mut farm = farm::Farm::start(cluster.place().await, abreast).await;
    // The first lives warm caches and connections up.
    client.live(abreast).await;
    farm.live(abreast).await;
    let (mut theirs, mut ours) = (Sum::default(), Sum::default());
    let before = farm.cost();
    for _ in 0..ROUNDS {
        theirs.add(cluster, pods, client.live(pods)).await;
        ours.add(cluster, pods, farm.live(pods)).await;
    }
    let after = farm.cost();
    theirs.print("a bare client");
    ours.print("the daemon");
    let spent = after.0.saturating_sub(before.0).as_secs_f64();
    println!(
        "kubernetes: the daemon: {:.1} s of processor time ({:.2} ms a life), {} MiB resident",
        spent,
        spent * 1e3 / per(ours.pods),
        after.1 >> 10,
    );
    farm.check();
    let ratio = 100.0 * ours.rate() / theirs.rate();
    println!("kubernetes: daemon/bare = {ratio:.0} % (goal: 70 %), {}", load());
}

#[derive(Default)]
struct Sum {
    pods: usize,
    took: Duration,
    rounds: Vec<f64>,
    calls: BTreeMap<String, u64>,
}

impl Sum {
    /// Lets a turn pass.
    async fn add(&mut self, cluster: &Arc<Cluster>, pods: usize, lives: impl Future<Output = ()>) {
        let before = cluster.all_calls().await;
        let began = Instant::now();
        lives.await;
        let took = began.elapsed();
        for (kind, calls) in cluster.all_calls().await {
            let new = calls - before.get(&kind).copied().unwrap_or_default();
            *self.calls.entry(kind).or_default() += new;
        }
        self.pods += pods;
        self.took += took;
        self.rounds.push(per(pods) / took.as_secs_f64());
    }

    fn rate(&self) -> f64 {
        per(self.pods) / self.took.as_secs_f64()
    }

    fn print(&self, whose: &str) {
        let rounds: Vec<String> = self.rounds.iter().map(|rate| format!("{rate:.1}")).collect();
        println!(
            "kubernetes: {whose}: {} pods in {:.1?}, {:.1} lives/s (by turns {})",
            self.pods,
            self.took,
            self.rate(),
            rounds.join(", ")
        );
        let a_life =
            |calls: &u64| per(usize::try_from(*calls).unwrap_or_default()) / per(self.pods);
        let calls = self.calls.iter().filter(|(_, calls)| a_life(calls) >= 0.01);
        let calls: Vec<String> =
            calls.map(|(kind, calls)| format!("{kind} {:.2}", a_life(calls))).collect();
        println!("kubernetes: {whose}: calls a life, players included: {}", calls.join(", "));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn per(pods: usize) -> f64 {
    pods as f64
}

fn number(key: &str, usual: usize) -> usize {
    std::env::var(key).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load {}", text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

/// Returns the processor time of a process.
fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Returns the resident memory of a process in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
