//! Pods through the whole daemon beside the same calls by a bare client, on a real API server.
//!
//! Prints the rate of whole lives (created, bound to a job, run, ended, deleted, proven gone) of both
//! in one run, their ratio, the calls each made, the daemon's processor time and memory, and what a
//! watch over many pods costs. `OSTLER_PODS=2000` lives, `OSTLER_ABREAST=50` at a time,
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

async fn all() {
    let Some(cluster) = Cluster::shared().await else { return };
    let (pods, abreast) = (number("OSTLER_PODS", 2000), number("OSTLER_ABREAST", 50));
    if pods > 0 {
        // The first lives warm caches and connections up.
        bare::lives(&cluster.place().await, abreast, abreast).await;
        let place = cluster.place().await;
        let theirs = count(&cluster, "a bare client", pods, bare::lives(&place, pods, abreast));
        let theirs = Box::pin(theirs).await;
        let mut farm = farm::Farm::start(cluster.place().await, abreast).await;
        farm.live(abreast).await;
        let before = farm.cost();
        let ours = count(&cluster, "the daemon", pods, farm.live(pods)).await;
        let after = farm.cost();
        let spent = after.0.saturating_sub(before.0).as_secs_f64();
        println!(
            "kubernetes: the daemon: {:.1} s of processor time ({:.2} ms a life), {} MiB resident",
            spent,
            spent * 1e3 / per(pods),
            after.1 >> 10,
        );
        farm.check();
        println!("kubernetes: daemon/bare = {:.0} % (goal: 70 %)", 100.0 * ours / theirs);
    }
    views::measure(&cluster.place().await, number("OSTLER_VIEWS", 10_000)).await;
}

/// Lets lives pass and prints how fast, and with how many calls each; returns the rate.
async fn count(
    cluster: &Arc<Cluster>,
    whose: &str,
    pods: usize,
    lives: impl Future<Output = ()>,
) -> f64 {
    let before = cluster.all_calls().await;
    let (began, cpu) = (Instant::now(), cpu(std::process::id()));
    lives.await;
    let took = began.elapsed();
    let rate = per(pods) / took.as_secs_f64();
    println!(
        "kubernetes: {whose}: {pods} pods in {took:.1?}, {rate:.1} lives/s; {:.1} s of processor time here, {}",
        self::cpu(std::process::id()).saturating_sub(cpu).as_secs_f64(),
        load(),
    );
    let calls: BTreeMap<String, String> = cluster
        .all_calls()
        .await
        .into_iter()
        .map(|(kind, calls)| (kind.clone(), calls - before.get(&kind).copied().unwrap_or_default()))
        .filter(|(_, calls)| *calls > 0)
        .map(|(kind, calls)| (kind, format!("{:.2}", per_u64(calls) / per(pods))))
        .collect();
    println!("kubernetes: {whose}: calls a life, players included: {calls:?}");
    rate
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn per(pods: usize) -> f64 {
    pods as f64
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn per_u64(calls: u64) -> f64 {
    calls as f64
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
