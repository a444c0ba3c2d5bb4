//! The faults, one function each.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ostler_actors::ports::Records as _;
use rustix::process::Signal;
use tokio::time::Instant;

use super::herd::{Herd, asked, on_runtime};
use super::support::daemon::until;
use super::support::postgres::Postgres;
use super::table::Row;

fn load() -> u32 {
    asked("LOAD", 40)
}

/// Killed without warning every five seconds, started again at once.
pub(crate) fn killed_every_five_seconds(row: &mut Row) {
    on_runtime(async {
        let (runners, minutes) = (asked("RUNNERS", 200), asked("MINUTES", 10));
        let mut herd = Herd::new(None, runners);
        herd.length = (20_000, 160_000);
        // Full before the first kill: a daemon that lives for five seconds makes few machines.
        let first = herd.stage.lead().await;
        herd.feed();
        herd.until_at_work(runners).await;
        first.kill();
        let until = Instant::now() + Duration::from_mins(u64::from(minutes));
        let (mut kills, mut led, mut most) = (0, 0, 0);
        while Instant::now() < until {
            let mut daemon = herd.stage.spawn();
            let kill_at = Instant::now() + Duration::from_secs(5);
            let mut hooked = false;
            while Instant::now() < kill_at {
                herd.feed();
                daemon.must_live();
                if !hooked && daemon.ready().is_some_and(|it| it.status == 200) {
                    herd.stage.point_hook_at(daemon.address().expect("it listens"));
                    (hooked, led) = (true, led + 1);
                }
                tokio::time::sleep(Duration::from_millis(200).min(kill_at - Instant::now())).await;
            }
            daemon.kill();
            kills += 1;
            most = most.max(herd.stage.machines().len());
            row.injected = format!("kill -9 × {kills} ({led} while leading)");
            row.load = format!("{runners} runners wanted, up to {most} machines, jobs of 20–180 s");
        }
        let daemon = herd.stage.lead().await;
        herd.end(daemon, row).await;
    });
}

/// The database server dies and comes back, again and again.
pub(crate) fn postgresql_restarts(row: &mut Row) {
    let Some(mut server) = Postgres::start() else {
        row.skipped = Some("no PostgreSQL".into());
        return;
    };
    on_runtime(async {
        row.load = format!("{} runners", load());
        let mut herd = Herd::new(Some(server.database()), load());
        let daemon = herd.stage.lead().await;
        herd.graze(Duration::from_secs(10)).await;
        for number in 1..=5 {
            server.kill();
            herd.graze(Duration::from_secs(4)).await;
            server.launch();
            herd.graze(Duration::from_secs(10)).await;
            row.injected = format!("server killed × {number}, away for 4 s each");
        }
        herd.end(daemon, row).await;
    });
}

/// The disk of the store is full for half a minute.
pub(crate) fn disk_is_full(row: &mut Row) {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mount) = Mounted::tmpfs(folder.path(), "24m") else {
        row.skipped = Some("a tmpfs cannot be mounted here".into());
        return;
    };
    on_runtime(async {
        row.load = format!("{} runners", load());
        let store = format!("sqlite://{}/ostler.db", mount.0.display());
        let mut herd = Herd::new(Some(store), load());
        let mut daemon = herd.stage.lead().await;
        herd.graze(Duration::from_secs(15)).await;
        for number in 1..=2 {
            let filler = mount.0.join("filler");
            fill(&filler);
            let full = Instant::now();
            herd.graze(Duration::from_secs(15)).await;
            let ready = daemon.ready().expect("it answers");
            assert_eq!(ready.status, 503, "a daemon that cannot save says so: {}", ready.body);
            fs::remove_file(&filler).expect("our file");
            row.injected = format!("disk full × {number}, {} s each", full.elapsed().as_secs());
            until("it saves again", async || daemon.ready().is_some_and(|it| it.status == 200))
                .await;
            herd.graze(Duration::from_secs(10)).await;
        }
        herd.end(daemon, row).await;
    });
    drop(mount);
}

/// GitHub answers 502 to every call and loses every webhook for five minutes; jobs pile up.
pub(crate) fn github_is_down(row: &mut Row) {
    on_runtime(async {
        let seconds = asked("OUTAGE_SECONDS", 300);
        let mut herd = Herd::new(None, load());
        let daemon = herd.stage.lead().await;
        herd.graze(Duration::from_secs(15)).await;
        herd.stage.github.lie(|lies| (lies.errors, lies.lost_webhooks) = (u32::MAX, u32::MAX));
        for _ in 0..load() * 5 {
            herd.queue_one();
        }
        tokio::time::sleep(Duration::from_secs(u64::from(seconds))).await;
        herd.stage.github.lie(|lies| (lies.errors, lies.lost_webhooks) = (0, 0));
        row.injected = format!("API down and webhooks lost for {seconds} s");
        row.load = format!("{} runners, a herd of {} jobs after it", load(), load() * 5);
        let back = Instant::now();
        herd.until_at_work(load() / 2).await;
        row.remark = format!("at work again {} s after it", back.elapsed().as_secs());
        herd.end(daemon, row).await;
    });
}

/// GitHub says what is not so.
pub(crate) fn github_lies(row: &mut Row) {
    on_runtime(async {
        row.load = format!("{} runners", load());
        let mut herd = Herd::new(None, load());
        let daemon = herd.stage.lead().await;
        let rounds = asked("ROUNDS", 12);
        for _ in 0..rounds {
            herd.stage.github.lie(|lies| {
                lies.false_404 += 10;
                lies.proxy_404 += 5;
                lies.false_422 += 5;
                lies.stale_busy += 20;
                lies.short_lists += 2;
                lies.lost_answers += 3;
                lies.errors += 5;
                lies.silence += 1;
                lies.lost_webhooks += 2;
                lies.nasty_204 = true;
            });
            herd.graze(Duration::from_secs(5)).await;
        }
        herd.stage.github.lie(|lies| *lies = ostler::demo::github::Lies::default());
        row.injected = format!(
            "up to {} stale busy, {} false 404, {} false 422, {} of a proxy, {} lists cut short, {} answers lost, {} errors, {} silences, {} webhooks lost; 204 for runners at work",
            rounds * 20,
            rounds * 10,
            rounds * 5,
            rounds * 5,
            rounds * 2,
            rounds * 3,
            rounds * 5,
            rounds,
            rounds * 2
        );
        herd.end(daemon, row).await;
    });
}

/// A second provider hangs for ever in its create call; the first one's jobs do not notice.
pub(crate) fn provider_hangs(row: &mut Row) {
    on_runtime(async {
        row.load = format!("{} runners of a healthy pool", load());
        let mut herd = Herd::new(None, load());
        let hanging = herd.stage.path("hanging");
        fs::write(&hanging, "#!/bin/sh\nexec sleep 100000\n").expect("our folder");
        Command::new("chmod").arg("755").arg(&hanging).status().expect("chmod");
        herd.stage.be_asked_for_work();
        let base = herd.stage.base();
        let external = format!(
            "[provider.stuck]\nkind = \"external\"\nexecutable = \"{}\"\ntimeout = \"20s\"\n",
            hanging.display()
        );
        let healthy = super::support::daemon::pool(2, load());
        let stuck = "[[pool]]\nname = \"stuck\"\nprovider = \"stuck\"\nlabels = [\"stuck\"]\nmin_idle = 8\n\
                     max = 8\nimage = \"any\"\nflavor = \"any\"\nidle_confirm = \"60s\"\n";
        herd.stage.write_config(&format!("{base}\n{external}\n{healthy}\n{stuck}"));
        let daemon = herd.stage.lead().await;
        herd.graze(Duration::from_secs(45)).await;
        row.injected = "8 creates at a provider that never answers, 45 s".into();
        // The hanging provider is mended: it never made anything, and says so from now on.
        fs::write(&hanging, "#!/bin/sh\n[ \"$GARM_COMMAND\" = ListInstances ] && echo '[]' && exit 0\n[ \"$GARM_COMMAND\" = DeleteInstance ] && exit 0\nexit 30\n").expect("our folder");
        // A provider that is in use cannot be taken out of the configuration; its pool can.
        herd.stage.write_config(&format!("{base}\n{external}\n{healthy}"));
        daemon.signal(Signal::HUP);
        let records = herd.stage.records().await;
        until("no call hangs any more", async || {
            let rows = records.live_instances(None).await.unwrap_or_default();
            !rows.iter().any(|row| row.pool.as_str() == "stuck")
        })
        .await;
        records.close().await;
        herd.end(daemon, row).await;
    });
}

/// The daemon's clock leaps forth and back by hours.
pub(crate) fn clock_jumps(row: &mut Row) {
    let library = Path::new("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1");
    if !library.exists() {
        row.skipped = Some("no libfaketime (apt-get install faketime)".into());
        return;
    }
    on_runtime(async {
        row.load = format!("{} runners", load());
        let mut herd = Herd::new(None, load());
        let clock = herd.stage.path("clock");
        set_clock(&clock, "+0");
        let pair = |name: &str, value: String| (name.to_owned(), value);
        herd.stage.environment = vec![
            pair("LD_PRELOAD", library.display().to_string()),
            pair("FAKETIME_TIMESTAMP_FILE", clock.display().to_string()),
            pair("FAKETIME_NO_CACHE", "1".into()),
            pair("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ];
        let daemon = herd.stage.lead().await;
        herd.graze(Duration::from_secs(10)).await;
        let leaps = ["+3600", "-7200", "+86400", "-86400", "+0"];
        for (number, leap) in leaps.iter().enumerate() {
            set_clock(&clock, leap);
            herd.graze(Duration::from_secs(12)).await;
            row.injected = format!("{} leaps between -24 h and +24 h", number + 1);
        }
        let dates: std::collections::BTreeSet<String> = daemon
            .log()
            .lines()
            .filter_map(|line| line.split_once("\"timestamp\":\"")?.1.get(..10).map(str::to_owned))
            .collect();
        assert!(dates.len() > 1, "the daemon's clock was never wrong: {dates:?}");
        herd.end(daemon, row).await;
    });
}

/// The daemon is frozen for a minute, four times its lease, while its jobs go on; a second one
/// takes over on the same database, and the sleeper wakes up beside it.
pub(crate) fn daemon_sleeps(row: &mut Row) {
    let Some(server) = Postgres::start() else {
        row.skipped = Some("no PostgreSQL".into());
        return;
    };
    on_runtime(async {
        row.load = format!("{} runners", load());
        let mut herd = Herd::new(Some(server.database()), load());
        let mut sleeper = herd.stage.lead().await;
        let mut second = herd.stage.spawn();
        until("a second daemon stands by", async || second.stage() == "standby").await;
        herd.graze(Duration::from_secs(15)).await;
        let frozen = Instant::now();
        sleeper.signal(Signal::STOP);
        herd.stage.until_it_leads(&mut second).await;
        let led = frozen.elapsed();
        let rest = Duration::from_mins(1).saturating_sub(frozen.elapsed());
        herd.graze(rest).await;
        sleeper.signal(Signal::CONT);
        row.injected = "SIGSTOP for 60 s, lease 15 s".into();
        row.remark = format!("the standby led after {:.1} s", led.as_secs_f64());
        until("the sleeper stands by", async || sleeper.stage() == "standby").await;
        herd.graze(Duration::from_secs(10)).await;
        herd.end(second, row).await;
        drop(sleeper);
    });
}

/// Strangers post webhooks with wrong signatures as fast as they can.
pub(crate) fn storm_of_bad_signatures(row: &mut Row) {
    on_runtime(async {
        row.load = format!("{} runners", load());
        let mut herd = Herd::new(None, load());
        let mut daemon = herd.stage.lead().await;
        let address = daemon.address().expect("it listens");
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let strangers: Vec<_> = (0..4)
            .map(|_| {
                let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
                std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        assert_eq!(bad_delivery(address), Some(401));
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        herd.graze(Duration::from_secs(45)).await;
        stop.store(true, Ordering::Relaxed);
        for stranger in strangers {
            stranger.join().expect("every bad signature is answered 401");
        }
        row.injected = format!("{} bad signatures in 45 s", sent.load(Ordering::Relaxed));
        row.remark = format!("RSS {} MiB", rss(daemon.id()));
        herd.end(daemon, row).await;
    });
}

/// The daemon may use 256 MiB, with its machines.
pub(crate) fn memory_is_capped(row: &mut Row) {
    let Some(group) = Group::new(256 << 20) else {
        row.skipped = Some("no memory cgroup can be made here".into());
        return;
    };
    on_runtime(async {
        // The machines count too: a keeper and its agent hold some 15 MiB together.
        let runners = asked("CAPPED_LOAD", 8);
        row.load = format!("{runners} runners, 1,000 jobs no pool can serve");
        let mut herd = Herd::new(None, runners);
        let daemon = herd.stage.lead().await;
        group.take(daemon.id());
        for _ in 0..1_000 {
            herd.queue_elsewhere();
        }
        herd.graze(Duration::from_secs(45)).await;
        row.injected = "memory capped at 256 MiB (daemon and the keepers it starts)".into();
        row.remark = format!(
            "RSS of the daemon {} MiB, peak of the group {} MiB, OOM kills {}",
            rss(daemon.id()),
            group.peak() >> 20,
            group.kills()
        );
        assert_eq!(group.kills(), 0, "no process is killed for memory");
        herd.finish_elsewhere();
        herd.end(daemon, row).await;
    });
}

/// A file system of a size, unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(at: &Path, size: &str) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(at);
        mount.status().is_ok_and(|it| it.success()).then(|| Self(at.into()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

/// Writes until nothing more fits.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).expect("our file system");
    for size in [1 << 16, 1 << 12, 1] {
        let piece = vec![7_u8; size];
        while file.write_all(&piece).is_ok() {}
    }
}

fn set_clock(file: &Path, offset: &str) {
    let draft = file.with_extension("new");
    fs::write(&draft, format!("{offset}\n")).expect("our folder");
    fs::rename(draft, file).expect("our folder");
}

/// Posts a delivery without a proper signature; returns the answer.
fn bad_delivery(daemon: SocketAddr) -> Option<u16> {
    let mut stream = TcpStream::connect_timeout(&daemon, Duration::from_secs(10)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let body = "{\"action\":\"queued\"}".repeat(50);
    write!(
        stream,
        "POST /webhooks/github HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         X-GitHub-Event: workflow_job\r\nX-GitHub-Delivery: {}\r\nX-Hub-Signature-256: sha256={}\r\n\r\n{body}",
        body.len(),
        uuid::Uuid::new_v4(),
        "0".repeat(64)
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// Returns the resident memory of a process in MiB.
pub(crate) fn rss(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() >> 10
}

/// A memory cgroup (v1, or v2 where there is no v1), removed when dropped.
struct Group {
    folder: PathBuf,
    v1: bool,
}

impl Group {
    fn new(bytes: u64) -> Option<Self> {
        let v1 = Path::new("/sys/fs/cgroup/memory").is_dir();
        let root = if v1 { "/sys/fs/cgroup/memory" } else { "/sys/fs/cgroup" };
        let folder = Path::new(root).join(format!("ostler-faults-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let limit = if v1 { "memory.limit_in_bytes" } else { "memory.max" };
        let group = Self { folder, v1 };
        fs::write(group.folder.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }

    fn take(&self, pid: u32) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).expect("our group");
    }

    fn peak(&self) -> u64 {
        let name = if self.v1 { "memory.max_usage_in_bytes" } else { "memory.peak" };
        fs::read_to_string(self.folder.join(name))
            .ok()
            .and_then(|it| it.trim().parse().ok())
            .unwrap_or_default()
    }

    fn kills(&self) -> u64 {
        let name = if self.v1 { "memory.oom_control" } else { "memory.events" };
        let text = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|it| it.trim().parse().ok()).unwrap_or_default()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
