//! Around one daemon: a folder, a configuration, the played GitHub, and what the system says about
//! the daemon's process.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use tempfile::TempDir;

use super::external::compiled;
use super::forge::{Queue, Setup, Shown, WEBHOOK_SECRET};

/// Says what makes the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machines {
    /// The simulated provider, inside the daemon.
    Simulated,
    /// Processes of this computer, by `ostler run`.
    Processes,
    /// An executable that speaks GARM's protocol and makes nothing but a file, by `ostler run`.
    External,
}

/// Says what is wanted.
#[derive(Clone, Debug)]
pub(crate) struct StageSpec {
    pub(crate) machines: Machines,
    pub(crate) store: Option<String>,
    pub(crate) min_idle: u32,
    pub(crate) max: u32,
    pub(crate) boot_ms: Option<u64>,
    pub(crate) work_ms: u64,
    /// How long after a create call its machine appears, unanswered.
    pub(crate) late: Option<Duration>,
    /// The reaper's tick in seconds, if not as shipped.
    pub(crate) tick: Option<u32>,
    /// Another build of this bench, whose daemon is measured.
    pub(crate) house: Option<PathBuf>,
}

impl StageSpec {
    pub(crate) fn new(machines: Machines, max: u32) -> Self {
        Self {
            machines,
            store: None,
            min_idle: 0,
            max,
            boot_ms: None,
            work_ms: 0,
            late: None,
            tick: None,
            house: None,
        }
    }
}

/// Holds everything around the daemons of one figure.
pub(crate) struct Stage {
    folder: TempDir,
    spec: StageSpec,
    forge: Child,
    forge_at: String,
    daemon: Option<Running>,
}

struct Running {
    child: Child,
    http: String,
    board: String,
}

/// Holds what the system says about a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) cpu: f64,
    pub(crate) rss: f64,
    /// The most that ever was, in MiB.
    pub(crate) peak: f64,
}

impl Stage {
    /// Builds a stage; nothing runs but the played GitHub.
    pub(crate) fn build(spec: StageSpec) -> Self {
        // On the disk: a file system in memory would make a commit free.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let mut forge = Command::new(std::env::current_exe().expect("a path"))
            .arg("forge")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a forge");
        let mut line = String::new();
        BufReader::new(forge.stdout.take().expect("a pipe")).read_line(&mut line).expect("a port");
        let forge_at = format!("127.0.0.1:{}", line.trim());
        let stage = Self { folder, spec, forge, forge_at, daemon: None };
        stage.write("token", "a token");
        stage.write("hook.secret", WEBHOOK_SECRET);
        stage.write("seal.key", &"5a".repeat(32));
        stage.write("provider.conf", &format!("state={}\n", stage.path().join("cloud").display()));
        stage.configure(&stage.pool());
        stage
    }

    fn pool(&self) -> String {
        let StageSpec { min_idle, max, .. } = self.spec;
        let more = match self.spec.machines {
            Machines::Simulated | Machines::Processes => "",
            Machines::External => "image = \"any\"\nflavor = \"any\"\n",
        };
        format!(
            "[[pool]]\nname = \"linux\"\nlabels = [\"self-hosted\", \"linux\"]\nmin_idle = {min_idle}\nmax = {max}\n{more}"
        )
    }

    /// Returns the settings that differ from yours, for the report.
    pub(crate) fn settings() -> &'static str {
        "jit_per_minute = 0, start_permits = 10000, start_permits_per_host = 10000, idle_confirm = \"0s\", \
         linger = \"0s\", absence_confirm = \"1s\", retire_budget = 100000; all else as shipped"
    }

    fn configure(&self, pools: &str) {
        let folder = self.path().display();
        let default = format!("sqlite://{folder}/ostler.db");
        let store = self.spec.store.as_ref().unwrap_or(&default);
        let forge = &self.forge_at;
        let tick = self.spec.tick.unwrap_or(60);
        let provider = self.provider();
        let text = format!(
            r#"
[daemon]
name = "bench"
state_dir = "{folder}/state"

[store]
url = "{store}"
seal_key = {{ file = "seal.key" }}

[http]
listen = "127.0.0.1:0"
public_url = "http://127.0.0.1:1"

[forge.github]
kind = "github"
api_url = "http://{forge}"
token = {{ file = "token" }}
webhook_secret = {{ file = "hook.secret" }}
jit_per_minute = 0

[provider.local]
{provider}

[reaper]
tick = "{tick}s"
retire_budget = 100000

[defaults]
forge = "github"
scope = "acme"
provider = "local"
idle_confirm = "0s"
linger = "0s"
absence_confirm = "1s"
start_permits = 10000
start_permits_per_host = 10000

{pools}
"#
        );
        self.write("ostler.toml.new", &text);
        fs::rename(self.path().join("ostler.toml.new"), self.path().join("ostler.toml"))
            .expect("our folder");
    }

    /// Returns the provider's section. No machine of a benchmark ever asks for anything.
    fn provider(&self) -> String {
        let folder = self.path().display();
        match self.spec.machines {
            Machines::Simulated | Machines::Processes => format!(
                "kind = \"process\"\ncommand = [\"/bin/sleep\", \"1000000\"]\nwork_dir = \"{folder}/processes\""
            ),
            Machines::External => format!(
                "kind = \"external\"\nexecutable = \"{}\"\nconfig_file = \"{folder}/provider.conf\"\nconcurrency = 32",
                compiled().display()
            ),
        }
    }

    fn write(&self, name: &str, text: &str) {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(self.path().join(name)).expect("our folder");
        file.write_all(text.as_bytes()).expect("our folder");
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the daemon and waits until it leads.
    pub(crate) fn start(&mut self) {
        let mut command = match self.spec.machines {
            Machines::Simulated => {
                let ours = || std::env::current_exe().expect("a path");
                let mut command = Command::new(self.spec.house.clone().unwrap_or_else(ours));
                command.arg("house").arg(self.path());
                if let Some(late) = self.spec.late {
                    command.arg(late.as_secs().to_string());
                }
                command
            }
            Machines::Processes | Machines::External => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
                command
                    .args(["run", "--log", "warn,ostler::cli=info", "--config"])
                    .arg(self.path().join("ostler.toml"));
                command
            }
        };
        let log = fs::File::create(self.path().join("log")).expect("our folder");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().expect("a daemon");
        let (http, board) = match self.spec.machines {
            Machines::Simulated => {
                let mut line = String::new();
                BufReader::new(child.stdout.take().expect("a pipe"))
                    .read_line(&mut line)
                    .expect("an address");
                let (http, board) = line
                    .trim()
                    .split_once(' ')
                    .unwrap_or_else(|| panic!("no daemon: {}", self.log()));
                (http.to_owned(), board.to_owned())
            }
            Machines::Processes | Machines::External => (self.address_in_log(), String::new()),
        };
        self.daemon = Some(Running { child, http, board });
        until("the daemon leads", Duration::from_mins(2), || {
            self.get("/readyz?leader").is_some_and(|(status, _)| status == 200)
        });
        self.set_up();
    }

    fn address_in_log(&self) -> String {
        let mut found = String::new();
        until("the daemon listens", Duration::from_secs(30), || {
            let log = self.log();
            let Some((_, rest)) = log.split_once("listening on http://") else { return false };
            found = rest
                .chars()
                .take_while(|it| it.is_ascii_digit() || matches!(it, '.' | ':'))
                .collect();
            true
        });
        found
    }

    fn set_up(&self) {
        let hook = format!("http://{}/webhooks/github", self.running().http);
        let StageSpec { boot_ms, work_ms, .. } = self.spec;
        self.tell_forge("/_bench/setup", &Setup { hook, boot_ms, work_ms: Some(work_ms) });
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }

    fn running(&self) -> &Running {
        self.daemon.as_ref().expect("a daemon runs")
    }

    /// Kills the daemon without warning.
    pub(crate) fn kill(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.child.kill().expect("our child");
            daemon.child.wait().expect("our child");
        }
    }

    /// Removes the pool from the configuration: everybody is to go.
    pub(crate) fn drain(&self) {
        self.configure("[[pool]]\nname = \"other\"\nlabels = [\"other\"]\nmax = 1\n");
        let pid =
            i32::try_from(self.running().child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a process"), rustix::process::Signal::HUP)
            .expect("our child");
    }

    pub(crate) fn queue(&self, count: u64, per_second: u64) {
        self.tell_forge("/_bench/queue", &Queue { count, per_second });
    }

    /// Asks the played GitHub how things stand.
    pub(crate) fn forge(&self) -> Shown {
        let (_, body) =
            exchange(&self.forge_at, "GET", "/_bench/state", "").expect("the forge answers");
        serde_json::from_str(&body).expect("the forge's answer")
    }

    /// Returns the address of the played GitHub.
    pub(crate) fn forge_at(&self) -> &str {
        &self.forge_at
    }

    fn tell_forge(&self, path: &str, what: &impl Serialize) {
        let body = serde_json::to_string(what).expect("JSON");
        exchange(&self.forge_at, "POST", path, &body).expect("the forge answers");
    }

    pub(crate) fn get(&self, path: &str) -> Option<(u16, String)> {
        exchange(&self.running().http, "GET", path, "")
    }

    /// Returns the daemon's address.
    pub(crate) fn http(&self) -> &str {
        &self.running().http
    }

    /// Returns how many instances have an owner.
    pub(crate) fn owned(&self) -> usize {
        self.number("owned")
    }

    /// Returns how many instances are idle.
    pub(crate) fn idle(&self) -> usize {
        self.number("idle")
    }

    /// Returns how often the daemon broke a promise.
    pub(crate) fn violations(&self) -> usize {
        self.number("violations")
    }

    /// Asks the daemon with the simulated provider for a number.
    fn number(&self, what: &str) -> usize {
        let mut text = String::new();
        let mut stream = TcpStream::connect(&self.running().board).expect("the board");
        writeln!(stream, "{what}").expect("the board");
        stream.read_to_string(&mut text).expect("the board");
        text.parse().unwrap_or_else(|_| panic!("`{what}` is `{text}`"))
    }

    /// Returns how many create calls there were since the daemon started.
    pub(crate) fn created(&self) -> usize {
        match self.spec.machines {
            Machines::Simulated => self.number("created"),
            Machines::Processes | Machines::External => self.creates().len(),
        }
    }

    /// Returns the moments of all create calls, oldest first.
    pub(crate) fn creates(&self) -> Vec<u64> {
        let mut moments: Vec<u64> = match self.spec.machines {
            Machines::Simulated => {
                let log = fs::read_to_string(self.path().join("creates")).unwrap_or_default();
                log.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect()
            }
            Machines::Processes => births(self.machine_folders()),
            Machines::External => births(entries(&self.path().join("cloud/bootstrap"))),
        };
        moments.sort_unstable();
        moments
    }

    fn machine_folders(&self) -> Vec<PathBuf> {
        let mut paths = entries(&self.path().join("processes"));
        paths.retain(|it| {
            it.is_dir() && !it.file_name().is_some_and(|it| it.as_encoded_bytes().starts_with(b"."))
        });
        paths
    }

    /// Returns how many machines exist.
    pub(crate) fn machines(&self) -> usize {
        match self.spec.machines {
            Machines::Simulated => self.number("machines"),
            Machines::Processes => self.machine_folders().len(),
            Machines::External => entries(&self.path().join("cloud/machines")).len(),
        }
    }

    /// Returns what the daemon cost so far.
    pub(crate) fn cost(&self) -> Cost {
        cost_of(self.running().child.id())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.kill();
        if self.spec.machines == Machines::Processes {
            end_processes(self.path());
        }
        drop(self.forge.kill());
        drop(self.forge.wait());
        if std::thread::panicking() {
            eprintln!(
                "the daemon said:\n{}",
                self.log().lines().rev().take(20).collect::<Vec<_>>().join("\n")
            );
        }
    }
}

/// Returns what is in a folder; nothing where there is none.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok().map(|it| it.path())).collect()
}

/// Returns when these came to be, in nanoseconds.
fn births(paths: Vec<PathBuf>) -> Vec<u64> {
    let nanos = |path: PathBuf| {
        let at = fs::metadata(path).ok()?.created().ok()?;
        u64::try_from(at.duration_since(std::time::UNIX_EPOCH).ok()?.as_nanos()).ok()
    };
    paths.into_iter().filter_map(nanos).collect()
}

/// Ends the machines of a folder: their keepers carry its path in their arguments.
fn end_processes(folder: &Path) {
    let folder = folder.to_string_lossy().into_owned();
    for _ in 0..50 {
        let mut found = false;
        for entry in fs::read_dir("/proc").expect("/proc").filter_map(Result::ok) {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
            if i64::from(pid) == i64::from(std::process::id()) {
                continue;
            }
            let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
            let holds = |text: &[u8]| text.windows(folder.len()).any(|it| it == folder.as_bytes());
            if holds(&read("cmdline")) || holds(&read("environ")) {
                found = true;
                let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
                let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        if !found {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns CPU seconds and resident memory of a process.
pub(crate) fn cost_of(pid: u32) -> Cost {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    let field = |at: usize| {
        rest.split(' ').nth(at).and_then(|it| it.parse::<f64>().ok()).unwrap_or_default()
    };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mebibytes = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = found.and_then(|it| it.split_whitespace().next()?.parse::<f64>().ok());
        kibibytes.unwrap_or_default() / 1024.0
    };
    // utime and stime, in hundredths of a second.
    let cpu = (field(11) + field(12)) / 100.0;
    Cost { cpu, rss: mebibytes("VmRSS:"), peak: mebibytes("VmHWM:") }
}

/// One question, one answer, one connection.
pub(crate) fn exchange(host: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Waits until something is true.
pub(crate) fn until(what: &str, wait_limit: Duration, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < wait_limit, "waited {wait_limit:?} in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
