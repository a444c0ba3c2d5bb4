//! What makes machines: one folder a technology, each behind the ports of the core.
//!
//! A provider decides nothing about a machine's life. It makes what is ordered, shows what is
//! there, and deletes what the owner of an instance tells it to.

pub mod asking;
pub mod external;
pub mod identity;
mod jit;
pub mod kubernetes;
pub mod process;
