//! One instance as spans: its whole life, and in it webhook, create, ready, job and delete.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use ostler_actors::model::{Event, ExitRecord, Instance, Job, State, Timestamp, What};
use serde_json::{Value, json};

use super::super::notify::is_normal;

/// The records of a deleted instance.
pub(super) struct Life<'a> {
    pub(super) row: &'a Instance,
    pub(super) events: &'a [Event],
    pub(super) end: Option<&'a ExitRecord>,
    pub(super) job: Option<&'a Job>,
}

/// A part of the life of an instance.
struct SpanPart {
    name: &'static str,
    from: Timestamp,
    to: Timestamp,
}

impl Life<'_> {
    /// Returns the spans: the whole life first, then its parts.
    pub(super) fn spans(&self) -> Vec<Value> {
        let (row, parts) = (self.row, self.parts());
        let begun = parts.iter().map(|part| part.from).min().unwrap_or(row.created_at);
        let whole = SpanPart {
            name: "instance",
            from: begun.min(row.created_at),
            to: self.last().max(begun),
        };
        let mut root = self.span(&whole);
        root["attributes"] = json!(self.attributes());
        root["events"] = self.events.iter().map(span_event).collect();
        root["status"] = self.status();
        let parent = root["spanId"].clone();
        let child = |part: &SpanPart| {
            let mut span = self.span(part);
            span["parentSpanId"] = parent.clone();
            span
        };
        std::iter::once(root).chain(parts.iter().map(child)).collect()
    }

    fn parts(&self) -> Vec<SpanPart> {
        let row = self.row;
        let called = row.create_called_at;
        // An instance that was there before its job was heard of was made for another reason.
        let heard =
            self.job.map(|job| job.heard_at).filter(|at| called.is_some_and(|it| *at <= it));
        let run = self.job.and_then(|job| job.execution.as_ref());
        let began = run.filter(|run| run.instance == row.id).map(|run| run.since);
        let over = self.job.and_then(|job| job.over_at).or_else(|| self.at(State::Ended));
        let ready = row.ready_at.or(began);
        let parts = [
            ("webhook", heard, called),
            ("create", called, row.seen_at),
            ("ready", row.seen_at, ready),
            ("job", began, over),
            ("delete", self.at(State::Deleting), self.at(State::Deleted)),
        ];
        let known = |(name, from, to): (&'static str, Option<Timestamp>, Option<Timestamp>)| {
            let (from, to) = (from?, to?);
            // Two clocks may disagree; a part never ends before it begins.
            Some(SpanPart { name, from, to: to.max(from) })
        };
        parts.into_iter().filter_map(known).collect()
    }

    fn span(&self, part: &SpanPart) -> Value {
        let id = self.row.id.as_str();
        json!({
            "traceId": number(id, 16),
            "spanId": number(&format!("{id}/{}", part.name), 8),
            "name": part.name,
            "kind": 1,
            "startTimeUnixNano": nanos(part.from),
            "endTimeUnixNano": nanos(part.to),
        })
    }

    fn attributes(&self) -> Vec<Value> {
        let row = self.row;
        let mut all = vec![
            attribute("ostler.instance", row.id.as_str()),
            attribute("ostler.pool", row.pool.as_str()),
            attribute("ostler.provider", row.provider.as_str()),
            attribute("ostler.forge", row.forge.as_str()),
            attribute("ostler.scope", &row.scope.to_string()),
        ];
        all.extend(row.host.as_ref().map(|host| attribute("host.name", host.as_str())));
        if let Some(end) = self.end {
            all.push(attribute("ostler.verdict", end.verdict.class.as_str()));
            all.push(attribute("ostler.fault", end.verdict.fault.as_str()));
            all.extend(end.job.as_ref().map(|job| attribute("ostler.job", &job.to_string())));
        }
        all.extend(self.job.map(|job| attribute("ostler.job.name", &job.name)));
        all
    }

    /// Returns the OTLP status: 1 for a normal end, 2 for any other.
    fn status(&self) -> Value {
        match self.end.map(|end| &end.verdict) {
            None => json!({}),
            Some(verdict) if is_normal(verdict.class) => json!({ "code": 1 }),
            Some(verdict) => json!({ "code": 2, "message": verdict.class.as_str() }),
        }
    }

    /// Returns when the instance last entered a state.
    fn at(&self, state: State) -> Option<Timestamp> {
        let came = |event: &&Event| matches!(event.what, What::Moved { to, .. } if to == state);
        self.events.iter().rev().find(came).map(|event| event.at)
    }

    fn last(&self) -> Timestamp {
        self.events.iter().map(|event| event.last_at).max().unwrap_or(self.row.since)
    }
}

/// Returns the whole message.
pub(super) fn message(installation: &str, spans: &[Value]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({ "resourceSpans": [{
        "resource": { "attributes": [
            attribute("service.name", "ostler"),
            attribute("service.version", version),
            attribute("service.instance.id", installation),
        ] },
        "scopeSpans": [{ "scope": { "name": "ostler", "version": version }, "spans": spans }],
    }] })
}

fn span_event(event: &Event) -> Value {
    json!({ "timeUnixNano": nanos(event.at), "name": event.what.to_string() })
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Returns an id that is the same whenever the same instance is sent.
fn number(of: &str, bytes: usize) -> String {
    let hash = digest(&SHA256, of.as_bytes());
    let mut text = String::with_capacity(2 * bytes);
    for byte in hash.as_ref().iter().take(bytes) {
        // Writing to memory does not fail.
        let _: Result<(), _> = write!(text, "{byte:02x}");
    }
    text
}

/// Whole numbers beyond 2^53 are text in JSON.
fn nanos(at: Timestamp) -> String {
    at.as_nanosecond().max(0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute_of<'a>(span: &'a Value, key: &str) -> &'a Value {
        let all = span["attributes"].as_array().unwrap();
        &all.iter().find(|it| it["key"] == key).unwrap()["value"]["stringValue"]
    }

    #[test]
    fn a_life_without_a_job_has_the_parts_it_had_and_always_the_same_numbers() {
        let mut row = ostler_actors::testing::contract::instance("linux-1");
        let at = |second: i64| Timestamp::from_second(1_000_000 + second).unwrap();
        (row.created_at, row.create_called_at) = (at(0), Some(at(1)));
        (row.seen_at, row.ready_at) = (Some(at(5)), Some(at(4)));
        let life = Life { row: &row, events: &[], end: None, job: None };
        let spans = life.spans();
        let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["instance", "create", "ready"]);
        assert_eq!(spans[1]["startTimeUnixNano"], "1000001000000000");
        assert_eq!(spans[1]["endTimeUnixNano"], "1000005000000000");
        assert_eq!(spans[2]["endTimeUnixNano"], "1000005000000000", "never before it begins");
        assert!(spans[1..].iter().all(|span| span["parentSpanId"] == spans[0]["spanId"]));
        assert!(spans.iter().all(|span| span["traceId"].as_str().unwrap().len() == 32));
        assert_eq!(spans[0]["spanId"].as_str().unwrap().len(), 16);
        assert_eq!(attribute_of(&spans[0], "ostler.instance"), "linux-1");
        assert_eq!(life.spans(), spans);
    }
}
