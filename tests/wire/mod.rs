//! Each adapter against the real thing, or a fake that speaks its protocol, plus the port contracts.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test stops at the first surprise, in its helpers too"
)]

mod external;
mod github_access;
mod github_contract;
mod github_data;
mod github_deliveries;
mod github_fuzz;
mod github_jobs;
mod github_openapi;
mod github_rest;
mod github_schema;
mod github_storm;
mod github_support;
mod github_tls;
mod github_tokens;
mod github_webhook;
mod github_whole;
mod kubernetes;
mod process;
mod store;
