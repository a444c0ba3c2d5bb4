//! The last of what a runner said: two files, each at most 64 KiB, the older one overwritten.

use std::fs::{self, File};
use std::io::{self, Write as _};

use ostler_actors::model::{Tail, clip};

use super::files::{Home, create_private};

/// How much one of the two files holds: as much as a post-mortem keeps.
const HALF: usize = ostler_actors::model::TAIL_BYTES;

/// Keeps the end of an endless output.
pub(super) struct Ring {
    home: Home,
    file: File,
    written: usize,
}

impl Ring {
    /// Opens an empty ring.
    pub(super) fn open(home: &Home) -> io::Result<Self> {
        Ok(Self { home: home.clone(), file: create_private(&home.output())?, written: 0 })
    }

    /// Adds bytes, forgetting the oldest.
    pub(super) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        for part in bytes.chunks(HALF) {
            if self.written + part.len() > HALF {
                fs::rename(self.home.output(), self.home.old_output())?;
                self.file = create_private(&self.home.output())?;
                self.written = 0;
            }
            self.file.write_all(part)?;
            self.written += part.len();
        }
        Ok(())
    }
}

/// Returns the end of what a runner said, fit for a record.
pub(super) fn tail(home: &Home) -> Tail {
    let mut said = fs::read(home.old_output()).unwrap_or_default();
    match fs::read(home.output()) {
        Ok(newest) => said.extend(newest),
        Err(_) if !said.is_empty() => {}
        Err(error) => return Tail::Unavailable(format!("its output cannot be read: {error}")),
    }
    Tail::Captured(clip(&String::from_utf8_lossy(&said)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_its_end_and_its_bounds() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::new(place.path());
        assert!(matches!(tail(&home), Tail::Unavailable(_)));
        let mut ring = Ring::open(&home).unwrap();
        for line in 0..50_000 {
            ring.add(format!("line {line}\n").as_bytes()).unwrap();
        }
        ring.add(&vec![b'x'; 3 * HALF]).unwrap();
        ring.add(b"\nthe end\n").unwrap();
        for file in [home.output(), home.old_output()] {
            assert!(fs::metadata(file).unwrap().len() <= HALF as u64);
        }
        let Tail::Captured(text) = tail(&home) else { panic!("no tail") };
        assert!(text.ends_with("the end") && text.len() <= HALF);
    }
}
