//! What came of each fault: load held, faults injected, losses.

use std::fmt;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counts what must not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Jobs that did not come to an end.
    pub(crate) lost: usize,
    /// Jobs that ran more than once.
    pub(crate) doubled: usize,
    /// Machines, processes, registrations and live rows when all was over.
    pub(crate) left: usize,
    /// Jobs that ended otherwise than their script says.
    pub(crate) touched: usize,
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, doubled, left, touched } = self;
        write!(f, "lost {lost}, doubled {doubled}, left {left}, touched {touched}")
    }
}

/// Holds what came of one fault.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    name: &'static str,
    /// What the daemon had to do meanwhile.
    pub(crate) load: String,
    /// What was done to it, and how often.
    pub(crate) injected: String,
    /// How many jobs ran.
    pub(crate) jobs: usize,
    /// What was counted at the end; none before that.
    pub(crate) losses: Option<Losses>,
    /// What else is worth saying.
    pub(crate) remark: String,
    /// Why it could not be tried.
    pub(crate) skipped: Option<String>,
    took: Duration,
    failure: Option<String>,
}

impl Row {
    /// Brings a fault about, on a thread of its own, so that a failure ends it alone.
    pub(crate) fn of(name: &'static str, fault: fn(&mut Self)) -> Self {
        let shared = Arc::new(Mutex::new(Self { name, ..Self::default() }));
        let theirs = Arc::clone(&shared);
        let began = Instant::now();
        let ended = std::thread::spawn(move || {
            let mut row = theirs.lock().unwrap_or_else(PoisonError::into_inner);
            fault(&mut row);
        })
        .join();
        let mut row = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        row.took = began.elapsed();
        row.failure = ended.err().map(|why| {
            let text = why.downcast_ref::<String>().cloned();
            text.or_else(|| why.downcast_ref::<&str>().map(|it| (*it).to_owned()))
                .unwrap_or_default()
        });
        row
    }

    fn verdict(&self) -> String {
        match (&self.failure, &self.skipped) {
            (Some(why), _) => format!("FAILED: {}", why.lines().next().unwrap_or_default()),
            (None, Some(why)) => format!("skipped: {why}"),
            (None, None) => self.losses.map_or("not counted".into(), |it| it.to_string()),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, load, injected, jobs, remark, took, .. } = self;
        let seconds = took.as_secs();
        write!(
            f,
            "| {name} | {load} | {injected} | {jobs} | {seconds} s | {} | {remark} |",
            self.verdict()
        )
    }
}

/// Shows the table and keeps it for the report of `make bench`; fails if anything was lost.
pub(crate) fn show(name: &str, rows: &[Row]) -> ExitCode {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut text = format!("load average at the end: {}\n\n", load.trim());
    text.push_str("| fault | load held | injected | jobs | took | losses | notes |\n|---|---|---|---|---|---|---|\n");
    for row in rows {
        text += &row.to_string();
        text.push('\n');
    }
    println!("\n{text}");
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench/text");
    std::fs::create_dir_all(&folder).expect("the target folder");
    std::fs::write(folder.join(format!("{name}.txt")), &text).expect("the target folder");
    let uncounted = |row: &Row| row.losses.is_none() && row.skipped.is_none();
    let failed = rows.iter().filter(|row| row.failure.is_some() || uncounted(row)).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
