//! The API for machines: what they need to become runners, and what they report meanwhile.
//!
//! | route | answers |
//! |---|---|
//! | `GET /runner/v1/metadata/…` | install script, credentials, unit file, certificates |
//! | `POST /runner/v1/callbacks/status` | how far the machine is: `installing`, `idle`, `failed` |
//! | `POST /runner/v1/callbacks/system-info` | which system it runs |
//! | `POST /runner/v1/token` | a supervisor that starts: the token with which it reports |
//! | `POST /runner/v1/report` | what happens on the machine, for as long as it lives; see [`report`] |
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
mod report;
mod script;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::ConnectionType;
use actix_web::middleware::{Next, from_fn};
use actix_web::{Error, web};

pub(super) use boot::Boot;
pub(super) use dispatch::MachineAuths;

use super::AppState;
use crate::ports::Stage;

/// Says what machines may reach.
pub(super) fn routes(app: &mut web::ServiceConfig) {
    app.service(
        web::scope("/runner/v1")
            .wrap(from_fn(leading))
            .configure(metadata::routes)
            .configure(callbacks::routes)
            .configure(report::routes)
            .service(web::resource("/dispatch").route(web::post().to(dispatch::dispatch))),
    );
}

/// Lets a machine in only while this daemon leads. Behind one address it would else keep its
/// connection to a standby, and ask there for ever: it is closed, so that the next call dials anew.
async fn leading(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let leads = request
        .app_data::<web::Data<AppState>>()
        .is_some_and(|app_state| app_state.status.shown().stage == Stage::Leading);
    if leads {
        return next.call(request).await.map(ServiceResponse::map_into_boxed_body);
    }
    let why = "this daemon does not lead; ask again, another one answers";
    let mut answer = bearer::failure(503, "not now", Some(why));
    answer.head_mut().set_connection_type(ConnectionType::Close);
    Ok(request.into_response(answer))
}

/// Returns a path with and without a slash at its end.
fn both(path: &str) -> [String; 2] {
    [path.to_owned(), format!("{path}/")]
}
