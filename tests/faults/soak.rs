//! The soak (`make campaign NAME=soak MINUTES=30`): steady churn, and nothing that grows with time. Three days in
//! virtual time come first (`days`), then so many minutes of reality.
//!
//! History is kept for as long as the retention says, so its rows grow until then; what must not grow
//! is memory, tasks (threads), open files, and rows of the living. Caches have bounds and fill up first
//! (SQLite's pages, GitHub's answers by their tags), so the slope is that of a straight line through
//! the second half of the samples. A finished job is remembered for eight days, which is some thirty
//! bytes each.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use ostler_actors::ports::Records as _;
use tokio::time::Instant;

use super::days;
use super::herd::{Herd, asked, on_runtime};
use super::table::{self, Row};

/// One look at the daemon.
#[derive(Clone, Copy, Debug)]
struct Sample {
    minutes: f64,
    rss_kib: f64,
    /// Resident memory that no file is behind.
    own_kib: f64,
    files: usize,
    threads: usize,
    live: usize,
}

pub(crate) fn run() -> ExitCode {
    let mut rows = Vec::new();
    for (name, part) in [("days", days::three_days as fn(&mut Row)), ("soak", soak)] {
        println!("== {name}");
        rows.push(Row::of(name, part));
        println!("   {}", rows[rows.len() - 1]);
    }
    table::show("soak", &rows)
}

fn soak(row: &mut Row) {
    on_runtime(async {
        let (minutes, runners) = (asked("MINUTES", 30), asked("LOAD", 20));
        let mut herd = Herd::new(None, runners);
        herd.length = (500, 2_000);
        let daemon = herd.stage.lead().await;
        let records = herd.stage.records().await;
        let (began, time) = (Instant::now(), Duration::from_mins(u64::from(minutes)));
        let mut samples = Vec::new();
        while began.elapsed() < time {
            herd.graze(Duration::from_secs(10)).await;
            let live = records.live_instances(None).await.map_or(0, |rows| rows.len());
            let sample = look(daemon.id(), began.elapsed().as_secs_f64() / 60.0, live);
            println!("{sample:?}");
            samples.push(sample);
        }
        records.close().await;
        let settled: Vec<Sample> =
            samples.iter().copied().filter(|it| it.minutes > f64::from(minutes) / 2.0).collect();
        let (first, last) = (settled.first().copied(), settled.last().copied());
        let (first, last) = first.zip(last).expect("minutes of samples");
        let slope = slope(&settled);
        row.load = format!("{runners} runners, jobs of 0.5–2.5 s, {minutes} min");
        row.injected = "nothing but time".into();
        row.remark = format!(
            "RSS {:.1} → {:.1} MiB in the second half, slope of its own memory {slope:.1} KiB a minute; files {} → {}, threads {} → {}, live rows {} → {}",
            first.rss_kib / 1024.0,
            last.rss_kib / 1024.0,
            first.files,
            last.files,
            first.threads,
            last.threads,
            first.live,
            last.live
        );
        assert!(last.files <= first.files + 16, "open files grow: {first:?} {last:?}");
        assert!(last.threads <= first.threads + 4, "threads grow: {first:?} {last:?}");
        herd.end(daemon, row).await;
    });
}

fn look(pid: u32, minutes: f64, live: usize) -> Sample {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let found = status.lines().find_map(|it| it.strip_prefix(name));
        found.and_then(|it| it.split_whitespace().next()?.parse::<u32>().ok()).unwrap_or_default()
    };
    let files = fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count).unwrap_or_default();
    let threads = usize::try_from(field("Threads:")).unwrap_or_default();
    Sample {
        minutes,
        rss_kib: f64::from(field("VmRSS:")),
        own_kib: f64::from(field("RssAnon:")),
        files,
        threads,
        live,
    }
}

/// Returns the slope of the memory of its own, in KiB a minute, by least squares.
#[expect(clippy::cast_precision_loss, reason = "few samples")]
fn slope(samples: &[Sample]) -> f64 {
    let count = samples.len() as f64;
    let mean = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|it| it.minutes), mean(|it| it.own_kib));
    let above: f64 = samples.iter().map(|it| (it.minutes - x) * (it.own_kib - y)).sum();
    let below: f64 = samples.iter().map(|it| (it.minutes - x).powi(2)).sum();
    above / below.max(f64::MIN_POSITIVE)
}
