//! `ostler top` in a real terminal, which tmux plays.

use std::process::Command;

use ostler::demo::agent::Step;

use crate::support::daemon::{ENDLESS_JOB, Stage, pool, until};

/// Is a terminal with one program in it. Dropping it ends both.
struct Terminal {
    socket: String,
}

impl Terminal {
    fn start(command: &str) -> Option<Self> {
        let it = Self { socket: format!("ostler-test-{}-{:x}", std::process::id(), rand_suffix()) };
        let started =
            it.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "24", command]);
        if started.is_none() {
            crate::support::skip::say("no tmux (apt-get install tmux)");
        }
        started.map(|_| it)
    }

    fn tmux(&self, arguments: &[&str]) -> Option<String> {
        let output =
            Command::new("tmux").args(["-L", &self.socket]).args(arguments).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"]).unwrap_or_default()
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    async fn until_shown(&self, text: &str) {
        until(&format!("top shows `{text}`"), async || self.screen().contains(text)).await;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// Returns a number that no other test of this process has.
fn rand_suffix() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn top_is_live_takes_keys_and_gives_the_terminal_back() {
    let mut stage = Stage::on_sqlite(&pool(1, 2));
    let mut daemon = stage.lead().await;
    let address = daemon.address().expect("it listens");
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let command = format!("{ostler} top --server http://{address}; echo left with $?; exec cat");
    let Some(terminal) = Terminal::start(&command) else { return stage.leave() };
    terminal.until_shown("1 idle").await;
    stage.queue_as("long build", &["self-hosted", "linux"], Step::Succeed, ENDLESS_JOB);
    terminal.until_shown("1 busy").await;
    terminal.press("2");
    terminal.until_shown("INSTANCE").await;
    terminal.press("3");
    terminal.until_shown("long build").await;
    terminal.press("1");
    terminal.press("Enter");
    terminal.until_shown("esc closes").await;
    terminal.press("Escape");
    // Escape and another key right behind it are one key to a terminal.
    until("it closes", async || !terminal.screen().contains("esc closes")).await;
    terminal.press("?");
    terminal.until_shown("enter keeps it").await;
    terminal.press("?");
    until("the keys go", async || !terminal.screen().contains("esc closes")).await;
    terminal.press("q");
    terminal.until_shown("left with 0").await;
    assert!(!terminal.screen().contains("INSTANCE"), "the screen was not given back");
    stage.leave();
}
