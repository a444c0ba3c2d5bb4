//! Words of closed lists, which the description of the API spells out.

use std::borrow::Cow;

use ostler_actors::model::{JobState, State, VerdictClass};
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Names a state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateName(pub State);

/// Names a state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobStateName(pub JobState);

/// Names a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VerdictName(pub VerdictClass);

fn one_of(words: Vec<&'static str>, what: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .enum_values(Some(words))
        .description(Some(what))
        .into()
}

impl PartialSchema for StateName {
    fn schema() -> RefOr<Schema> {
        one_of(State::ALL.map(State::as_str).to_vec(), "Where an instance is in its life.")
    }
}

impl PartialSchema for JobStateName {
    fn schema() -> RefOr<Schema> {
        one_of(JobState::ALL.map(JobState::as_str).to_vec(), "Where a job is in its life.")
    }
}

impl PartialSchema for VerdictName {
    fn schema() -> RefOr<Schema> {
        one_of(VerdictClass::ALL.map(VerdictClass::as_str).to_vec(), "Why an instance ended.")
    }
}

impl ToSchema for StateName {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("State")
    }
}

impl ToSchema for JobStateName {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("JobState")
    }
}

impl ToSchema for VerdictName {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Verdict")
    }
}

/// Returns the word under which the core serializes one of its plain enums.
pub(in crate::http) fn serde_name(of: &impl Serialize) -> String {
    match serde_json::to_value(of) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other
            .as_object()
            .and_then(|fields| fields.keys().next().cloned())
            .unwrap_or_else(|| "unknown".into()),
        Err(_) => "unknown".into(),
    }
}
