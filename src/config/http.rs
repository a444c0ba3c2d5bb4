//! `[http]`: the servers for people, webhooks and runners.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::declare::{Key, Requirement::Required, ValueKind, table};
use super::document::Node;
use super::secrets::Secret;
use super::section::Section;
use super::values::{Field, choice, open_host, url};

/// A token shorter than this can be guessed.
const MIN_TOKEN_CHARS: usize = 16;

table! {
    /// The servers for people, webhooks and runners.
    pub struct Http, check = Http::check {
        /// Where the admin API, the page, metrics, webhooks and the runner-facing API are served.
        pub listen: SocketAddr = "127.0.0.1:7480";
        /// A second address that serves only /webhooks/* and /runner/v1/*, fit to face the internet.
        pub public_listen: Option<SocketAddr> => "0.0.0.0:7481";
        /// How runners and the forge reach this daemon; late binding and external providers need it.
        pub public_url: Option<String> => "https://ci.example.com", kind = ValueKind::BaseUrl;
        /// Who may call the API; without any, only this machine may.
        pub tokens as "token": Vec<Token>;
        /// Certificate and key; without them the servers speak plain HTTP.
        pub tls: Option<Tls>;
    }
}

table! {
    /// Who may call the API.
    pub struct Token {
        /// Who it is; stands in the audit log.
        pub name: String => "ops", need = Required;
        /// What it may do: look (viewer), or also act (operator).
        pub role: Role => "operator", need = Required;
        /// The token itself.
        pub secret: Secret => { env = "OSTLER_TOKEN" }, need = Required;
    }
}

table! {
    /// Certificate and key.
    pub struct Tls {
        /// The certificate chain, PEM.
        pub cert: PathBuf => "tls.crt", need = Required, check = Some(check_cert);
        /// Its private key, PEM.
        pub key: Secret => { file = "tls.key" }, need = Required;
    }
}

/// Says what a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Viewer,
    Operator,
}

choice!(Role { Viewer = "viewer", Operator = "operator" });

impl Http {
    fn check(&self, section: &Section<'_>) {
        let open = !self.listen.ip().is_loopback();
        if open && section.node("token").is_none() {
            section.error(
                "listen",
                format!(
                    "`http.listen` = {} lets other machines in, and no token says who may do what",
                    self.listen
                ),
                "add [[http.token]] with name, role and secret, or listen on 127.0.0.1",
            );
        }
        if open && !self.tokens.is_empty() && section.inner("tls").is_none() {
            section.warn(
                "listen",
                "tokens for `http.listen` travel in clear text",
                "add [http.tls] cert and key, or listen on 127.0.0.1 behind a proxy that speaks TLS",
            );
        }
        if let Some(public) = self.public_listen.filter(|public| clash(*public, self.listen)) {
            let what = format!(
                "`http.public_listen` = {public} takes the port of `http.listen` = {}",
                self.listen
            );
            let help = "give it a port of its own, such as 7481, or remove it";
            let first = section.node("listen").map(|node| node.at);
            let problem = section.problem("public_listen", what, help);
            section.report(problem.also(first, "the same port"));
        }
        let public = self.public_url.as_ref().and_then(|text| url(text).ok());
        if let Some(public) = public.filter(|public| open_host(public).is_some()) {
            section.warn(
                "public_url",
                format!("runners fetch their credentials from {public} in clear text"),
                "write https://, and let [http.tls] or a proxy serve it",
            );
        }
        self.check_tokens(section);
    }

    /// Checks tokens against each other, and against guessing.
    fn check_tokens(&self, section: &Section<'_>) {
        let tables = section.inners("token");
        for (at, table) in tables.iter().enumerate() {
            let Some(name) = table.text("name") else { continue };
            if let Some(first) = tables[..at].iter().find(|first| first.text("name") == Some(name))
            {
                let what = format!(
                    "two tokens are called `{name}`, and the audit log could not tell them apart"
                );
                let problem = table.problem("name", what, "give each token its own name");
                section.report(problem.also(first.at("name"), "first here"));
            }
        }
        for (at, token) in self.tokens.iter().enumerate().filter(|_| section.cx.inspects()) {
            let secret = token.secret.expose();
            if let Some(first) = self.tokens[..at].iter().find(|it| it.secret.expose() == secret) {
                section.error(
                    "token",
                    format!("tokens `{}` and `{}` have the same secret", first.name, token.name),
                    "give each its own: openssl rand -hex 32",
                );
            }
            if secret.len() < MIN_TOKEN_CHARS {
                section.warn(
                    "token",
                    format!(
                        "the secret of token `{}` has fewer than {MIN_TOKEN_CHARS} characters and \
                         can be guessed",
                        token.name
                    ),
                    "create one with: openssl rand -hex 32",
                );
            }
        }
    }
}

fn check_cert(section: &Section<'_>, key: &'static Key, node: &Node) {
    let Some(cert) = PathBuf::read(section, key, node) else { return };
    match section.cx.file(&cert) {
        Ok(text) if section.cx.inspects() && !text.contains("BEGIN CERTIFICATE") => section.error(
            "cert",
            format!("`{}` contains no PEM certificate", cert.display()),
            "name a file that begins with -----BEGIN CERTIFICATE-----",
        ),
        Ok(_) => {}
        Err(why) => section.error(
            "cert",
            format!("cannot read the certificate `{}`: {why}", cert.display()),
            "relative paths start beside this file",
        ),
    }
}

/// Returns whether two servers cannot both have their address; port 0 is always another one.
fn clash(one: SocketAddr, two: SocketAddr) -> bool {
    let covers = one.ip() == two.ip() || one.ip().is_unspecified() || two.ip().is_unspecified();
    one.port() != 0 && one.port() == two.port() && covers
}
