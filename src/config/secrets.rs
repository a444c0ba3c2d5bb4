//! Secrets: named in the files, kept elsewhere, never shown.

use std::fmt;
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use super::document::{Node, TomlTable};
use super::load::Cx;
use super::problems::ConfigProblem;

/// How a secret is written, for every message that has to say it.
pub(crate) const HOW: &str = r#"{ env = "NAME" }` or `{ file = "path" }"#;

/// Holds a secret and where it came from. `Debug` and serialization show only the latter.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct Secret {
    source: SecretSource,
    #[serde(skip)]
    text: SecretString,
}

/// Tells where a secret is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretSource {
    /// In a variable of the environment.
    Env(String),
    File(PathBuf),
}

impl Secret {
    /// Returns where it is kept.
    pub fn source(&self) -> &SecretSource {
        &self.source
    }

    /// Returns the secret itself, still wrapped. Empty when only the text was checked.
    pub fn text(&self) -> &SecretString {
        &self.text
    }

    /// Returns the secret itself.
    pub fn expose(&self) -> &str {
        self.text.expose_secret()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        // Both are the operator's own: there is no attacker who could time the comparison.
        self.source == other.source && self.expose() == other.expose()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({:?})", self.source)
    }
}

/// Returns the reference a table holds, if it is written as one.
pub(crate) fn reference(table: &TomlTable) -> Option<(&'static str, &str)> {
    if table.entries.len() != 1 {
        return None;
    }
    ["env", "file"].into_iter().find_map(|way| {
        let text = table.get(way)?.value.text()?;
        (!text.is_empty() && !text.contains(['=', '\0'])).then_some((way, text))
    })
}

/// Fetches what a node refers to; what goes wrong is reported under `key`.
pub(crate) fn fetch(cx: &Cx<'_>, key: &str, node: &Node) -> Option<Secret> {
    let (way, name) = reference(node.value.table()?)?;
    let refuse = |what: String, help: String| {
        cx.report.add(ConfigProblem::new(key, what, help).at(Some(node.at)));
        None
    };
    let (source, text) = if way == "env" {
        (SecretSource::Env(name.to_owned()), cx.variable(name))
    } else {
        let path = cx.files.beside(node.at.file, name);
        let text = cx.secret_file(&path, key, node.at);
        (SecretSource::File(path), text)
    };
    let text = match (text, &source) {
        (Ok(text), _) => text,
        (Err(_), SecretSource::Env(name)) if name.starts_with('$') => {
            let bare = name.trim_start_matches('$').trim_matches(['{', '}']);
            return refuse(
                format!("`{key}` needs a variable whose name begins with `$`, which none does"),
                format!("write its name alone: {{ env = \"{bare}\" }}"),
            );
        }
        (Err(_), SecretSource::Env(name)) => {
            return refuse(
                format!("`{key}` needs the variable `{name}`, which is not set"),
                format!(
                    "set {name} in the daemon's environment (systemd: EnvironmentFile=), or use \
                     {{ file = \"path\" }}"
                ),
            );
        }
        (Err(why), SecretSource::File(path)) => {
            return refuse(
                format!("`{key}` needs the file `{}`, which cannot be read: {why}", path.display()),
                "create it, readable for the daemon's user only; relative paths start beside this \
                 file"
                    .into(),
            );
        }
    };
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() && cx.inspects() {
        return refuse(
            format!("the secret of `{key}` is empty"),
            "put the secret there, in one line".into(),
        );
    }
    Some(Secret { source, text: SecretString::from(text) })
}
