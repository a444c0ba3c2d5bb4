//! The API for machines: what they need to become runners, and what they report meanwhile.
//!
//! | route | answers |
//! |---|---|
//! | `GET /runner/v1/metadata/…` | install script, credentials, unit file, certificates |
//! | `POST /runner/v1/callbacks/status` | how far the machine is: `installing`, `idle`, `failed` |
//! | `POST /runner/v1/callbacks/system-info` | which system it runs |
//! | `POST /runner/v1/dispatch` | a warm machine that asks for work: its JIT config, nothing yet, or leave |
//!
//! Paths, payloads and errors are GARM's, so that providers and images made for it find what they
//! look for; every path is served with and without a slash at its end. A machine proves itself with
//! the token it was made with, and is heard only while it is being set up: a token that has done its
//! work opens nothing.

mod bearer;
mod boot;
mod callbacks;
mod dispatch;
mod metadata;
mod script;

use actix_web::web;

pub(super) use boot::Boot;
pub(super) use dispatch::MachineAuths;

/// Says what machines may reach.
pub(super) fn routes(app: &mut web::ServiceConfig) {
    metadata::routes(app);
    callbacks::routes(app);
    app.service(web::resource("/runner/v1/dispatch").route(web::post().to(dispatch::dispatch)));
}

/// Returns a path with and without a slash at its end.
fn both(path: &str) -> [String; 2] {
    [path.to_owned(), format!("{path}/")]
}
