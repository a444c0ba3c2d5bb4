//! A real PostgreSQL server for one test: its own folder, its own socket, gone with the test.
//!
//! `initdb` takes seconds, so its result is kept under `target/tmp` and copied. It usually runs
//! without `fsync`: tests kill processes, not the power. It refuses to run as root, so root lends
//! it the user `postgres` or `nobody`. Should the test be killed, the kernel tells the server to
//! stop (`setpriv --pdeathsig`).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;

use super::skip;

/// A server that does not answer for this long hangs. It is a guard, not a measure.
const HANG_LIMIT: Duration = Duration::from_mins(10);

/// Is a running server.
pub(crate) struct Postgres {
    home: TempDir,
    programs: PathBuf,
    server: Option<Child>,
    setting: &'static str,
    databases: AtomicU32,
}

impl Postgres {
    /// Starts a server, or says why there is none; a test without one is skipped in plain sight.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with("fsync=off")
    }

    /// Starts a server with one setting of its own.
    pub(crate) fn start_with(setting: &'static str) -> Option<Self> {
        let Some(programs) = programs() else {
            skip::say("no PostgreSQL under /usr/lib/postgresql (apt-get install postgresql)");
            return None;
        };
        let home = tempfile::Builder::new().prefix("ostler-pg-").tempdir().expect("a folder");
        open_to_all(home.path());
        let data = home.path().join("data");
        run(Command::new("cp").arg("-a").arg(template(&programs)).arg(&data));
        give(&data);
        give(home.path());
        let databases = AtomicU32::new(0);
        let mut server = Self { home, programs, server: None, setting, databases };
        server.launch();
        Some(server)
    }

    /// Makes a new empty database and returns its URL.
    pub(crate) fn database(&self) -> String {
        self.database_behind(self.home.path())
    }

    /// Makes a new empty database and returns its URL, reached by a socket in another folder.
    pub(crate) fn database_behind(&self, folder: &Path) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("create database {name}"));
        format!("postgres:///{name}?host={}&user=postgres", folder.display())
    }

    /// Returns the folder its socket is in.
    pub(crate) fn folder(&self) -> String {
        self.home.path().display().to_string()
    }

    /// Returns the socket it listens on.
    pub(crate) fn socket(&self) -> PathBuf {
        self.home.path().join(".s.PGSQL.5432")
    }

    /// Runs a statement as an operator would and returns what it printed.
    pub(crate) fn sql(&self, database: &str, statement: &str) -> String {
        let out = Command::new(self.programs.join("psql"))
            .args(["-X", "-A", "-t", "-q", "-U", "postgres", "-h"])
            .arg(self.home.path())
            .args(["-d", database, "-c", statement])
            .output()
            .expect("psql starts");
        assert!(out.status.success(), "{statement}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    }

    /// Kills the server and all its children without warning, and waits until none is left: a new
    /// server refuses data that an old child still has in its hands.
    pub(crate) fn kill(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        let id = server.id();
        // Stopped, it cannot have another child while we count them.
        signal("-STOP", &id.to_string());
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.expect("the kernel tells the children of a process");
        for child in children.split_whitespace() {
            signal("-KILL", child);
        }
        server.kill().expect("the server is ours to kill");
        server.wait().expect("the server ends");
        while children.split_whitespace().any(lives) {
            std::thread::yield_now();
        }
    }

    /// Starts the server on its data and waits until it answers.
    #[expect(clippy::disallowed_methods, reason = "waits for another process, outside any actor")]
    pub(crate) fn launch(&mut self) {
        let data = self.home.path().join("data");
        let log = File::options().create(true).append(true).open(self.home.path().join("log"));
        let mut command = as_database_user(&["--pdeathsig", "INT"]);
        command
            .arg(self.programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(self.home.path())
            .args(["-c", "listen_addresses=", "-c", "max_connections=50"])
            .args(["-c", self.setting])
            .args(["-c", "shared_buffers=16MB", "-c", "restart_after_crash=on"])
            .stdout(Stdio::null())
            .stderr(log.expect("a log file"));
        let hung_at = Instant::now() + HANG_LIMIT;
        self.server = Some(command.spawn().expect("the server starts"));
        while !self.answers() {
            let ended = self.server.as_mut().map(Child::try_wait);
            let log = || fs::read_to_string(self.home.path().join("log")).unwrap_or_default();
            assert!(matches!(ended, Some(Ok(None))), "the server ended: {}", log());
            assert!(Instant::now() < hung_at, "the server does not answer: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn answers(&self) -> bool {
        let mut ready = Command::new(self.programs.join("pg_isready"));
        ready.arg("-h").arg(self.home.path()).args(["-q", "-t", "1"]);
        ready.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        // End all sessions, write everything, stop.
        signal("-INT", &server.id().to_string());
        let _ended = server.wait();
    }
}

/// Sends a signal; one who is gone already needs none.
fn signal(name: &str, process: &str) {
    let sent = Command::new("kill").args([name, process]).stderr(Stdio::null()).status();
    sent.expect("kill starts");
}

/// Tells whether a process still holds anything; a zombie does not.
fn lives(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    folders.filter(|bin| bin.join("initdb").exists() && bin.join("postgres").exists()).max()
}

/// Returns a fresh data folder to copy, made once and shared by all test processes.
fn template(programs: &Path) -> PathBuf {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(tmp).expect("a folder for tests");
    let version = programs.parent().and_then(Path::file_name).expect("a version");
    let kept = tmp.join(format!("pg-{}", version.display()));
    let lock = File::create(tmp.join("pg.lock")).expect("a lock file");
    lock.lock().expect("the lock");
    if kept.exists() {
        return kept;
    }
    let home = tempfile::Builder::new().prefix("ostler-pg-").tempdir().expect("a folder");
    open_to_all(home.path());
    give(home.path());
    let data = home.path().join("data");
    let mut initdb = as_database_user(&[]);
    initdb.arg(programs.join("initdb")).arg("-D").arg(&data);
    run(initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]));
    let draft = kept.with_extension("draft");
    let _old = fs::remove_dir_all(&draft);
    run(Command::new("cp").arg("-a").arg(&data).arg(&draft));
    fs::rename(&draft, &kept).expect("the draft gets its name");
    kept
}

/// Returns a command that runs what follows as a user who may run a database.
fn as_database_user(more: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    if let Some(user) = lent_user() {
        command.args([
            format!("--reuid={user}"),
            format!("--regid={}", group_of(user)),
            "--clear-groups".into(),
        ]);
    }
    // The folder we are in may be closed to that user.
    command.args(more).current_dir("/");
    command
}

/// Returns the user to run as; none if we are not root.
fn lent_user() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let exists = |name: &&str| users.lines().any(|line| line.starts_with(&format!("{name}:")));
    ["postgres", "nobody"].into_iter().find(exists)
}

fn group_of(user: &str) -> String {
    let out = Command::new("id").args(["-g", user]).output().expect("id starts");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

fn give(path: &Path) {
    if let Some(user) = lent_user() {
        run(Command::new("chown").args(["-R", user]).arg(path));
    }
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our folder");
}

fn run(command: &mut Command) {
    let out = command.output().expect("a program of every system");
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}
