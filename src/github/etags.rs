//! Remembers answers by their tag: what has not changed costs nothing to ask again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many answers are kept; the ones longest unused go first.
const MAX_ANSWERS: usize = 2_000;
/// How large an answer may be to be kept.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Holds answers by identity and address: two identities may see different things there.
#[derive(Default)]
pub(super) struct Etags(Mutex<AnswerCache>);

#[derive(Default)]
struct AnswerCache {
    answers: BTreeMap<(String, String), Known>,
    uses: u64,
}

/// Holds one remembered answer.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) tag: String,
    pub(super) body: Arc<[u8]>,
    used: u64,
}

impl Etags {
    pub(super) fn find(&self, identity: &str, path: &str) -> Option<Known> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let uses = kept.uses;
        let known = kept.answers.get_mut(&(identity.to_owned(), path.to_owned()))?;
        known.used = uses;
        Some(known.clone())
    }

    pub(super) fn keep(&self, identity: &str, path: &str, tag: &str, body: &[u8]) {
        if body.len() > MAX_ANSWER_BYTES {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let known = Known { tag: tag.to_owned(), body: body.into(), used: kept.uses };
        kept.answers.insert((identity.to_owned(), path.to_owned()), known);
        if kept.answers.len() > MAX_ANSWERS {
            kept.evict();
        }
    }
}

impl AnswerCache {
    /// Drops the older half.
    fn evict(&mut self) {
        let mut uses: Vec<u64> = self.answers.values().map(|known| known.used).collect();
        uses.sort_unstable();
        let middle = uses.get(uses.len() / 2).copied().unwrap_or_default();
        self.answers.retain(|_, known| known.used >= middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_used() {
        let etags = Etags::default();
        for number in 0..5_000 {
            etags.keep("a", &format!("/{number}"), "tag", b"body");
            assert!(etags.find("a", "/0").is_some(), "lost while in use, at {number}");
        }
        assert!(etags.0.lock().unwrap().answers.len() <= MAX_ANSWERS);
        assert!(etags.find("b", "/0").is_none(), "another identity sees its own");
    }
}
