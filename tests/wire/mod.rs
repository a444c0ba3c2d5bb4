//! Each adapter against the real thing, or a fake that speaks its protocol, plus the port contracts.

#[expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test stops at the first surprise, in its helpers too"
)]
mod process;
