//! What can happen outside, each at its moment.

/// Something that happens outside.
#[derive(Debug)]
pub(super) enum Happening {}
