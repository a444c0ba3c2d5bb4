//! `ostler run` as a service: what the service manager hears, and webhooks at every door.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests may stop at the first surprise, as tests may"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::HANG_LIMIT;

/// A fleet of nothing: no pool, so no forge and no provider is called.
const QUIET: &str = r#"
[daemon]
state_dir = "STATE"
[store]
url = "sqlite://STATE/ostler.db"
lease = "30s"
[http]
listen = "127.0.0.1:0"
[forge.github]
kind = "github"
api_url = "http://127.0.0.1:9"
token = { file = "token" }
webhook_secret = { file = "secret" }
"#;

/// A folder with a configuration, and the socket of a service manager.
struct Place {
    folder: TempDir,
    manager: UnixDatagram,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let manager = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        manager.set_read_timeout(Some(HANG_LIMIT)).unwrap();
        let place = Self { folder, manager };
        fs::write(place.path("token"), "ghp_of_nobody_at_all").unwrap();
        fs::write(place.path("secret"), "It's a Secret to Everybody").unwrap();
        place.configure("");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self, more: &str) {
        let state = self.path("state");
        let text = QUIET.replace("STATE", state.to_str().unwrap());
        fs::write(self.path("ostler.toml"), text + more).unwrap();
    }

    /// Waits until the manager hears something.
    fn hears(&self, what: &str) {
        let mut bytes = [0; 4096];
        let mut heard = Vec::new();
        while !heard.last().is_some_and(|it: &String| it.split('\n').any(|line| line == what)) {
            let length = self.manager.recv(&mut bytes).unwrap_or_else(|why| {
                panic!("waited for `{what}`, heard {heard:?}: {why}");
            });
            heard.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
        }
    }

    fn run(&self) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ostler"))
            .args(["run", "--config"])
            .arg(self.path("ostler.toml"))
            .env("NOTIFY_SOCKET", self.path("notify"))
            .env("WATCHDOG_USEC", "2000000")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Running { child, log, heard: String::new() }
    }
}

/// A daemon; killed with the test that forgets it.
struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
    heard: String,
}

impl Running {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Returns where it listens, which it logs.
    fn address(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "{}", self.heard);
            self.heard.push_str(&line);
            if let Some((_, rest)) = line.split_once("listening on http://") {
                return rest.split('"').next().unwrap().trim().to_owned();
            }
        }
    }

    fn end(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        // Its log must have somewhere to go until its end.
        self.log.read_to_string(&mut self.heard).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn service_manager_hears_of_start_reload_life_and_end() {
    let place = Place::new();
    let daemon = place.run();
    place.hears("READY=1");
    place.hears("STATUS=leading");
    place.hears("WATCHDOG=1");

    daemon.signal(Signal::HUP);
    place.hears("RELOADING=1");
    place.hears("READY=1");

    place.configure("[reaper]\ntick = \"0s\"\n");
    daemon.signal(Signal::HUP);
    place.hears("RELOADING=1");
    place.hears("READY=1");
    // A bad edit leaves the daemon at work, and well.
    place.hears("WATCHDOG=1");

    assert_eq!(daemon.end(), Some(0));
    place.hears("STOPPING=1");
}

#[test]
fn standby_takes_webhooks_too() {
    let place = Place::new();
    let leader = place.run();
    place.hears("STATUS=leading");
    let mut standby = place.run();
    place.hears("STATUS=standing by: another daemon holds the lease");
    let address = standby.address();
    // Signed with another secret, it is refused for that; a door that is shut says 404.
    assert_eq!(deliver(&address, "sha256=00"), "401");
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    assert_eq!(deliver(&address, signature), "202");
    assert_eq!(standby.end(), Some(0));
    assert_eq!(leader.end(), Some(0));
}

#[test]
fn systemd_accepts_the_unit() {
    let place = Place::new();
    let unit = fs::read_to_string("config/systemd/ostler.service").unwrap();
    // It checks that the program exists, which is installed nowhere here.
    let unit = unit.replace("/usr/local/bin/ostler", env!("CARGO_BIN_EXE_ostler"));
    fs::write(place.path("ostler.service"), unit).unwrap();
    let verify =
        Command::new("systemd-analyze").arg("verify").arg(place.path("ostler.service")).output();
    let Ok(verified) = verify else {
        crate::support::skip::say("systemd-analyze is missing (apt-get install systemd)");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    // Older versions say that they ignore a key of newer ones; nothing else may be said of it.
    let of_ours = said.lines().filter(|line| line.contains("ostler.service"));
    let strange: Vec<_> = of_ours.filter(|line| !line.contains("DelegateSubgroup")).collect();
    assert!(strange.is_empty(), "{said}");
    assert!(verified.status.success(), "{said}");
}

/// Delivers GitHub's own example of a signed body as an event of no interest; returns the status.
fn deliver(address: &str, signature: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG_LIMIT)).unwrap();
    write!(
        stream,
        "POST /webhooks/github HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         X-GitHub-Event: ping\r\nX-GitHub-Delivery: 0b989ba4-242f-11e5-81e1-c7b6966d2516\r\n\
         X-Hub-Signature-256: {signature}\r\nContent-Length: 13\r\n\r\nHello, World!"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}
