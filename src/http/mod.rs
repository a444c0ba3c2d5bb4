//! The doors: routes on one screen, and a graceful end.
//!
//! | route | who | what |
//! |---|---|---|
//! | `GET /healthz` | anyone | the process lives |
//! | `GET /readyz` | anyone | it leads, its store answers and takes saves; what is wrong with its configuration |
//! | `POST /webhooks/{forge}` | a signature | durable in the inbox, then 202 |
//! | `POST /runner/v1/dispatch` | a warm pod's token | a JIT config, or nothing yet, or leave |
//!
//! Handlers hold the seeing halves and the append-only inbox; nothing here can touch a machine or
//! a row of the core.

mod doors;
mod health;
mod problem;
mod runner;
mod webhook;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpServer, web};
use tracing::warn;

pub use doors::Doors;

use crate::config::Http;

/// How long a client may take for the head of a request.
const SLOW_HEAD: Duration = Duration::from_secs(10);
/// How many connections one worker holds.
const CONNECTIONS: usize = 4096;

/// Running servers.
pub struct Server {
    address: SocketAddr,
    handles: Vec<ServerHandle>,
}

impl Server {
    /// Returns where everything is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: what is being answered may finish for so long.
    pub async fn stop(self, patience: Duration) {
        for handle in &self.handles {
            if tokio::time::timeout(patience, handle.stop(true)).await.is_err() {
                warn!("some answers took too long and were cut off");
                drop(handle.stop(false));
            }
        }
    }
}

/// Starts the servers; on failure returns the address that could not be had.
pub fn serve(config: &Http, doors: &Doors) -> Result<Server, (SocketAddr, io::Error)> {
    let everything = bind(config.listen, doors, |app| {
        app.route("/healthz", web::get().to(health::alive))
            .route("/readyz", web::get().to(health::ready))
            .configure(public);
    })
    .map_err(|error| (config.listen, error))?;
    let mut server = Server { address: everything.0, handles: vec![everything.1] };
    if let Some(address) = config.public_listen {
        let outside = bind(address, doors, public).map_err(|error| (address, error))?;
        server.handles.push(outside.1);
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
    doors: &Doors,
    routes: impl Fn(&mut web::ServiceConfig) + Clone + Send + 'static,
) -> io::Result<(SocketAddr, ServerHandle)> {
    let doors = web::Data::new(doors.clone());
    let server = HttpServer::new(move || {
        App::new()
            .app_data(doors.clone())
            .configure(routes.clone())
            .default_service(web::to(problem::not_found))
    })
    .workers(2)
    .max_connections(CONNECTIONS)
    .client_request_timeout(SLOW_HEAD)
    .disable_signals()
    .shutdown_timeout(5)
    .bind(address)?;
    let address = server.addrs().first().copied().unwrap_or(address);
    let server = server.run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    Ok((address, handle))
}

#[cfg(test)]
mod tests;
