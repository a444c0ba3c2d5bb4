//! `[[http.token]]`: who may call the API.

use serde::Serialize;

use crate::config::keys::{Key, Keys, Kind};
use crate::config::secrets::Secret;
use crate::config::section::Section;

/// A token shorter than this can be guessed.
const SHORTEST_TOKEN: usize = 16;

/// The keys of `[[http.token]]`.
pub(crate) const KEYS: Keys = &[&[
    Key::new("name", Kind::Text, "Who it is; stands in the audit log.").required(),
    Key::new("role", Kind::Choice(&["viewer", "operator"]), "What it may do: look, or also act.")
        .required(),
    Key::new("secret", Kind::Secret, "The token itself.").required(),
]];

/// Holds one `[[http.token]]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Token {
    /// Who it is; stands in the audit log.
    pub name: String,
    /// What it may do.
    pub role: Role,
    pub secret: Secret,
}

/// Says what a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Viewer,
    Operator,
}

impl Token {
    pub(crate) fn read(section: &Section<'_>) -> Option<Self> {
        let role = match section.text("role")? {
            "viewer" => Role::Viewer,
            "operator" => Role::Operator,
            _ => return None,
        };
        Some(Self {
            name: section.text("name")?.to_owned(),
            role,
            secret: section.secret("secret")?,
        })
    }
}

/// Checks tokens against each other, and against guessing.
pub(crate) fn check(read: &[Token], section: &Section<'_>) {
    let tables = section.inners("token");
    for (at, table) in tables.iter().enumerate() {
        let earlier = &tables[..at];
        let name = table.text("name");
        if let Some(first) =
            earlier.iter().find(|first| name.is_some() && first.text("name") == name)
        {
            let what = format!(
                "two tokens are called `{}`, and the audit log could not tell them apart",
                name.unwrap_or("")
            );
            section.note(
                table
                    .error("name", what)
                    .also(first.at("name"), "first here")
                    .help("give each token its own name"),
            );
        }
    }
    for (at, token) in read.iter().enumerate().filter(|_| section.cx.looks()) {
        let same = read[..at].iter().find(|first| first.secret.expose() == token.secret.expose());
        if let Some(first) = same {
            let what = format!("tokens `{}` and `{}` have the same secret", first.name, token.name);
            section
                .note(section.error("token", what).help("give each its own: openssl rand -hex 32"));
        }
        if token.secret.expose().len() < SHORTEST_TOKEN {
            let what = format!(
                "the secret of token `{}` is shorter than {SHORTEST_TOKEN} letters and \
                        can be guessed",
                token.name
            );
            section
                .note(section.warning("token", what).help("make one with: openssl rand -hex 32"));
        }
    }
}
