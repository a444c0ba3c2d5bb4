//! What the adapter is told by the config.

use std::fmt;
use std::time::Duration;

use ostler_actors::model::{ForgeId, Scope};
use secrecy::SecretString;

use crate::config;

/// Holds the settings of one GitHub.
pub struct Settings {
    /// Its name in the config.
    pub forge: ForgeId,
    /// Where its API is: `https://api.github.com`, or `https://HOST/api/v3`.
    pub api_url: String,
    /// Who asks, each where it may; several for one scope share the load.
    pub credentials: Vec<Credential>,
    /// What webhooks are signed with: none, one, or two during a change.
    pub webhook_secrets: Vec<SecretString>,
    /// How many registrations a minute each identity may make; 0 is without limit.
    pub jit_per_minute: u32,
    /// The share of each identity's budget that listings may use, from 0 to 1.
    pub poll_budget: f64,
    /// How long one call may take.
    pub timeout: Duration,
    /// Further certificates to trust, as PEM.
    pub ca_pem: Option<Vec<u8>>,
    /// The proxy that calls over https are tunnelled through.
    pub proxy: Option<String>,
}

impl Settings {
    /// Returns the documented defaults for one API and one credential.
    pub fn new(forge: ForgeId, api_url: impl Into<String>, credential: Credential) -> Self {
        Self { credentials: vec![credential], ..Self::of(forge, api_url) }
    }

    /// Returns the settings of a `[forge.NAME]`.
    pub fn from_config(name: &str, forge: &config::ForgeSettings) -> Self {
        let auth = |auth: &config::Auth| match auth {
            config::Auth::App { client_id, private_key } => {
                Auth::App { client_id: client_id.clone(), private_key: private_key.text().clone() }
            }
            config::Auth::Token(token) => Auth::Token(token.text().clone()),
        };
        let credential = |it: &config::Credential| Credential {
            scopes: it.scopes.clone(),
            auth: auth(&it.auth),
        };
        Self {
            credentials: forge.credentials.iter().map(credential).collect(),
            webhook_secrets: forge.webhook_secrets.iter().map(|it| it.text().clone()).collect(),
            jit_per_minute: forge.jit_per_minute,
            poll_budget: forge.poll_budget,
            ..Self::of(ForgeId::new(name), forge.api_url.clone())
        }
    }

    /// Returns the documented defaults for one API; credentials are still to come.
    pub fn of(forge: ForgeId, api_url: impl Into<String>) -> Self {
        Self {
            forge,
            api_url: api_url.into(),
            credentials: Vec::new(),
            webhook_secrets: Vec::new(),
            jit_per_minute: 166,
            poll_budget: 0.1,
            timeout: Duration::from_secs(20),
            ca_pem: None,
            proxy: None,
        }
    }
}

/// Lets us act at GitHub, in some scopes or in all.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Where it is used; everywhere when empty.
    pub scopes: Vec<Scope>,
    /// How we prove who we are.
    pub auth: Auth,
}

impl Credential {
    /// Returns an App that is used everywhere it is installed.
    pub fn app(client_id: impl Into<String>, private_key: SecretString) -> Self {
        Self { scopes: Vec::new(), auth: Auth::App { client_id: client_id.into(), private_key } }
    }

    /// Returns a token that is used everywhere.
    pub fn token(secret: SecretString) -> Self {
        Self { scopes: Vec::new(), auth: Auth::Token(secret) }
    }

    /// Returns it for these scopes only.
    #[must_use]
    pub fn within(self, scopes: Vec<Scope>) -> Self {
        Self { scopes, ..self }
    }
}

/// Proves who we are.
#[derive(Clone)]
pub enum Auth {
    /// A GitHub App; its installations are found by owner.
    App {
        /// The client id (or the numeric app id) that signs.
        client_id: String,
        /// The private key, as PEM.
        private_key: SecretString,
    },
    /// A personal access token; the only one that may serve an enterprise.
    Token(SecretString),
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::App { client_id, .. } => write!(f, "App({client_id})"),
            Self::Token(_) => f.write_str("Token(…)"),
        }
    }
}

/// Tells why settings cannot work.
#[derive(Debug, thiserror::Error)]
pub enum BadSettings {
    /// The address is not one.
    #[error(
        "`api_url = \"{0}\"` is not an http(s) address; write `https://api.github.com` or `https://HOST/api/v3`"
    )]
    Url(String),
    /// The proxy's address is not one.
    #[error("`proxy = \"{0}\"` is not an http address; write `http://HOST:PORT`")]
    Proxy(String),
    /// The key is not one. The cause is not told: it may quote the key.
    #[error(
        "the private key of App `{0}` is not an RSA key in PEM; download a new one from the App's page"
    )]
    Key(String),
    /// No credential is configured.
    #[error("the forge has no credential; set `app` or `token`")]
    NoCredential,
    /// The certificates cannot be read.
    #[error("`ca` cannot be trusted: {0}")]
    Ca(String),
}

/// Returns where the pages of a forge are, by the address of its API.
pub(super) fn web_url(api_url: &str) -> String {
    if api_url == "https://api.github.com" {
        return "https://github.com".into();
    }
    let own = api_url.trim_end_matches('/');
    own.strip_suffix("/api/v3").unwrap_or(own).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Outside;

    #[test]
    fn the_pages_of_a_forge_are_found_from_its_api() {
        assert_eq!(web_url("https://api.github.com"), "https://github.com");
        assert_eq!(web_url("https://git.acme.com/api/v3"), "https://git.acme.com");
        assert_eq!(web_url("http://127.0.0.1:1"), "http://127.0.0.1:1");
    }

    #[test]
    fn a_credential_keeps_its_scopes() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("ostler.toml");
        let text = r#"
            [forge.github]
            kind = "github"

            [[forge.github.credential]]
            name = "one"
            scopes = ["acme"]
            token = { env = "ONE" }

            [[forge.github.credential]]
            name = "other"
            token = { env = "OTHER" }
        "#;
        std::fs::write(&file, text).unwrap();
        let config = config::load(&file, &Outside::text_only()).unwrap().config;
        let settings = Settings::from_config("github", &config.forges["github"]);
        let scopes: Vec<_> = settings.credentials.into_iter().map(|it| it.scopes).collect();
        assert_eq!(scopes, [vec!["acme".parse().unwrap()], vec![]]);
    }
}
