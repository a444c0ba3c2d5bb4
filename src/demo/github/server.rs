//! The server: its thread, its routes, and the lock around the truth.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::http::StatusCode;
use actix_web::http::header::{AUTHORIZATION, HeaderName, IF_NONE_MATCH, USER_AGENT};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use serde_json::Value;
use tokio::sync::watch;

use super::router::{Ask, Reply};
use super::state::State;
use super::{assign, gate, hooks};

/// How often silent runners are looked for.
const TICK: Duration = Duration::from_millis(200);

/// Holds what server, sender and handle share.
pub(super) struct Shared {
    state: Mutex<State>,
    version: watch::Sender<u64>,
    mail: tokio::sync::Notify,
}

impl Shared {
    pub(super) fn new(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            version: watch::Sender::new(0),
            mail: tokio::sync::Notify::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the truth and tells everyone who waits for it.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.state());
        self.changed();
        result
    }

    /// Tells everyone who waits that something changed, and the sender that there may be mail.
    pub(super) fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
        self.mail.notify_one();
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}

/// Says where and how to listen.
pub(super) struct Place {
    pub(super) port: u16,
    pub(super) tls: Option<rustls::ServerConfig>,
}

/// Runs the server on a thread of its own; returns its port, what stops it, and the thread.
pub(super) fn run(
    shared: Arc<Shared>,
    place: Place,
) -> io::Result<(u16, ServerHandle, JoinHandle<()>)> {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::Builder::new().name("simulated-github".into()).spawn(move || {
        actix_rt::System::new().block_on(async move {
            match serve(&shared, place) {
                Ok((port, server)) => {
                    drop(tell.send(Ok((port, server.handle()))));
                    let effects = actix_rt::spawn(effects(shared));
                    drop(server.await);
                    effects.abort();
                }
                Err(error) => {
                    drop(tell.send(Err(error)));
                }
            }
        });
    })?;
    let (port, server) =
        told.recv().map_err(|_| io::Error::other("the server did not start"))??;
    Ok((port, server, thread))
}

fn serve(shared: &Arc<Shared>, place: Place) -> io::Result<(u16, actix_web::dev::Server)> {
    let data = web::Data::new(Arc::clone(shared));
    let server = HttpServer::new(move || {
        App::new()
            .app_data(data.clone())
            .app_data(web::PayloadConfig::new(1 << 20))
            .route("/_sim/runners/listen", web::post().to(assign::listen))
            .route("/_sim/runners/renew", web::post().to(assign::renew))
            .route("/_sim/runners/done", web::post().to(assign::done))
            .default_service(web::to(rest))
    })
    .workers(1)
    .disable_signals()
    .shutdown_timeout(0);
    let address = ("127.0.0.1", place.port);
    let server = match place.tls {
        Some(config) => server.bind_rustls_0_23(address, config)?,
        None => server.bind(address)?,
    };
    let port = server.addrs().first().map_or(place.port, std::net::SocketAddr::port);
    Ok((port, server.run()))
}

/// Sends webhooks and loses silent jobs.
async fn effects(shared: Arc<Shared>) {
    loop {
        hooks::send_all(&shared);
        if tokio::time::timeout(TICK, shared.mail.notified()).await.is_err() {
            let lost = shared.state().lose_silent_jobs();
            if lost {
                shared.changed();
            }
        }
    }
}

async fn rest(
    shared: web::Data<Arc<Shared>>,
    request: HttpRequest,
    body: web::Bytes,
) -> HttpResponse {
    let reply = shared.change(|state| {
        let prefix = state.prefix.clone();
        match ask(&request, &body, &prefix) {
            Some(ask) => gate::admit(state, &ask),
            None => Reply::not_found(),
        }
    });
    if reply.never {
        std::future::pending::<()>().await;
    }
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    for header in reply.headers {
        response.insert_header(header);
    }
    match (reply.raw, reply.body) {
        (Some(raw), _) => response.content_type("text/html").body(raw),
        (None, Value::Null) => response.finish(),
        (None, body) => response.json(body),
    }
}

/// Reads a call; nothing below another prefix is ours.
fn ask(request: &HttpRequest, body: &[u8], prefix: &str) -> Option<Ask> {
    let header = |name| {
        request
            .headers()
            .get(name)
            .and_then(|it: &actix_web::http::header::HeaderValue| it.to_str().ok())
    };
    let path = request.uri().path().strip_prefix(prefix)?;
    let segments: Vec<String> =
        path.split('/').filter(|segment| !segment.is_empty()).map(decode).collect();
    let query = request.query_string().split('&').filter_map(|pair| pair.split_once('='));
    let query: BTreeMap<String, String> =
        query.map(|(key, value)| (key.to_owned(), decode(value))).collect();
    let bearer = header(AUTHORIZATION).and_then(|it| it.strip_prefix("Bearer "));
    Some(Ask {
        method: request.method().as_str().to_owned(),
        path: path.to_owned(),
        segments,
        query,
        bearer: bearer.unwrap_or_default().to_owned(),
        etag: header(IF_NONE_MATCH).map(str::to_owned),
        agent: header(USER_AGENT).unwrap_or_default().to_owned(),
        edition: header(HeaderName::from_static("x-github-api-version"))
            .unwrap_or_default()
            .to_owned(),
        body: serde_json::from_slice(body).unwrap_or_default(),
    })
}

/// Takes back what an address had to escape.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |it: Option<u8>| it.and_then(|it| char::from(it).to_digit(16));
        match byte {
            b'%' => {
                let (high, low) = (digit(rest.next()), digit(rest.next()));
                let value =
                    high.zip(low).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
                bytes.extend(value);
            }
            b'+' => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
