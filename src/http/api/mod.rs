//! The admin API, `/api/v1`: what is, why it is so, and a few actions.
//!
//! Reads of fleet, pools and instances come from the registry and wait for nothing, so a stuck
//! instance or a sick store is shown as fast as a healthy one. History comes from the store's
//! reading connections, with a deadline. Actions go to the fleet as messages; the owner answers,
//! and a refusal is a 409 with the owner's own sentence.

mod actions;
mod deaths;
mod fleet;
mod instances;
mod jobs;
pub mod openapi;
mod pools;
mod quarantine;
mod requests;
pub mod shapes;
mod stream;

use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{CACHE_CONTROL, HeaderValue};
use actix_web::middleware::{Next, from_fn};
use actix_web::{Error, HttpMessage as _, HttpRequest, Resource, web};
use ostler_actors::ports::StoreError;

pub(super) use stream::EventStream;

use super::AppState;
use super::problem::{Problem, not_found, wrong_method};

/// How long the store may take to answer a reader.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Mounts the API.
pub(super) fn routes(app: &mut web::ServiceConfig) {
    app.service(
        web::scope("/api/v1")
            .wrap(from_fn(admit))
            .service(only("/fleet", "GET").route(web::get().to(fleet::fleet)))
            .service(only("/pools", "GET").route(web::get().to(pools::list)))
            .service(only("/pools/{name}", "GET").route(web::get().to(pools::one)))
            .service(only("/pools/{name}/explain", "GET").route(web::get().to(pools::explain)))
            .service(only("/pools/{name}/drain", "POST").route(web::post().to(actions::drain)))
            .service(only("/pools/{name}/resume", "POST").route(web::post().to(actions::resume)))
            .service(only("/instances", "GET").route(web::get().to(instances::list)))
            .service(
                only("/instances/{name}", "GET, DELETE")
                    .route(web::get().to(instances::one))
                    .route(web::delete().to(actions::delete)),
            )
            .service(
                only("/instances/{name}/timeline", "GET").route(web::get().to(instances::timeline)),
            )
            .service(
                only("/instances/{name}/explain", "GET").route(web::get().to(instances::explain)),
            )
            .service(
                only("/instances/{name}/forget", "POST").route(web::post().to(actions::forget)),
            )
            .service(only("/foreign/adopt", "POST").route(web::post().to(actions::adopt)))
            .service(only("/jobs", "GET").route(web::get().to(jobs::list)))
            .service(only("/jobs/{id}", "GET").route(web::get().to(jobs::one)))
            .service(only("/jobs/{id}/timeline", "GET").route(web::get().to(jobs::timeline)))
            .service(only("/jobs/{id}/explain", "GET").route(web::get().to(jobs::explain)))
            .service(only("/deaths", "GET").route(web::get().to(deaths::list)))
            .service(only("/deaths/{name}", "GET").route(web::get().to(deaths::one)))
            .service(only("/events", "GET").route(web::get().to(stream::events)))
            .service(only("/config", "GET").route(web::get().to(fleet::config)))
            .service(only("/version", "GET").route(web::get().to(fleet::version)))
            .default_service(web::to(not_found)),
    );
}

/// Returns a place that knows these methods and says so to others.
fn only(path: &'static str, methods: &'static str) -> Resource {
    web::resource(path).default_service(web::to(move |request: HttpRequest| {
        let answer = wrong_method(&request, methods);
        async move { answer }
    }))
}

/// Admits a caller that may ask, and remembers its name and role.
async fn admit(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let caller = {
        let app_state = request.app_data::<web::Data<AppState>>();
        let peer = request.peer_addr().map(|address| address.ip());
        let admit = |app_state: &web::Data<AppState>| {
            app_state.gate.admit(request.headers(), request.method(), peer)
        };
        app_state.map_or_else(|| Err(Problem::new(500, "the application state is missing")), admit)
    };
    let mut answer = match caller {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.call(request).await?.map_into_left_body()
        }
        Err(problem) => request
            .into_response(actix_web::ResponseError::error_response(&problem))
            .map_into_right_body(),
    };
    let headers = answer.headers_mut();
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    Ok(answer)
}

/// Waits for the store, not for ever.
async fn look<T>(read: impl Future<Output = Result<T, StoreError>>) -> Result<T, Problem> {
    match tokio::time::timeout(STORE_TIMEOUT, read).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(StoreError::Unreadable(row))) => Err(Problem::new(500, quarantine::sentence(&row))),
        Ok(Err(why @ StoreError::Unavailable(_))) => {
            tracing::warn!("a reader of the history got no answer: {why}");
            Err(Problem::new(503, "the store does not answer; try again"))
        }
        Err(_) => Err(Problem::new(
            503,
            format!("the store did not answer in {} s; try again", STORE_TIMEOUT.as_secs()),
        )),
    }
}
