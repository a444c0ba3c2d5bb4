//! Whether a value fits the kind its key takes, and how a right one looks.

use std::net::SocketAddr;
use std::time::Duration;

use super::durations::{duration, size, written};
use super::keys::Kind;
use super::names;
use super::secrets;
use super::tree::{Mark, Node, Value};

/// Tells why a value does not fit.
pub(crate) enum Misfit {
    /// It should have been something else: "a whole number".
    Type(&'static str),
    /// It is of the right type, but: "is 0; the least is 1".
    Value(String),
}

/// Compares a value with a kind; tables are compared by their keys elsewhere.
pub(crate) fn fits(kind: &Kind, value: &Value) -> Result<(), Misfit> {
    match (kind, value) {
        (Kind::Duration { least }, Value::Text(text)) => at_least(text, *least),
        (Kind::DurationOrOff, Value::Text(text)) if text == "off" => Ok(()),
        (Kind::DurationOrOff, Value::Text(text)) => at_least(text, 1),
        (Kind::Size, Value::Text(text)) => {
            let why = || Misfit::Value(format!("is `{text}`, which is not a size"));
            size(text).filter(|bytes| *bytes > 0).map(drop).ok_or_else(why)
        }
        (Kind::Whole { least, most }, Value::Whole(number)) if number < least || number > most => {
            Err(Misfit::Value(format!("is {number}; it can be {least} to {most}")))
        }
        (Kind::Number { least, most }, Value::Number(number))
            if !(least..=most).contains(&number) =>
        {
            Err(Misfit::Value(format!("is {number}; it can be {least} to {most}")))
        }
        (Kind::Number { least, most }, Value::Whole(number)) => {
            let number = i32::try_from(*number).map_or(f64::INFINITY, f64::from);
            let why = || Misfit::Value(format!("is {number}; it can be {least} to {most}"));
            (*least..=*most).contains(&number).then_some(()).ok_or_else(why)
        }
        (Kind::Choice(choices), Value::Text(text)) if !choices.contains(&text.as_str()) => {
            Err(Misfit::Value(format!("cannot be `{text}`")))
        }
        (Kind::Address, Value::Text(text)) => {
            let why = || Misfit::Value(format!("is `{text}`, which is not an address with a port"));
            text.parse::<SocketAddr>().map(drop).map_err(|_| why())
        }
        (Kind::Url, Value::Text(text)) => {
            names::url(text).map(drop).map_err(|why| Misfit::Value(why.into()))
        }
        (Kind::Name, Value::Text(text)) => names::label(text).map_err(Misfit::Value),
        (Kind::Text | Kind::Path, Value::Text(text)) if text.contains(char::is_control) => {
            Err(Misfit::Value("holds a control character".into()))
        }
        (Kind::Path, Value::Text(text)) if text.is_empty() => Err(Misfit::Value("is empty".into())),
        (Kind::TextOrSecret | Kind::Text | Kind::Path | Kind::Choice(_), Value::Text(_))
        | (Kind::Whole { .. }, Value::Whole(_))
        | (Kind::Number { .. }, Value::Number(_))
        | (Kind::Flag, Value::Flag(_))
        | (Kind::Free, Value::Table(_)) => Ok(()),
        (Kind::TextOrSecret, Value::Table(_)) => {
            let node = Node { at: Mark::default(), value: value.clone() };
            secrets::reference(&node).map(drop).ok_or(Misfit::Type(kind.wanted()))
        }
        (Kind::Texts, Value::List(nodes)) => nodes.iter().try_for_each(|node| text(&node.value)),
        (Kind::TextMap, Value::Table(table)) => {
            table.entries.values().try_for_each(|entry| text(&entry.node.value))
        }
        (_, _) => Err(Misfit::Type(kind.wanted())),
    }
}

fn text(value: &Value) -> Result<(), Misfit> {
    let why = || Misfit::Value(format!("holds {}; only text can stand there", value.kind()));
    value.text().map(drop).ok_or_else(why)
}

fn at_least(text: &str, least: u64) -> Result<(), Misfit> {
    match duration(text) {
        None => Err(Misfit::Value(format!("is `{text}`, which is not a duration"))),
        Some(read) if read < Duration::from_secs(least) => {
            Err(Misfit::Value(format!("is {}, which is too short", written(read))))
        }
        Some(_) => Ok(()),
    }
}

impl Kind {
    /// Returns what the kind is called.
    pub(crate) fn wanted(&self) -> &'static str {
        match self {
            Self::Text | Self::Name | Self::Choice(_) | Self::Path => "text in quotes",
            Self::Texts => "a list of texts",
            Self::Whole { .. } => "a whole number",
            Self::Number { .. } => "a number",
            Self::Flag => "true or false",
            Self::Duration { .. } | Self::DurationOrOff => "a duration in quotes",
            Self::Size => "a size in quotes",
            Self::Secret | Self::Secrets => "a secret's place",
            Self::TextOrSecret => "text in quotes or a secret's place",
            Self::Address => "an address in quotes",
            Self::Url => "a URL in quotes",
            Self::TextMap => "a table of texts",
            Self::Free | Self::Table(_) | Self::Kinds(_) => "a table",
            Self::Tables(_) => "a list of tables",
        }
    }

    /// Returns how a right value looks.
    pub(crate) fn example(&self, key: &str) -> String {
        match self {
            Self::Text | Self::Name | Self::Path => format!("write {key} = \"…\""),
            Self::Choice(choices) => {
                format!("write {key} = \"{}\"", choices.first().unwrap_or(&"…"))
            }
            Self::Texts => format!("write {key} = [\"one\", \"two\"]"),
            Self::Whole { least, most } => {
                format!("write {key} = a whole number from {least} to {most}")
            }
            Self::Number { least, most } => {
                format!("write {key} = a number from {least} to {most}")
            }
            Self::Flag => format!("write {key} = true or {key} = false"),
            Self::Duration { .. } => format!(
                "write a number and a unit (ms, s, m, h, d): {key} = \"90s\", \"5m\" or \"1h30m\""
            ),
            Self::DurationOrOff => format!("write {key} = \"12h\", or {key} = \"off\""),
            Self::Size => format!("write a number and a unit: {key} = \"4GiB\" or \"500MB\""),
            Self::Secret | Self::Secrets => format!("write `{key} = {}`", secrets::HOW),
            Self::TextOrSecret => format!("write {key} = \"…\", or `{key} = {}`", secrets::HOW),
            Self::Address => {
                format!("write {key} = \"127.0.0.1:7480\", or \"[::1]:7480\" for IPv6")
            }
            Self::Url => {
                format!("write {key} = \"https://host\", without user, password, `?` and `#`")
            }
            Self::TextMap => format!("write {key} = {{ NAME = \"value\" }}"),
            Self::Free | Self::Table(_) | Self::Kinds(_) => {
                format!("write a table: {key} = {{ … }}, or a [header] of its own")
            }
            Self::Tables(_) => format!("write [[{key}]] headers"),
        }
    }
}
