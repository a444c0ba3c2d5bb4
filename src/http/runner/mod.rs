//! What machines may ask: each proves who it is, and hears only of itself.

mod dispatch;
mod reviewers;

use actix_web::web;

pub(super) use reviewers::Reviewers;

/// Adds the routes of machines.
pub(super) fn routes(app: &mut web::ServiceConfig) {
    app.service(web::resource("/runner/v1/dispatch").route(web::post().to(dispatch::dispatch)));
}
