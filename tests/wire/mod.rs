//! Each adapter against the real thing or a fake that speaks its protocol, plus the port contracts.

mod store;
