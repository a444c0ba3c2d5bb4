//! `[http]`: the servers for people, webhooks and runners.

mod tls;
mod tokens;

use std::net::SocketAddr;

use serde::Serialize;

pub use tls::Tls;
pub use tokens::{Role, Token};

use super::keys::{Key, Keys, Kind};
use super::names;
use super::section::Section;

/// The keys of `[http]`.
pub(crate) const KEYS: Keys = &[&[
    Key::new(
        "listen",
        Kind::Address,
        "Where the admin API, the page, metrics, webhooks and the runner-facing API are served.",
    )
    .or("\"127.0.0.1:7480\""),
    Key::new(
        "public_listen",
        Kind::Address,
        "A second address that serves only /webhooks/* and /runner/v1/*, fit to face the internet.",
    ),
    Key::new(
        "public_url",
        Kind::Url,
        "How runners and the forge reach this daemon; late binding and external providers need it.",
    ),
    Key::new(
        "token",
        Kind::Tables(tokens::KEYS),
        "Who may call the API; without any, only this machine may.",
    ),
    Key::new(
        "tls",
        Kind::Table(tls::KEYS),
        "Certificate and key; without them the servers speak plain HTTP.",
    ),
]];

/// Holds `[http]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Http {
    /// Where everything is served: `"127.0.0.1:7480"`.
    pub listen: SocketAddr,
    /// Where only webhooks and the runner-facing API are served.
    pub public_listen: Option<SocketAddr>,
    /// How runners and the forge reach us, without a slash at its end.
    pub public_url: Option<String>,
    /// Who may call the API.
    pub tokens: Vec<Token>,
    pub tls: Option<Tls>,
}

impl Http {
    pub(crate) fn read(section: &Section<'_>) -> Self {
        let address =
            |key: &str| section.text(key).and_then(|text| text.parse::<SocketAddr>().ok());
        let http = Self {
            listen: address("listen").unwrap_or(SocketAddr::from(([127, 0, 0, 1], 7480))),
            public_listen: address("public_listen"),
            public_url: section.text("public_url").map(|url| url.trim_end_matches('/').to_owned()),
            tokens: section.inners("token").iter().filter_map(|token| Token::read(token)).collect(),
            tls: section.inner("tls").and_then(|tls| Tls::read(&tls)),
        };
        http.check(section);
        tokens::check(&http.tokens, section);
        http
    }

    fn check(&self, section: &Section<'_>) {
        let open = !self.listen.ip().is_loopback();
        if open && section.node("token").is_none() {
            let what = format!(
                "`http.listen` = {} lets other machines in, and no token says who may do what",
                self.listen
            );
            section.note(
                section
                    .error("listen", what)
                    .help("add [[http.token]] with name, role and secret, or listen on 127.0.0.1"),
            );
        }
        if open && !self.tokens.is_empty() && self.tls.is_none() && section.inner("tls").is_none() {
            section.note(
                section.warning("listen", "tokens for `http.listen` travel in clear text").help(
                    "add [http.tls] cert and key, or listen on 127.0.0.1 behind a proxy that \
                            speaks TLS",
                ),
            );
        }
        if let Some(public) = self.public_listen.filter(|public| clash(*public, self.listen)) {
            section.note(
                section
                    .error(
                        "public_listen",
                        format!(
                            "`http.public_listen` = {public} takes the port of `http.listen` = {}",
                            self.listen
                        ),
                    )
                    .also(section.node("listen").map(|node| node.at), "the same port")
                    .help("give it a port of its own, such as 7481, or remove it"),
            );
        }
        let plain = self
            .public_url
            .as_ref()
            .and_then(|url| names::url(url).ok())
            .filter(|url| url.scheme_str() == Some("http"));
        if let Some(url) = plain.filter(|url| !names::is_loopback(url.host().unwrap_or(""))) {
            section.note(
                section
                    .warning(
                        "public_url",
                        format!("runners fetch their credentials from {url} in clear text"),
                    )
                    .help("write https://, and let [http.tls] or a proxy serve it"),
            );
        }
    }
}

/// Returns whether two servers cannot both have their address; port 0 is always another one.
fn clash(one: SocketAddr, two: SocketAddr) -> bool {
    let covers = one.ip() == two.ip() || one.ip().is_unspecified() || two.ip().is_unspecified();
    one.port() != 0 && one.port() == two.port() && covers
}
