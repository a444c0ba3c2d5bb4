//! What the program's memory comes from, and when it goes back.
//!
//! A fleet breathes: a burst of creates, a sweep over every record, and then nothing for a minute. The
//! allocator's own manner is to keep what was freed for a second and to give it back at the next call
//! that happens to need more; a daemon at rest makes no such call, so it would hold the memory of its
//! last burst until the next one. Here what is free is given back at once.
//!
//! It asks for no huge pages either (the feature `no_thp`): a page of two MiB is resident for as long as
//! one of its objects lives. Both together are worth half of the memory of ten thousand instances.

use std::ffi::{c_int, c_long};

pub use mimalloc::MiMalloc as Allocator;

/// Where `mi_option_purge_delay` stands among the allocator's options, in its versions 2 and 3.
const PURGE_DELAY: c_int = 15;
const IMMEDIATELY: c_long = 0;

/// Lets freed memory go back at once. For the first line of `main`.
#[expect(unsafe_code, reason = "the allocator's options have no other door than its C interface")]
pub fn give_back_at_once() {
    // SAFETY: takes two numbers and stores one of them. It is not to be called from two threads at a
    // time, and `main` has not made a second one yet.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, IMMEDIATELY) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "as above")]
    fn the_option_is_the_one_that_says_how_long_freed_memory_is_kept() {
        // SAFETY: reads a number.
        let kept_for = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        // A second is what its authors chose; another number means that the options have moved.
        assert_eq!(kept_for(), 1_000);
        give_back_at_once();
        assert_eq!(kept_for(), 0);
    }
}
