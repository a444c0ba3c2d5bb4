//! Deliveries grown by coverage: libFuzzer against signature and parser, `make fuzz`.
//!
//! The two files under test are compiled into this crate as they are, because instrumenting the
//! whole program (and all it is made of) would cost minutes and guide nothing.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

mod judge;
#[allow(dead_code, unreachable_pub, reason = "a part of the adapter, without those who use it")]
#[path = "../../src/github/webhook.rs"]
mod webhook;
#[allow(dead_code, reason = "a part of the adapter, without those who use it")]
#[path = "../../src/github/wire.rs"]
mod wire;

static JUDGE: LazyLock<judge::Judge> = LazyLock::new(judge::Judge::new);

fuzz_target!(|bytes: &[u8]| {
    JUDGE.judge(bytes);
});
