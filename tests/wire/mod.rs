//! Each adapter against a fake that speaks its protocol, plus the port contracts.

mod github_jobs;
mod github_rest;
mod github_support;
mod github_tokens;
