//! How much this process holds, to the byte: the system's allocator, and a counter beside it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is allocated and not yet freed.
pub(crate) struct Weighed;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// Returns how many KiB are allocated.
pub(crate) fn held() -> usize {
    HELD.load(Ordering::Relaxed) / 1024
}

#[expect(unsafe_code, reason = "an allocator cannot be written without")]
// SAFETY: whatever is asked is passed on unchanged, and the counter allocates nothing.
unsafe impl GlobalAlloc for Weighed {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: our caller keeps the same promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: our caller keeps the same promises, and `alloc` had it from the same place.
        unsafe { System.dealloc(at, layout) }
    }
}
