//! The HTTP server: routes on one screen, and a graceful end.
//!
//! | route | who | what |
//! |---|---|---|
//! | `GET /healthz` | anyone | the process lives |
//! | `GET /readyz` | anyone | whether it may be sent webhooks, with `?leader` whether it leads; what it waits for, what is wrong |
//! | `POST /webhooks/{forge}` | a signature | durable in the inbox, then 202 |
//! | `POST /runner/v1/dispatch` | a warm pod's token | a JIT config, or nothing yet, or leave |
//! | `/runner/v1/…` | a machine's token | what it needs to become a runner, and what it tells |
//! | `/api/v1/…` | a token, or this machine | the admin API ([`api`]) |
//! | `GET /metrics` | this machine, or a token | figures for Prometheus |
//! | `GET /openapi.json` | anyone | its description |
//! | `GET /` and its files | anyone | the page, which asks for a token where one is needed |
//!
//! Handlers hold the seeing halves, the append-only inbox and the audit log; nothing here can touch
//! a machine or a row of the core.

pub mod api;
mod app_state;
mod concerns;
mod follow;
mod gate;
mod health;
mod page;
mod problem;
mod readiness;
mod runner;
mod tls;
mod webhook;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::error::{PathError, QueryPayloadError};
use actix_web::middleware::DefaultHeaders;
use actix_web::{App, HttpResponse, HttpServer, web};
use tokio::task::JoinHandle;
use tracing::warn;

pub use app_state::{AppState, Parts};
pub use follow::Following;
pub use problem::Problem;
pub use tls::BadCertificate;

use crate::config::Http;
use tls::Certificate;

/// How long a client may take for the head of a request.
const SLOW_HEAD: Duration = Duration::from_secs(10);
/// How many connections one worker holds.
const CONNECTIONS: usize = 4096;

/// Running servers.
pub struct Server {
    address: SocketAddr,
    public: Option<SocketAddr>,
    handles: Vec<ServerHandle>,
    renewal: Option<JoinHandle<()>>,
}

/// Tells why the servers cannot start.
#[derive(Debug, thiserror::Error)]
pub enum NoServer {
    /// An address cannot be had.
    #[error(
        "cannot listen on `{address}`; another program may use it, or the address is not of this machine"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The certificate.
    #[error("cannot serve TLS")]
    Tls(#[from] BadCertificate),
}

impl Server {
    /// Returns how everything is called from this machine.
    pub fn url(&self) -> String {
        let scheme = if self.renewal.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns where everything is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns where only webhooks and the runner-facing API are served.
    pub fn public_address(&self) -> Option<SocketAddr> {
        self.public
    }

    /// Stops: what is being answered may finish for so long.
    pub async fn stop(self, patience: Duration) {
        for handle in &self.handles {
            if tokio::time::timeout(patience, handle.stop(true)).await.is_err() {
                warn!("some answers took too long and were cut off");
                drop(handle.stop(false));
            }
        }
        if let Some(renewal) = &self.renewal {
            renewal.abort();
        }
    }
}

/// Starts the servers.
pub fn serve(config: &Http, app_state: &AppState) -> Result<Server, NoServer> {
    let certificate = config.tls.as_ref().map(Certificate::read).transpose()?;
    let certificate = certificate.as_ref();
    let listen = |address| move |source| NoServer::Listen { address, source };
    let everything = bind(config.listen, app_state, certificate, |app| {
        app.route("/healthz", web::get().to(health::alive))
            .route("/readyz", web::get().to(health::ready))
            .route("/openapi.json", web::get().to(describe))
            .route("/metrics", web::get().to(health::metrics))
            .configure(public)
            .configure(api::routes)
            .configure(page::routes);
    })
    .map_err(listen(config.listen))?;
    let mut server =
        Server { address: everything.0, public: None, handles: vec![everything.1], renewal: None };
    if let Some(address) = config.public_listen {
        let outside = bind(address, app_state, certificate, public).map_err(listen(address))?;
        server.public = Some(outside.0);
        server.handles.push(outside.1);
    }
    if let (Some(certificate), Some(tls)) = (certificate, &config.tls) {
        server.renewal = Some(Arc::clone(certificate).renew(tls.clone()));
    }
    Ok(server)
}

/// What the outside may reach.
fn public(app: &mut web::ServiceConfig) {
    app.service(web::resource("/webhooks/{forge}").route(web::post().to(webhook::deliver)));
    app.configure(runner::routes);
}

fn bind(
    address: SocketAddr,
    app_state: &AppState,
    certificate: Option<&Arc<Certificate>>,
    routes: impl Fn(&mut web::ServiceConfig) + Clone + Send + 'static,
) -> io::Result<(SocketAddr, ServerHandle)> {
    let app_state = web::Data::new(app_state.clone());
    let transport = if certificate.is_some() { Transport::Tls } else { Transport::Plain };
    let server = HttpServer::new(move || {
        App::new()
            .app_data(app_state.clone())
            .app_data(web::QueryConfig::default().error_handler(|why, _| bad_query(&why)))
            .app_data(web::PathConfig::default().error_handler(|why, _| bad_path(&why)))
            .wrap(security_headers(transport))
            .configure(routes.clone())
            .default_service(web::to(problem::not_found))
    })
    .workers(2)
    .max_connections(CONNECTIONS)
    .client_request_timeout(SLOW_HEAD)
    .disable_signals()
    .shutdown_timeout(5);
    let server = match certificate {
        None => server.bind(address)?,
        Some(certificate) => server.bind_rustls_0_23(address, certificate.config())?,
    };
    let address = server.addrs().first().copied().unwrap_or(address);
    let server = server.run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    Ok((address, handle))
}

/// What the page may load: its own files, from here; nothing inline, nothing of others.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Tells whether answers travel encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    /// In clear text.
    Plain,
    /// Over TLS.
    Tls,
}

/// Returns the headers of every answer.
fn security_headers(transport: Transport) -> DefaultHeaders {
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

/// Serves the description of the API.
async fn describe() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(api::openapi::document())
}

fn bad_query(why: &QueryPayloadError) -> actix_web::Error {
    Problem::new(400, format!("the query cannot be understood: {why}")).into()
}

fn bad_path(why: &PathError) -> actix_web::Error {
    Problem::new(400, format!("the address cannot be understood: {why}")).into()
}

#[cfg(test)]
mod tests;
