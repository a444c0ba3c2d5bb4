//! Caches answers by their `ETag`: a repeated request costs no budget while nothing changed.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

/// How many answers are kept; the one longest unused goes first.
const MAX_ANSWERS: NonZeroUsize = NonZeroUsize::new(2_000).expect("more than none");
/// How large an answer may be to be kept.
const MAX_CACHED_BYTES: usize = 1 << 20;

/// Holds answers by identity and address: two identities may see different things there.
pub(super) struct Etags(Mutex<LruCache<(String, String), CachedAnswer>>);

/// Holds one remembered answer.
#[derive(Clone)]
pub(super) struct CachedAnswer {
    pub(super) tag: String,
    pub(super) body: Arc<[u8]>,
}

impl Default for Etags {
    fn default() -> Self {
        Self(Mutex::new(LruCache::sparse(MAX_ANSWERS)))
    }
}

impl Etags {
    pub(super) fn find(&self, identity: &str, path: &str) -> Option<CachedAnswer> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(&(identity.to_owned(), path.to_owned())).cloned()
    }

    pub(super) fn keep(&self, identity: &str, path: &str, tag: &str, body: &[u8]) {
        if body.len() > MAX_CACHED_BYTES {
            return;
        }
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = CachedAnswer { tag: tag.to_owned(), body: body.into() };
        answers.put((identity.to_owned(), path.to_owned()), answer);
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
        assert_eq!(etags.0.lock().unwrap().len(), MAX_ANSWERS.get());
        assert!(etags.find("b", "/0").is_none(), "another identity sees its own");
    }
}
