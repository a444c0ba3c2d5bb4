//! One call: a process in a group of its own, with a deadline, and no more said than can be kept.
//!
//! The caller waits for the process itself, which holds up no other call. When the caller is dropped, it is
//! attended to without him: a look is ended, a create or a delete goes on to its deadline, for half of
//! it would be worse.
//! What is sent to a provider's group reaches its children too; one that made itself a group of
//! its own meant to outlive the call.

use std::io;
use std::path::Path;
use std::pin::{Pin, pin};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ostler_actors::model::clip;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::environ::Command;
use super::gate::Pass;

/// How much of an answer is read; a listing of ten thousand machines fits.
const LONGEST_ANSWER: usize = 8 << 20;
/// How much of the end of stderr is kept.
const LONGEST_FAULT: usize = 4 << 10;
/// How long the output of a process that ended may stay open: a child may hold it.
const SETTLE: Duration = Duration::from_millis(500);
/// How long a group may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);

/// Holds what is asked.
pub(super) struct Call {
    pub(super) command: Command,
    pub(super) env: Vec<(String, String)>,
    pub(super) stdin: Option<Vec<u8>>,
    pub(super) deadline: Duration,
    /// What must never be repeated in logs or errors.
    pub(super) secret: Option<String>,
}

/// Holds what came back.
#[derive(Debug)]
pub(super) struct Spoken {
    pub(super) command: Command,
    pub(super) end: End,
    pub(super) stdout: Vec<u8>,
    /// The end of what it said went wrong, safe to show.
    pub(super) fault: String,
}

/// Tells how a call ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The process ended with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// Its deadline passed, and it was ended.
    Late(Duration),
    /// It said more than can be kept, and was ended.
    Flood,
    /// Nothing was started: the system would not.
    NotStarted(String),
    /// Nothing was started: all places were taken for so long.
    NoPlace(Duration),
    Lost,
}

impl Spoken {
    /// Returns a call that did not come to be.
    pub(super) fn not_begun(command: Command, end: End) -> Self {
        Self { command, end, stdout: Vec::new(), fault: String::new() }
    }

    /// Returns what happened, in a sentence for people.
    pub(super) fn story(&self) -> String {
        let command = self.command.as_str();
        let mut told = match &self.end {
            End::Code(code) => format!("{command} ended with exit code {code}"),
            End::Signal(signal) => format!("{command} was ended by signal {signal}"),
            End::Late(timeout) => {
                format!("{command} did not end in {} s and was killed", timeout.as_secs())
            }
            End::Flood => format!("{command} said more than {LONGEST_ANSWER} bytes and was killed"),
            End::NotStarted(why) => format!("{command} could not be started: {why}"),
            End::NoPlace(waited) => format!(
                "{command} was not started: all `concurrency` places were taken for {} s",
                waited.as_secs()
            ),
            End::Lost => format!("{command} was started and its end is not known"),
        };
        if !self.fault.is_empty() {
            told.push_str(": ");
            told.push_str(&self.fault);
        }
        told
    }
}

/// Makes a call and waits for its end. The place is held until the process is gone.
pub(super) async fn create(executable: &Path, call: Call, pass: Pass) -> Spoken {
    let command = call.command;
    let child = match start(executable, &call) {
        Ok(child) => child,
        Err(error) => {
            let why = format!("`{}`: {error}", executable.display());
            return Spoken::not_begun(command, End::NotStarted(why));
        }
    };
    let left = Arc::new(Notify::new());
    let attending = Box::pin(attend(child, call, Arc::clone(&left), pass));
    Attended { attending: Some(attending), left }.await
}

/// A call that is attended to, by its caller or without him.
struct Attended {
    attending: Option<Pin<Box<dyn Future<Output = Spoken> + Send>>>,
    left: Arc<Notify>,
}

impl Future for Attended {
    type Output = Spoken;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Spoken> {
        // One that has answered is not asked again.
        let Some(attending) = &mut self.attending else { return Poll::Pending };
        let answer = ready!(attending.as_mut().poll(cx));
        self.attending = None;
        Poll::Ready(answer)
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        let Some(attending) = self.attending.take() else { return };
        self.left.notify_one();
        // Without a runtime this process is ending, and the provider's ends by itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(attending);
        }
    }
}

fn start(executable: &Path, call: &Call) -> io::Result<Child> {
    let stdin = if call.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
    tokio::process::Command::new(executable)
        .env_clear()
        .envs(call.env.iter().map(|(name, value)| (name, value)))
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// Tells why a process is no longer waited for.
enum Stop {
    Exited(ExitStatus),
    Late,
    Flood,
    Abandoned,
    Lost,
}

async fn attend(mut child: Child, call: Call, left: Arc<Notify>, pass: Pass) -> Spoken {
    let Call { command, stdin, deadline, secret, .. } = call;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let (pipe_in, pipe_out, pipe_err) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let stop = {
        let hear = async {
            tokio::try_join!(
                feed(pipe_in, stdin),
                keep_all(pipe_out, &mut stdout),
                keep_end(pipe_err, &mut stderr)
            )
        };
        let mut hear = pin!(hear);
        let late = Instant::now() + deadline;
        let (mut hearing, mut exited, mut until) = (true, None, late);
        loop {
            tokio::select! {
                heard = &mut hear, if hearing => {
                    hearing = false;
                    if heard.is_err() {
                        break Stop::Flood;
                    }
                }
                status = child.wait(), if exited.is_none() => match status {
                    Ok(status) => {
                        exited = Some(status);
                        until = late.min(Instant::now() + SETTLE);
                    }
                    Err(_) => break Stop::Lost,
                },
                () = sleep_until(until) => break exited.map_or(Stop::Late, Stop::Exited),
                () = left.notified(), if is_look(command) => break Stop::Abandoned,
            }
            if let (false, Some(status)) = (hearing, exited) {
                break Stop::Exited(status);
            }
        }
    };
    let end = match stop {
        Stop::Exited(status) => ended(status),
        Stop::Late | Stop::Flood | Stop::Abandoned | Stop::Lost => {
            end_group(&mut child, group).await;
            match stop {
                Stop::Late => End::Late(deadline),
                Stop::Flood => End::Flood,
                Stop::Abandoned | Stop::Lost | Stop::Exited(_) => End::Lost,
            }
        }
    };
    drop(pass);
    let fault = readable(&stderr, secret.as_deref());
    Spoken { command, end, stdout, fault }
}

fn is_look(command: Command) -> bool {
    match command {
        Command::Get | Command::List | Command::Version | Command::Interfaces => true,
        Command::Create | Command::Delete => false,
    }
}

fn ended(status: ExitStatus) -> End {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Lost,
    }
}

/// Ends a whole group: asks it first, so that a provider can let go of what it began.
async fn end_group(child: &mut Child, group: Option<Pid>) {
    let send = |signal| {
        if let Some(group) = group {
            // One that is empty needs no signal.
            let _: Result<(), _> = kill_process_group(group, signal);
        }
    };
    send(Signal::TERM);
    drop(timeout(GRACE, child.wait()).await);
    // Its number is not given away while a process is left in the group.
    send(Signal::KILL);
    drop(child.wait().await);
}

/// Says that more came than can be kept.
struct TooMuch;

async fn feed(pipe: Option<ChildStdin>, text: Option<Vec<u8>>) -> Result<(), TooMuch> {
    if let (Some(mut pipe), Some(text)) = (pipe, text) {
        // A provider need not read all of it.
        drop(pipe.write_all(&text).await);
        drop(pipe.shutdown().await);
    }
    Ok(())
}

async fn keep_all(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) -> Result<(), TooMuch> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    while let Ok(1..) = pipe.read_buf(kept).await {
        if kept.len() > LONGEST_ANSWER {
            return Err(TooMuch);
        }
    }
    Ok(())
}

async fn keep_end(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) -> Result<(), TooMuch> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    while let Ok(1..) = pipe.read_buf(kept).await {
        if kept.len() > 2 * LONGEST_FAULT {
            kept.drain(..kept.len() - LONGEST_FAULT);
        }
    }
    Ok(())
}

/// Returns the end of what was said, harmless and without the secret.
fn readable(stderr: &[u8], secret: Option<&str>) -> String {
    let end = &stderr[stderr.len().saturating_sub(LONGEST_FAULT)..];
    let text = String::from_utf8_lossy(end);
    let text = match secret {
        Some(secret) if !secret.is_empty() => text.replace(secret, "…"),
        Some(_) | None => text.into_owned(),
    };
    clip(text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_never_repeats_the_secret_nor_steers_a_terminal() {
        let text = b"cannot boot with v1.secret\x1b[2J\n";
        let shown = readable(text, Some("v1.secret"));
        assert!(shown.starts_with("cannot boot with …") && !shown.contains('\x1b'), "{shown}");
    }

    #[test]
    fn only_the_end_of_a_long_complaint_is_kept() {
        let text = format!("{}the cause", "x".repeat(3 * LONGEST_FAULT));
        let shown = readable(text.as_bytes(), None);
        assert!(shown.ends_with("the cause") && shown.len() <= LONGEST_FAULT);
    }
}
