//! What every answer says to a browser: trust nothing, frame nothing, guess nothing.

use actix_web::middleware::DefaultHeaders;

/// What the page may load: its own files, from here; nothing inline, nothing of others.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Tells whether answers travel encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// In clear text.
    Plain,
    /// Over TLS.
    Tls,
}

/// Returns the headers of every answer.
pub(super) fn security(transport: Transport) -> DefaultHeaders {
    let headers = DefaultHeaders::new()
        .add(("Content-Security-Policy", POLICY))
        .add(("X-Content-Type-Options", "nosniff"))
        .add(("X-Frame-Options", "DENY"))
        .add(("Referrer-Policy", "no-referrer"))
        .add(("Cross-Origin-Opener-Policy", "same-origin"))
        .add(("Cross-Origin-Resource-Policy", "same-origin"))
        .add(("Permissions-Policy", "camera=(), geolocation=(), microphone=()"));
    match transport {
        Transport::Plain => headers,
        Transport::Tls => headers.add(("Strict-Transport-Security", "max-age=31536000")),
    }
}
