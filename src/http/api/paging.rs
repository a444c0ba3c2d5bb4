//! Parts of lists: how many, and from where.

use serde::Deserialize;

use super::super::problem::Problem;
use crate::ports::Page;

/// How many items a page holds by default.
const USUAL: u32 = 100;
/// How many it may hold.
const MOST: u32 = 1000;

/// Holds which part of a list is asked for.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Part {
    limit: Option<u32>,
    cursor: Option<String>,
}

impl Part {
    /// Returns how many items are asked for.
    pub(super) fn limit(&self) -> Result<u32, Problem> {
        match self.limit {
            None => Ok(USUAL),
            Some(limit) if (1..=MOST).contains(&limit) => Ok(limit),
            Some(_) => Err(Problem::new(400, format!("`limit` is a number from 1 to {MOST}"))),
        }
    }

    /// Returns where the last part of a list by name ended.
    pub(super) fn after(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Returns the part as the store knows it.
    pub(super) fn page(&self) -> Result<Page, Problem> {
        let ours = |cursor: &String| {
            cursor.split_once(':').is_some_and(|(at, _)| at.parse::<i64>().is_ok())
        };
        if self.cursor.as_ref().is_some_and(|cursor| !ours(cursor) || cursor.contains('\0')) {
            return Err(bad_cursor());
        }
        Ok(Page { limit: self.limit()?, cursor: self.cursor.clone() })
    }
}

pub(super) fn bad_cursor() -> Problem {
    Problem::new(400, "that `cursor` is none of ours; leave it out to begin with the first part")
}
