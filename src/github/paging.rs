//! Reads a list to its end, page by page, or not at all.
//!
//! Pages are counted here, on our own addresses: GitHub's `next` links are absolute, and behind a proxy
//! or on another host they lead elsewhere. A list that breaks off half-way, or that is shorter than
//! GitHub says it is, is an error. All pages are read as one identity: two identities may be shown
//! different things, and a mix of their pages is the list of neither.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_actors::model::Scope;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::ApiFailure;
use super::api::{ApiClient, ApiRequest};
use super::etags::Etags;
use super::governor::Lane;
use super::identity::Identity;
use super::route::{PAGE_ITEMS, Route};

/// How many pages are read at most: a runner group holds 10,000.
const MAX_PAGES: usize = 200;

/// A list and how to read it.
pub(super) struct List<'a> {
    pub(super) scope: &'a Scope,
    pub(super) lane: Lane,
    pub(super) route: Route,
    /// The field that holds the items; the answer itself is the list when there is no such field.
    pub(super) field: &'static str,
    /// Where unchanged pages are remembered, if they may be.
    pub(super) etags: Option<&'a Etags>,
}

impl ApiClient {
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        list: List<'_>,
    ) -> Result<Vec<T>, ApiFailure> {
        self.list_as_shown(list).await.map(|(_, things)| things)
    }

    /// Reads every page, and returns the identity it was shown to. An item that moved to a later page
    /// meanwhile is taken once.
    pub(super) async fn list_as_shown<T: DeserializeOwned>(
        &self,
        list: List<'_>,
    ) -> Result<(Arc<Identity>, Vec<T>), ApiFailure> {
        let mut things: BTreeMap<u64, Value> = BTreeMap::new();
        let mut reader: Option<Arc<Identity>> = None;
        for number in 1..=MAX_PAGES {
            let route = list.route.clone().page(number);
            let question = ApiRequest { etags: list.etags, ..ApiRequest::get(route) };
            let (identity, answer) = match reader.take() {
                None => self.ask_any(list.scope, list.lane, &question).await?,
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
            let full = page.things.len() >= PAGE_ITEMS;
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
                return Err(ApiFailure::Lost { why });
            }
            let read = things.into_values().map(serde_json::from_value);
            let read = read.collect::<Result<_, _>>().map_err(|_| unreadable(list.route.kind))?;
            return Ok((identity, read));
        }
        Err(ApiFailure::Lost { why: format!("the list of {} does not end", list.route.kind) })
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

fn unreadable(kind: &str) -> ApiFailure {
    ApiFailure::Lost { why: format!("the list of {kind} cannot be read") }
}
