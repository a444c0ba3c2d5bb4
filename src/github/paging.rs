//! Reads a list to its end, page by page, or not at all.
//!
//! Pages are counted by us on addresses of ours: GitHub's own `next` links are absolute, and
//! behind a proxy or on another host they lead elsewhere. A list that broke off half-way, or
//! that is shorter than GitHub says it is, is no list. All pages are read as one identity: two may
//! be shown different things, and pages of both would make a list of neither.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_actors::model::Scope;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::api::{ApiClient, Question};
use super::etags::Etags;
use super::failure::Failure;
use super::governor::Lane;
use super::identity::Identity;
use super::route::{PAGE, Route};

/// How many pages are read at most: a runner group holds 10,000.
const PAGES: usize = 200;

/// Holds a list and how to read it.
pub(super) struct List<'a> {
    pub(super) scope: &'a Scope,
    pub(super) lane: Lane,
    pub(super) route: Route,
    /// The field that holds the things; the answer itself is the list where there is none.
    pub(super) field: &'static str,
    /// Where unchanged pages are remembered, if they may be.
    pub(super) etags: Option<&'a Etags>,
}

impl ApiClient {
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        list: List<'_>,
    ) -> Result<Vec<T>, Failure> {
        self.list_as_shown(list).await.map(|(_, things)| things)
    }

    /// Reads every page, and says to whom it was shown. A thing that moved to a later page while
    /// we read is taken once.
    pub(super) async fn list_as_shown<T: DeserializeOwned>(
        &self,
        list: List<'_>,
    ) -> Result<(Arc<Identity>, Vec<T>), Failure> {
        let mut things: BTreeMap<u64, Value> = BTreeMap::new();
        let mut reader: Option<Arc<Identity>> = None;
        for number in 1..=PAGES {
            let route = list.route.clone().page(number);
            let question = Question { etags: list.etags, ..Question::get(route) };
            let (identity, answer) = match reader.take() {
                None => self.ask_somebody(list.scope, list.lane, &question).await?,
                Some(reader) => {
                    let answer = self.ask_as(&reader, list.lane, &question).await?;
                    (reader, answer)
                }
            };
            if answer.status != 200 {
                let what = format!("cannot list {} of `{}`", list.route.kind, list.scope);
                return Err(answer.unexpected(&what));
            }
            let more = answer.header("link").is_some_and(|link| link.contains("rel=\"next\""));
            let page = Page::read(answer.read()?, list.field);
            let full = page.things.len() >= PAGE;
            for thing in page.things {
                let id = thing.get("id").and_then(Value::as_u64);
                let id = id.ok_or_else(|| unreadable(list.route.kind))?;
                things.insert(id, thing);
            }
            if full || more {
                reader = Some(identity);
                continue;
            }
            if page.total.is_some_and(|total| total > things.len() as u64) {
                let why = format!("the list of {} broke off half-way", list.route.kind);
                return Err(Failure::Lost { why });
            }
            let read = things.into_values().map(serde_json::from_value);
            let read = read.collect::<Result<_, _>>().map_err(|_| unreadable(list.route.kind))?;
            return Ok((identity, read));
        }
        Err(Failure::Lost { why: format!("the list of {} does not end", list.route.kind) })
    }
}

struct Page {
    things: Vec<Value>,
    total: Option<u64>,
}

impl Page {
    fn read(mut answer: Value, field: &str) -> Self {
        let total = answer.get("total_count").and_then(Value::as_u64);
        let inner = answer.get_mut(field).map(Value::take);
        let things = inner.unwrap_or(answer);
        let things = match things {
            Value::Array(things) => things,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => Vec::new(),
        };
        Self { things, total }
    }
}

fn unreadable(kind: &str) -> Failure {
    Failure::Lost { why: format!("the list of {kind} cannot be read") }
}
