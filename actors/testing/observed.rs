//! What the world saw the daemon do, with the truth of that very moment beside it.
//!
//! Checkers read this and nothing else about the past: every save with the row before and
//! after it, every call that makes or ends something, and what really ran there then.
//!
//! The log of a world: always a running hash, and lines of text when a reader wants them.
//!
//! Two runs of one seed must agree on the hash; the text is made only on request, because
//! formatting would cost more than everything else.

use std::sync::Arc;

use super::clock::Moment;
use crate::model::{
    Conclusion, Epoch, HolderId, Instance, InstanceId, Job, JobId, MachineName, PoolRow,
    ProviderId, RunnerId, RunnerName, State, Timestamp, WarrantKind,
};
use crate::ports::Deregistered;

#[derive(Clone, Debug)]
pub struct Observed {
    pub at: Moment,
    pub what: Seen,
}

/// Tells what was seen.
#[derive(Clone, Debug)]
pub enum Seen {
    /// An instance's row was saved.
    Saved {
        /// The row before, if there was one.
        before: Option<Arc<Instance>>,
        after: Arc<Instance>,
        /// The epoch under which the write was made.
        epoch: Epoch,
        /// Whether the record of its end came with it.
        with_exit: bool,
    },
    JobsSaved {
        /// Each row before and after.
        jobs: Vec<(Option<Arc<Job>>, Arc<Job>)>,
        tombstones: Vec<JobId>,
        /// The epoch under which the write was made.
        epoch: Epoch,
    },
    /// The fleet saved a pool.
    PoolSaved(PoolRow),
    /// A save was refused for good.
    SaveRefused {
        id: String,
        why: Refused,
    },
    /// `Provider::create` was called.
    CreateCalled {
        instance: Option<InstanceId>,
        machine: MachineName,
        provider: ProviderId,
        /// Whether a create of this name was called before.
        again: bool,
        /// The stored row's state.
        state: Option<State>,
        /// Whether the call was committed beforehand.
        committed: bool,
    },
    /// A machine came to exist.
    Appeared {
        machine: MachineName,
        /// How many machines of this name there have been, this one included.
        times: u32,
    },
    /// `Provider::delete` was called.
    DeleteCalled(Box<DeleteCalled>),
    /// A machine ended or vanished by itself.
    MachineEnded {
        machine: MachineName,
        /// Which job died with it.
        killed: Option<u64>,
    },
    /// Nothing is left of a machine.
    MachineGone {
        machine: MachineName,
    },
    /// `Forge::mint` made a registration.
    Minted {
        name: RunnerName,
        id: RunnerId,
    },
    /// `Forge::mint` found the name taken.
    NameTaken(RunnerName),
    /// `Forge::deregister` was called.
    Deregister {
        name: Option<RunnerName>,
        /// The job that ran there.
        working: Option<u64>,
        /// The job that was assigned and not picked up.
        assigned: Option<u64>,
        /// What was answered, if anything.
        answer: Option<Deregistered>,
    },
    /// A machine received a JIT config by asking.
    HandedOut {
        instance: InstanceId,
        /// Whether a delivered offer to it was durable then.
        delivered: bool,
        /// Whether the registration still exists.
        registered: bool,
    },
    /// A job began to run.
    JobStarted {
        job: u64,
        machine: MachineName,
        runner: RunnerName,
    },
    /// A job is over at the forge.
    JobOver {
        job: u64,
        conclusion: Conclusion,
        /// Whether we deleted its machine under it without an operator's word.
        killed_by_us: bool,
    },
    Started {
        epoch: Epoch,
        holder: HolderId,
    },
    Crashed(&'static str),
}

/// Names the answers that end a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    Conflict,
    /// The machine has an owner.
    Owned,
    /// A newer epoch holds the lease.
    Fenced,
}

/// Holds a delete call and what was true when it arrived.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are true or not, independently")]
pub struct DeleteCalled {
    pub machine: MachineName,
    pub provider: ProviderId,
    pub exists: bool,
    /// Whether it was over by itself.
    pub over: bool,
    /// The job whose worker was alive there.
    pub working: Option<u64>,
    /// The job that was assigned there and that its living agent would have picked up.
    pub assigned: Option<u64>,
    /// Whether the record says that nothing came of its order, and nothing can come online.
    pub never_made: bool,
    /// Whether the machine was shown as in doubt.
    pub doubt: bool,
    /// The live row that owns the machine.
    pub instance: Option<InstanceId>,
    pub state: Option<State>,
    pub warrant: Option<WarrantKind>,
    /// Whether a person really forced it.
    pub forced: bool,
    /// Whether the record of its end was durable.
    pub has_exit_record: bool,
    /// Since when the row is in that state.
    pub since: Option<Timestamp>,
}

impl DeleteCalled {
    /// Returns whether work was killed without an operator's request.
    pub fn is_wrongful(&self) -> bool {
        (self.working.is_some() || self.assigned.is_some()) && !self.forced
    }
}

/// Holds the running hash of everything that happened, and optionally the story.
pub struct Trace {
    hash: u64,
    count: u64,
    lines: Option<Vec<String>>,
}

impl Default for Trace {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, count: 0, lines: None }
    }
}

impl Trace {
    /// Starts to keep lines of text.
    pub fn tell_stories(&mut self) {
        self.lines.get_or_insert_default();
    }

    /// Returns whether lines are kept.
    pub fn tells_stories(&self) -> bool {
        self.lines.is_some()
    }

    /// Notes that `what` happened to `whom`.
    pub fn log(&mut self, at: Timestamp, what: &'static str, whom: &str, how: u64) {
        self.count += 1;
        self.mix(u64::try_from(at.as_millisecond()).unwrap_or(0));
        self.bytes(what.as_bytes());
        self.bytes(whom.as_bytes());
        self.mix(how);
        if let Some(lines) = &mut self.lines {
            let how = if how == 0 { String::new() } else { format!(" ({how})") };
            lines.push(format!("{at:.3} {what:<22} {whom}{how}"));
        }
    }

    /// Adds a line that only readers see.
    pub fn aside(&mut self, at: Timestamp, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{at:.3}     {}", line()));
        }
    }

    /// Returns the hash of everything so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns how many notes there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the lines kept so far.
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }
}
