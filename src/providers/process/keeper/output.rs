//! Listening to a runner: its output goes into the ring, and one line of it means *ready*.

use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use crate::providers::process::files::{Home, create_private};
use crate::providers::process::ring::Ring;

/// How long the rest of the output may take once no process is left to write it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How much is heard at once.
const GULP: usize = 16 * 1024;

/// Holds the ears of a keeper.
pub(super) struct OutputReader {
    home: Home,
    ring: Ring,
    pipe: Option<Receiver>,
    buffer: Vec<u8>,
    /// What is waited for, and the end of what was heard, lest a line be cut in two.
    ready: Option<(Vec<u8>, Vec<u8>)>,
}

impl OutputReader {
    /// Opens the ring; there is no process to listen to yet.
    pub(super) fn open(home: &Home, ready_line: Option<&str>) -> io::Result<Self> {
        let line = ready_line.filter(|line| !line.is_empty());
        Ok(Self {
            home: home.clone(),
            ring: Ring::open(home)?,
            pipe: None,
            buffer: vec![0; GULP],
            ready: line.map(|line| (line.as_bytes().to_vec(), Vec::new())),
        })
    }

    /// Makes the pipe a runner speaks into, and listens at its other end.
    pub(super) fn pipe(&mut self) -> io::Result<PipeWriter> {
        let (reader, writer) = io::pipe()?;
        self.pipe = Some(Receiver::from_owned_fd(OwnedFd::from(reader))?);
        Ok(writer)
    }

    /// Adds a word of the keeper's own to the output.
    pub(super) fn log(&mut self, what: &str) {
        drop(self.ring.add(format!("ostler keeper: {what}\n").as_bytes()));
    }

    /// Hears the next of it; for ever silent once everybody has gone.
    pub(super) async fn hear(&mut self) {
        let Some(pipe) = &mut self.pipe else { return std::future::pending().await };
        match pipe.read(&mut self.buffer).await {
            Ok(0) | Err(_) => self.pipe = None,
            Ok(count) => self.take(count),
        }
    }

    /// Hears what was still said, after the last speaker has gone.
    pub(super) async fn hear_out(&mut self) {
        let rest = async {
            while self.pipe.is_some() {
                self.hear().await;
            }
        };
        drop(tokio::time::timeout(DRAIN_TIMEOUT, rest).await);
    }

    fn take(&mut self, count: usize) {
        let heard = self.buffer.get(..count).unwrap_or_default();
        // A full disk costs the log, not the runner: its output is read on, so it never blocks.
        drop(self.ring.add(heard));
        let Some((line, last)) = &mut self.ready else { return };
        last.extend_from_slice(heard);
        if last.windows(line.len()).any(|part| part == line.as_slice()) {
            drop(create_private(&self.home.ready()));
            self.ready = None;
        } else {
            last.drain(..last.len().saturating_sub(line.len()));
        }
    }
}
