//! `[forge.NAME]`: where jobs come from, and with which credentials they are served.

use std::collections::BTreeMap;

use ostler_actors::model::Scope;
use serde_json::{Value as Json, json};

use super::declare::{
    Declared,
    Effect::Moves,
    Exposure::Hidden,
    Key, Keys,
    Requirement::{Alternative, Required},
    ValueKind, table, whole,
};
use super::document::{Node, TomlTable};
use super::load::Cx;
use super::secrets::Secret;
use super::section::Section;
use super::values::{Field, Listed, is_loopback, label, open_host, url};

/// What `kind` may be.
pub(crate) const KINDS: &[(&str, Keys)] = &[("github", ForgeSettings::KEYS)];

table! {
    /// Where jobs come from, by a name of your choice.
    pub struct ForgeSettings {
        /// What it is: GitHub, in the cloud or your own.
        pub kind: String => "github", kind = ValueKind::Choice(&["github"]), need = Required,
            shown = Hidden;
        /// Its API; GitHub Enterprise Server: https://HOST/api/v3.
        pub api_url: String = "https://api.github.com", kind = ValueKind::BaseUrl, effect = Moves,
            check = Some(check_api_url);
        /// What the webhooks are signed with; two while the new one replaces the old.
        pub webhook_secrets as "webhook_secret": Vec<Secret> => { env = "OSTLER_WEBHOOK_SECRET" };
        /// How many registrations a minute; 0 lifts the limit.
        pub jit_per_minute: u32 = 166, kind = whole(0, 1_000_000);
        /// The share of the rate limit that listings may use.
        pub poll_budget: f64 = 0.1, kind = ValueKind::Number { least: 0.0, most: 1.0 };
        /// The one App or token for every scope.
        pub auth: Option<Auth>, kind = ValueKind::Flat(AuthKeys::KEYS), shown = Hidden;
        /// Several credentials, each for its scopes, in place of app or token.
        pub credentials as "credential": Vec<Credential>, need = Alternative;
    }
}

table! {
    /// One credential and where it is used.
    pub struct Credential {
        /// What it is called in logs and metrics.
        pub name: String => "acme", need = Required;
        /// Where it is used: organizations, repositories, enterprises; everywhere when left out.
        pub scopes: Vec<Scope> => ["acme", "globex/web"];
        /// The App or token.
        pub auth: Auth, kind = ValueKind::Flat(AuthKeys::KEYS);
    }
}

table! {
    /// How we prove to a forge who we are: by one of the two.
    pub(crate) struct AuthKeys {
        /// A GitHub App; its installations are found by the scope.
        app: Option<AppKeys>;
        /// A personal access token, in place of an App.
        token: Option<Secret> => { env = "GITHUB_TOKEN" }, need = Alternative;
    }
}

table! {
    /// A GitHub App.
    pub(crate) struct AppKeys, check = check_app {
        /// The App's client id (its numeric id also works).
        client_id: String => "Iv23liEXAMPLE", need = Required;
        /// The App's private key, PEM.
        private_key: Secret => { file = "app.pem" }, need = Required;
    }
}

/// Proves who we are.
#[derive(Clone, Debug, PartialEq)]
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

impl ForgeSettings {
    /// Returns the credential for a scope.
    pub fn credential(&self, scope: &Scope) -> Option<&Credential> {
        self.credentials.iter().find(|credential| credential.covers(scope))
    }
}

impl Credential {
    /// Returns whether it is used for a scope: named exactly, by its owner, or by no name at all.
    pub fn covers(&self, scope: &Scope) -> bool {
        self.scopes.is_empty() || self.scopes.iter().any(|one| one.reaches(scope))
    }
}

impl Field for Auth {
    const KIND: ValueKind = ValueKind::Flat(AuthKeys::KEYS);

    fn read(_: &Section<'_>, _: &Key, _: &Node) -> Option<Self> {
        None
    }

    /// Reads the app or the token of a table; exactly one of them must be there.
    fn flat(section: &Section<'_>) -> Option<Self> {
        let owner = section.text("name").or(section.path().rsplit('.').next()).unwrap_or_default();
        match (section.node("app"), section.node("token")) {
            (Some(_), Some(token)) => {
                let what = format!("`{owner}` has both an app and a token");
                let help = "keep one; an App has its own rate limit and outlives the people who created it";
                section.report(section.problem("app", what, help).also(Some(token.at), "and here"));
                return None;
            }
            // A forge without either may have a list of credentials; `check` looks.
            (None, None) if section.node("kind").is_none() => section.error(
                "token",
                format!("credential `{owner}` has neither app nor token"),
                "add one of the two",
            ),
            _ => {}
        }
        let proof = AuthKeys::read_table(section)?;
        let app = |AppKeys { client_id, private_key }| Self::App { client_id, private_key };
        proof.app.map(app).or(proof.token.map(Self::Token))
    }

    fn show(&self) -> Json {
        match self {
            Self::App { client_id, private_key } => {
                json!({ "app": { "client_id": client_id, "private_key": private_key } })
            }
            Self::Token(token) => json!({ "token": token }),
        }
    }
}

impl Listed for Scope {
    const LIST: ValueKind = ValueKind::Texts;

    fn list(section: &Section<'_>, _: &Key, node: &Node) -> Vec<Self> {
        let mut scopes = Vec::new();
        for text in node.value.list().iter().filter_map(|node| node.value.text()) {
            match text.parse() {
                Ok(scope) => scopes.push(scope),
                Err(_) => section.error(
                    "scopes",
                    format!("`{text}` is not a scope"),
                    "write `acme`, `acme/web` or `enterprises/acme`",
                ),
            }
        }
        scopes
    }
}

/// Reads every `[forge.NAME]`.
pub(crate) fn read<'a>(cx: &'a Cx<'a>, whole: &'a TomlTable) -> BTreeMap<String, ForgeSettings> {
    let mut found = BTreeMap::new();
    for (name, entry) in whole.table("forge").iter().flat_map(|named| &named.entries) {
        let section = Section::new(cx, entry.node.value.table(), format!("forge.{name}"));
        if section.text("kind") == Some("github")
            && let Some(mut forge) = ForgeSettings::read_table(&section)
        {
            check(&section, name);
            let credential = |auth| Credential { name: "main".into(), scopes: Vec::new(), auth };
            if section.inners("credential").is_empty() {
                forge.credentials = forge.auth.clone().map(credential).into_iter().collect();
            }
            found.insert(name.clone(), forge);
        }
    }
    found
}

fn check(section: &Section<'_>, name: &str) {
    if let Err(why) = label(name) {
        section.error(
            "kind",
            format!("the name of forge `{name}` {why}"),
            "rename it: the name is part of the webhook's address, /webhooks/NAME",
        );
    }
    if !section.wrote("webhook_secret") {
        section.warn(
            "webhook_secret",
            format!(
                "forge `{name}` has no webhook_secret: jobs are found only by polling, up to a \
                 minute late"
            ),
            "add webhook_secret = { env = \"NAME\" }, and a webhook to /webhooks/NAME of this daemon",
        );
    }
    let single = ["app", "token"].into_iter().find(|key| section.wrote(key));
    if single.is_none() && section.node("credential").is_none() {
        section.error(
            "token",
            format!("forge `{name}` has no credential"),
            "add app = { client_id = \"…\", private_key = { file = \"app.pem\" } } or token = { env \
             = \"GITHUB_TOKEN\" }",
        );
    }
    let several = section.inners("credential");
    if let Some(key) = single.filter(|_| !several.is_empty()) {
        section.error(
            key,
            format!("forge `{name}` has a credential of its own and a list of them"),
            "move it into the list as another [[forge.NAME.credential]]",
        );
    }
    for (at, table) in several.iter().enumerate() {
        let Some(name) = table.text("name") else { continue };
        if let Some(first) = several[..at].iter().find(|first| first.text("name") == Some(name)) {
            let what = format!("two credentials are called `{name}`");
            let problem = table.problem("name", what, "give each its own name");
            section.report(problem.also(first.at("name"), "first here"));
        }
    }
}

fn check_app(app: &AppKeys, section: &Section<'_>) {
    if section.cx.inspects() && !app.private_key.expose().contains("PRIVATE KEY-----") {
        section.error(
            "private_key",
            "the App's private key is not PEM",
            "use the .pem file that GitHub let you download; it begins with -----BEGIN RSA PRIVATE \
             KEY-----",
        );
    }
}

fn check_api_url(section: &Section<'_>, _: &'static Key, node: &Node) {
    let Some((text, uri)) = node.value.text().and_then(|text| Some((text, url(text).ok()?))) else {
        return;
    };
    let host = uri.host().unwrap_or("");
    let path = uri.path().trim_end_matches('/');
    if host == "github.com" || host == "www.github.com" {
        section.error(
            "api_url",
            format!("`{text}` is GitHub's page, not its API"),
            "write https://api.github.com, or leave it out",
        );
    } else if !host.starts_with("api.") && !is_loopback(host) && !path.ends_with("/api/v3") {
        section.warn(
            "api_url",
            format!("`{text}` does not look like a GitHub API"),
            format!("for GitHub Enterprise Server write https://{host}/api/v3"),
        );
    }
    if open_host(&uri).is_some() {
        section.warn(
            "api_url",
            format!("credentials travel to `{text}` in clear text"),
            "write https://",
        );
    }
}
