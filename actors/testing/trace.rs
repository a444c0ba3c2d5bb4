//! The log of a world: always a running hash, and lines of text when a reader wants them.
//!
//! Two runs of one seed must agree on the hash; the text is made only on request, because
//! formatting would cost more than everything else.

use crate::model::Timestamp;

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
