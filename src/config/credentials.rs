//! How we prove to a forge who we are: one App or token, or several, each for its scopes.

use ostler_actors::model::Scope;
use serde::Serialize;

use super::keys::{Key, Keys, Kind};
use super::secrets::Secret;
use super::section::Section;
use super::written;

/// One way to prove who we are.
pub(crate) const AUTH: &[Key] = &[
    Key::new("app", Kind::Table(APP), "A GitHub App."),
    Key::new("token", Kind::Secret, "A personal access token."),
];

const APP: Keys = &[&[
    Key::new("client_id", Kind::Text, "The App's client id (its numeric id also works).")
        .required(),
    Key::new("private_key", Kind::Secret, "The App's private key, PEM.").required(),
]];

pub(crate) const CREDENTIAL: Keys = &[
    &[
        Key::new("name", Kind::Text, "What it is called in logs and metrics.").required(),
        Key::new(
            "scopes",
            Kind::Texts,
            "Where it is used: organizations, repositories, enterprises; everywhere when left out.",
        ),
    ],
    AUTH,
];

/// Holds one credential and where it is used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Credential {
    /// What it is called in logs and metrics.
    pub name: String,
    /// Where it is used; everywhere when empty.
    #[serde(serialize_with = "written::texts")]
    pub scopes: Vec<Scope>,
    /// How we prove who we are.
    pub auth: Auth,
}

/// Proves who we are.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// As a GitHub App.
    App {
        client_id: String,
        /// Its private key, PEM.
        private_key: Secret,
    },
    /// By a personal access token.
    Token(Secret),
}

impl Credential {
    /// Returns whether it is used for a scope: named exactly, by its owner, or by no name at all.
    pub fn covers(&self, scope: &Scope) -> bool {
        self.scopes.is_empty() || self.scopes.iter().any(|one| one.reaches(scope))
    }
}

/// Reads the one credential of the forge, or its several.
pub(crate) fn read(section: &Section<'_>, name: &str) -> Vec<Credential> {
    let several = section.inners("credential");
    let single = section.wrote("app") || section.wrote("token");
    if several.is_empty() {
        if !single && section.node("credential").is_none() {
            section.note(section.error("token", format!("forge `{name}` has no credential")).help(
                "add app = { client_id = \"…\", private_key = { file = \"app.pem\" } } or \
                            token = { env = \"GITHUB_TOKEN\" }",
            ));
        }
        let auth = auth(section, name);
        return auth
            .map(|auth| Credential { name: "main".into(), scopes: Vec::new(), auth })
            .into_iter()
            .collect();
    }
    if single {
        section.note(
            section
                .error(
                    if section.wrote("app") { "app" } else { "token" },
                    format!("forge `{name}` has a credential of its own and a list of them"),
                )
                .help("move it into the list as another [[forge.NAME.credential]]"),
        );
    }
    several
        .iter()
        .enumerate()
        .filter_map(|(at, table)| credential(section, table, &several[..at]))
        .collect()
}

fn credential(
    forge: &Section<'_>,
    section: &Section<'_>,
    earlier: &[Section<'_>],
) -> Option<Credential> {
    let name = section.text("name")?;
    if let Some(first) = earlier.iter().find(|first| first.text("name") == Some(name)) {
        let what = format!("two credentials are called `{name}`");
        forge.note(
            section
                .error("name", what)
                .also(first.at("name"), "first here")
                .help("give each its own name"),
        );
    }
    let mut scopes = Vec::new();
    for text in section.texts("scopes") {
        match text.parse() {
            Ok(scope) => scopes.push(scope),
            Err(_) => section.note(
                section
                    .error("scopes", format!("`{text}` is not a scope"))
                    .help("write `acme`, `acme/web` or `enterprises/acme`"),
            ),
        }
    }
    Some(Credential { name: name.to_owned(), scopes, auth: auth(section, name)? })
}

fn auth(section: &Section<'_>, name: &str) -> Option<Auth> {
    match (section.inner("app"), section.node("token")) {
        (Some(_), Some(token)) => {
            section.note(
                section
                    .error("app", format!("`{name}` has both an app and a token"))
                    .also(Some(token.at), "and here")
                    .help(
                        "keep one; an App has its own rate limit and outlives the people who made \
                            it",
                    ),
            );
            None
        }
        (Some(app), None) => {
            let private_key = app.secret("private_key")?;
            if app.cx.looks() && !private_key.expose().contains("PRIVATE KEY-----") {
                app.note(app.error("private_key", "the App's private key is not PEM").help(
                    "use the .pem file that GitHub let you download; it begins with \
                        -----BEGIN RSA PRIVATE KEY-----",
                ));
            }
            let client_id = app.text("client_id")?.to_owned();
            Some(Auth::App { client_id, private_key })
        }
        (None, Some(_)) => section.secret("token").map(Auth::Token),
        (None, None) => {
            if section.text("kind").is_none() {
                section.note(
                    section
                        .error("token", format!("credential `{name}` has neither app nor token"))
                        .help("add one of the two"),
                );
            }
            None
        }
    }
}
