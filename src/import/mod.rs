//! Taking over from others: their records become configuration files of ours.

pub mod garm;
