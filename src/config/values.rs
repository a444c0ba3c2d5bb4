//! The types that may stand behind a key: whether a value fits, how it is read, how it is shown.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use serde_json::{Value as Json, json};

use super::declare::{Declared, Key, ValueKind};
use super::document::{Node, Value};
use super::secrets::{self, Secret};
use super::section::Section;
use super::units::{self, written};

/// Is a type that a key may have.
pub(crate) trait Field: Sized {
    const KIND: ValueKind;

    /// Reads a value; `None` when it does not fit, which the check of the shape has reported.
    fn read(section: &Section<'_>, key: &Key, node: &Node) -> Option<Self>;

    /// Returns what stands for a key that is left out; `None` when it may not be left out.
    fn absent(_: &Section<'_>) -> Option<Self> {
        None
    }

    /// Returns what stands for a key until the code of its section finds the default out.
    fn blank() -> Option<Self> {
        None
    }

    /// Reads keys that stand in the table around them.
    fn flat(_: &Section<'_>) -> Option<Self> {
        None
    }

    /// Returns the value for `/config`; of a secret, the place where it is kept.
    fn show(&self) -> Json;

    /// Returns the value as TOML; texts and numbers are written as in JSON.
    fn toml(&self) -> String {
        self.show().to_string()
    }
}

/// Is a type that may stand in a list.
pub(crate) trait Listed: Field {
    const LIST: ValueKind;

    /// Reads the elements that fit.
    fn list(section: &Section<'_>, key: &Key, node: &Node) -> Vec<Self> {
        node.value.list().iter().filter_map(|node| Self::read(section, key, node)).collect()
    }
}

impl<T: Declared> Field for T {
    const KIND: ValueKind = ValueKind::Table(T::KEYS);

    fn read(section: &Section<'_>, key: &Key, _: &Node) -> Option<Self> {
        T::read_table(&section.inner(key.name)?)
    }

    fn absent(section: &Section<'_>) -> Option<Self> {
        T::read_table(&Section::new(section.cx, None, ""))
    }

    fn flat(section: &Section<'_>) -> Option<Self> {
        T::read_table(section)
    }

    fn show(&self) -> Json {
        self.page()
    }
}

impl<T: Declared> Listed for T {
    const LIST: ValueKind = ValueKind::Tables(T::KEYS);

    fn list(section: &Section<'_>, key: &Key, _: &Node) -> Vec<Self> {
        section.inners(key.name).iter().filter_map(T::read_table).collect()
    }
}

impl<T: Field> Field for Option<T> {
    const KIND: ValueKind = T::KIND;

    fn read(section: &Section<'_>, key: &Key, node: &Node) -> Option<Self> {
        T::read(section, key, node).map(Some)
    }

    fn absent(_: &Section<'_>) -> Option<Self> {
        Some(None)
    }

    fn flat(section: &Section<'_>) -> Option<Self> {
        Some(T::flat(section))
    }

    fn show(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::show)
    }
}

impl<T: Listed> Field for Vec<T> {
    const KIND: ValueKind = T::LIST;

    fn read(section: &Section<'_>, key: &Key, node: &Node) -> Option<Self> {
        Some(T::list(section, key, node))
    }

    fn absent(_: &Section<'_>) -> Option<Self> {
        Some(Vec::new())
    }

    fn show(&self) -> Json {
        self.iter().map(T::show).collect()
    }
}

/// Implements [`Field`] for types that are read from their node alone and shown as JSON shows them.
macro_rules! plain {
    ($($ty:ty, $kind:expr, |$node:ident| $read:expr, |$it:ident| $show:expr $(, blank $blank:expr)?;)*) => {$(
        impl Field for $ty {
            const KIND: ValueKind = $kind;

            fn read(_: &Section<'_>, _: &Key, $node: &Node) -> Option<Self> {
                $read
            }

            $(fn blank() -> Option<Self> {
                Some($blank)
            })?

            fn show(&self) -> Json {
                let $it = self;
                json!($show)
            }
        }
    )*};
}

plain! {
    bool, ValueKind::Flag, |node| if let Value::Flag(flag) = node.value { Some(flag) } else { None }, |it| it;
    u32, ValueKind::Whole { least: 0, most: u32::MAX as i64 }, |node| node.value.whole()?.try_into().ok(), |it| it;
    u64, ValueKind::Size, |node| units::size(node.value.text()?), |it| it;
    i32, ValueKind::Whole { least: i32::MIN as i64, most: i32::MAX as i64 },
        |node| node.value.whole()?.try_into().ok(), |it| it;
    f64, ValueKind::Number { least: f64::MIN, most: f64::MAX }, |node| node.value.number(), |it| it;
    SocketAddr, ValueKind::Address, |node| node.value.text()?.parse().ok(), |it| it;
    Json, ValueKind::Free, |node| Some(node.value.json()), |it| it;
    BTreeMap<String, String>, ValueKind::TextMap, |node| Some(node.value.table()?.texts()), |it| it,
        blank BTreeMap::new();
}

impl Field for Duration {
    const KIND: ValueKind = ValueKind::Duration { least: 1 };

    fn read(_: &Section<'_>, _: &Key, node: &Node) -> Option<Self> {
        units::duration(node.value.text()?)
    }

    fn blank() -> Option<Self> {
        Some(Self::ZERO)
    }

    fn show(&self) -> Json {
        written(*self).into()
    }

    fn toml(&self) -> String {
        // People say 90s, not 1m30s.
        let seconds = self.as_secs();
        let short = seconds < 120 && self.subsec_nanos() == 0;
        if short { format!("\"{seconds}s\"") } else { self.show().to_string() }
    }
}

impl Field for String {
    const KIND: ValueKind = ValueKind::Text;

    fn read(_: &Section<'_>, key: &Key, node: &Node) -> Option<Self> {
        let text = node.value.text()?;
        let base = matches!(key.kind, ValueKind::BaseUrl);
        Some(if base { text.trim_end_matches('/') } else { text }.to_owned())
    }

    fn blank() -> Option<Self> {
        Some(Self::new())
    }

    fn show(&self) -> Json {
        self.as_str().into()
    }
}

impl Listed for String {
    const LIST: ValueKind = ValueKind::Texts;
}

impl Field for PathBuf {
    const KIND: ValueKind = ValueKind::Path;

    fn read(section: &Section<'_>, key: &Key, node: &Node) -> Option<Self> {
        let text = node.value.text()?;
        let own = matches!(key.kind, ValueKind::OwnPath);
        Some(if own { text.into() } else { section.cx.files.beside(node.at.file, text) })
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

impl Field for Secret {
    const KIND: ValueKind = ValueKind::Secret;

    fn read(section: &Section<'_>, key: &Key, node: &Node) -> Option<Self> {
        secrets::fetch(section.cx, &section.key(key.name), node)
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

impl Listed for Secret {
    const LIST: ValueKind = ValueKind::Secrets;

    fn list(section: &Section<'_>, key: &Key, node: &Node) -> Vec<Self> {
        let one = std::slice::from_ref(node);
        let nodes = if let Value::List(nodes) = &node.value { nodes } else { one };
        nodes.iter().filter_map(|node| Self::read(section, key, node)).collect()
    }
}

/// Implements [`Field`] for an enum of which each variant has a word.
macro_rules! choice {
    ($ty:ident { $($variant:ident = $word:literal),* }) => {
        choice!($ty { $($variant = $word),* }, show |it| match it { $(Self::$variant => $word),* });
    };
    ($ty:ident { $($variant:ident = $word:literal),* }, show |$it:ident| $show:expr) => {
        impl $crate::config::values::Field for $ty {
            const KIND: $crate::config::declare::ValueKind =
                $crate::config::declare::ValueKind::Choice(&[$($word),*]);

            fn read(
                _: &$crate::config::section::Section<'_>,
                _: &$crate::config::declare::Key,
                node: &$crate::config::document::Node,
            ) -> Option<Self> {
                match node.value.text()? {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }

            fn blank() -> Option<Self> {
                [$(Self::$variant),*].into_iter().next()
            }

            fn show(&self) -> serde_json::Value {
                let $it = self;
                serde_json::json!($show)
            }

            fn toml(&self) -> String {
                match self { $(Self::$variant => format!("{:?}", $word),)* }
            }
        }
    };
}
pub(crate) use choice;

/// Tells why a value does not fit.
pub(crate) enum WrongValue {
    /// It should have been something else: "a whole number".
    Type(&'static str),
    /// It is of the right type, but: "is 0; the least is 1".
    Value(String),
}

/// Compares a value with a kind; tables are compared by their keys elsewhere.
pub(crate) fn fits(kind: ValueKind, value: &Value) -> Result<(), WrongValue> {
    let refuse = |why: String| Err(WrongValue::Value(why));
    match (kind, value) {
        (ValueKind::DurationOrOff, Value::Text(text)) if text == "off" => Ok(()),
        (ValueKind::DurationOrOff, Value::Text(text)) => at_least(text, 1),
        (ValueKind::Duration { least }, Value::Text(text)) => at_least(text, least),
        (ValueKind::Size, Value::Text(text))
            if units::size(text).is_none_or(|bytes| bytes == 0) =>
        {
            refuse(format!("is `{text}`, which is not a size"))
        }
        (ValueKind::Whole { least, most }, Value::Whole(number))
            if !(least..=most).contains(number) =>
        {
            refuse(format!("is {number}; it can be {least} to {most}"))
        }
        (ValueKind::Number { least, most }, Value::Number(_) | Value::Whole(_)) => {
            let number = value.number().unwrap_or(f64::INFINITY);
            let why = || WrongValue::Value(format!("is {number}; it can be {least} to {most}"));
            (least..=most).contains(&number).then_some(()).ok_or_else(why)
        }
        (ValueKind::Choice(choices), Value::Text(text)) if !choices.contains(&text.as_str()) => {
            refuse(format!("cannot be `{text}`"))
        }
        (ValueKind::Address, Value::Text(text)) if text.parse::<SocketAddr>().is_err() => {
            refuse(format!("is `{text}`, which is not an address with a port"))
        }
        (ValueKind::Url | ValueKind::BaseUrl, Value::Text(text)) => {
            url(text).map(drop).map_err(|why| WrongValue::Value(why.into()))
        }
        (ValueKind::Name, Value::Text(text)) => label(text).map_err(WrongValue::Value),
        (ValueKind::Text | ValueKind::Path | ValueKind::OwnPath, Value::Text(text))
            if text.contains(char::is_control) =>
        {
            refuse("contains a control character".into())
        }
        (ValueKind::Path | ValueKind::OwnPath, Value::Text(text)) if text.is_empty() => {
            refuse("is empty".into())
        }
        (
            ValueKind::TextOrSecret
            | ValueKind::Text
            | ValueKind::Path
            | ValueKind::OwnPath
            | ValueKind::Choice(_)
            | ValueKind::Size
            | ValueKind::Address,
            Value::Text(_),
        )
        | (ValueKind::Whole { .. }, Value::Whole(_))
        | (ValueKind::Flag, Value::Flag(_))
        | (ValueKind::Free, Value::Table(_)) => Ok(()),
        (ValueKind::TextOrSecret, Value::Table(table)) if secrets::reference(table).is_some() => {
            Ok(())
        }
        (ValueKind::Texts | ValueKind::Choices(_), Value::List(nodes)) => {
            nodes.iter().try_for_each(|node| is_text(&node.value))
        }
        (ValueKind::TextMap, Value::Table(table)) => {
            table.entries.values().try_for_each(|entry| is_text(&entry.node.value))
        }
        (kind, _) => Err(WrongValue::Type(describe(kind, "").0)),
    }
}

fn is_text(value: &Value) -> Result<(), WrongValue> {
    let why =
        || WrongValue::Value(format!("contains {}; only text is allowed there", value.kind()));
    value.text().map(drop).ok_or_else(why)
}

fn at_least(text: &str, least: u64) -> Result<(), WrongValue> {
    match units::duration(text) {
        None => Err(WrongValue::Value(format!("is `{text}`, which is not a duration"))),
        Some(read) if read < Duration::from_secs(least) => {
            Err(WrongValue::Value(format!("is {}, which is too short", written(read))))
        }
        Some(_) => Ok(()),
    }
}

/// Returns what a kind is called, and what to write for a key of it.
pub(crate) fn describe(kind: ValueKind, key: &str) -> (&'static str, String) {
    let text = "text in quotes";
    match kind {
        ValueKind::Text | ValueKind::Name | ValueKind::Path | ValueKind::OwnPath => {
            (text, format!("write {key} = \"…\""))
        }
        ValueKind::Choice(choices) => (text, format!("write one of {}", listed(choices))),
        ValueKind::Texts | ValueKind::Choices(_) => {
            ("a list of texts", format!("write {key} = [\"one\", \"two\"]"))
        }
        ValueKind::Whole { least, most } => {
            ("a whole number", format!("write {key} = a whole number from {least} to {most}"))
        }
        ValueKind::Number { least, most } => {
            ("a number", format!("write {key} = a number from {least} to {most}"))
        }
        ValueKind::Flag => ("true or false", format!("write {key} = true or {key} = false")),
        ValueKind::Duration { .. } => (
            "a duration in quotes",
            format!(
                "write a number and a unit (ms, s, m, h, d): {key} = \"90s\", \"5m\" or \"1h30m\""
            ),
        ),
        ValueKind::DurationOrOff => {
            ("a duration in quotes", format!("write {key} = \"12h\", or {key} = \"off\""))
        }
        ValueKind::Size => (
            "a size in quotes",
            format!("write a number and a unit: {key} = \"4GiB\" or \"500MB\""),
        ),
        ValueKind::Secret | ValueKind::Secrets => {
            ("a secret's place", format!("write `{key} = {}`", secrets::HOW))
        }
        ValueKind::TextOrSecret => (
            "text in quotes or a secret's place",
            format!("write {key} = \"…\", or `{key} = {}`", secrets::HOW),
        ),
        ValueKind::Address => (
            "an address in quotes",
            format!("write {key} = \"127.0.0.1:7480\", or \"[::1]:7480\" for IPv6"),
        ),
        ValueKind::Url | ValueKind::BaseUrl => (
            "a URL in quotes",
            format!("write {key} = \"https://host\", without user, password, `?` and `#`"),
        ),
        ValueKind::TextMap => ("a table of texts", format!("write {key} = {{ NAME = \"value\" }}")),
        ValueKind::Free
        | ValueKind::Table(_)
        | ValueKind::Shared(_)
        | ValueKind::Flat(_)
        | ValueKind::Kinds(_) => {
            ("a table", format!("write a table: {key} = {{ … }}, or a [header] of its own"))
        }
        ValueKind::Tables(_) => ("a list of tables", format!("write [[{key}]] headers")),
    }
}

/// Checks a DNS label; the error completes "`key` …".
pub(crate) fn label(text: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() {
        return Err("is empty".into());
    }
    if text.len() > 63 {
        return Err(format!("has {} characters; 63 are allowed", text.chars().count()));
    }
    if !text.chars().all(allowed) {
        return Err(format!("is `{text}`; only lower-case letters, digits and `-` are allowed"));
    }
    if text.starts_with('-') || text.ends_with('-') {
        return Err(format!("is `{text}`; it must begin and end with a letter or digit"));
    }
    Ok(())
}

/// Returns the label a text was nearly.
pub(crate) fn near_label(text: &str) -> Option<String> {
    let fold = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(fold).collect();
    let name = name.trim_matches('-');
    label(name).is_ok().then(|| name.to_owned())
}

/// Reads an address of the web; the error completes "`key` …".
pub(crate) fn url(text: &str) -> Result<Uri, &'static str> {
    let uri: Uri = text.parse().map_err(|_| "is not a URL")?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("must begin with https:// or http://");
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err("contains a user or a password; secrets do not belong in the file");
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err("names no host");
    }
    if uri.query().is_some() || text.contains('#') {
        return Err("must end with its path, without `?` or `#`");
    }
    Ok(uri)
}

/// Returns the host of a URL over which secrets would travel in clear text to another machine.
pub(crate) fn open_host(url: &Uri) -> Option<&str> {
    url.host().filter(|host| url.scheme_str() == Some("http") && !is_loopback(host))
}

/// Returns whether a host is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the candidate a person most likely meant, if any is near enough to be worth naming.
pub(crate) fn nearest<'a>(
    typed: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // People spell these differently without meaning anything by it.
    let plain = |word: &str| word.to_lowercase().replace(['-', '_', ' '], "");
    // A word of many thousands of characters is not a slip, and comparing it would take long.
    let word: String = plain(typed).chars().take(64).collect();
    let allowed = word.chars().count().div_ceil(3).min(3);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, &plain(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the words as a list for people: `a`, `b` or `c`.
pub(crate) fn listed<S: Display>(words: &[S]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => "nothing".into(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Returns the help for a word that is none of the candidates.
pub(crate) fn did_you_mean(word: &str, candidates: &[&str]) -> String {
    match nearest(word, candidates.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("write one of {}", listed(candidates)),
    }
}
