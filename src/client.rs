//! The way out: one HTTP client for every call that this program makes itself.
//!
//! The GitHub adapter (below octocrab), the command line, the notifier, the trace exporter, the GARM
//! importer, warm machines and the demo use it; only kube brings its own. Here is decided, once:
//! which certificates are trusted (those of this machine, and a private CA beside them), how a proxy
//! is passed (`CONNECT`), how long a connection and a call may take, how large an answer may be, and
//! who we say we are. Redirects are not followed and nothing is repeated: whether a call may be sent
//! twice is for the caller to know.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{Entry, HeaderValue, USER_AGENT};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tower_service::Service;

/// What we say we are.
pub const USER_AGENT_VALUE: &str = concat!("ostler/", env!("CARGO_PKG_VERSION"));

/// How long a connection may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept, and how often a used one is probed.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Carries requests with bodies of one type. A client library can be built on it.
pub type Transport<B> = legacy::Client<HttpsConnector<Dialer>, B>;

/// Says which certificates are trusted and which proxy is used.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransportOptions<'a> {
    /// Certificates to trust besides those of this machine, as PEM.
    pub ca_pem: Option<&'a [u8]>,
    /// The proxy that calls over https are tunnelled through.
    pub proxy: Option<&'a str>,
}

/// Bounds one call.
#[derive(Clone, Copy, Debug)]
pub struct CallLimits {
    /// How long it may take, from the connection to the last byte.
    pub timeout: Duration,
    /// How large an answer that is read whole may be.
    pub body_bytes: usize,
}

/// Tells why the options cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadTransport {
    /// The text is no certificate, or holds none.
    #[error("no certificate can be read: {0}")]
    Ca(String),
    /// The proxy has no address.
    #[error("`{0}` is not an http address")]
    Proxy(String),
}

/// Tells why a call brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("no answer in {} s", .0.as_secs())]
    Late(Duration),
    #[error(transparent)]
    Failed(#[from] legacy::Error),
    #[error("the answer broke off")]
    Broken(#[source] Box<dyn Error + Send + Sync>),
}

/// Makes calls. Clones share their connections.
#[derive(Clone)]
pub struct HttpClient {
    transport: Transport<Full<Bytes>>,
    limits: CallLimits,
}

impl HttpClient {
    pub fn new(options: &TransportOptions<'_>, limits: CallLimits) -> Result<Self, BadTransport> {
        Ok(Self { transport: transport(options)?, limits })
    }

    /// Returns a client that trusts what this machine trusts.
    pub fn direct(limits: CallLimits) -> Self {
        let roots = machine_roots();
        Self { transport: connect(Dialer::new(None), roots), limits }
    }

    /// Returns a client that trusts no certificate: for plain http on this machine, where reading
    /// the certificates would cost more than the calls.
    pub fn plain(limits: CallLimits) -> Self {
        Self { transport: connect(Dialer::new(None), RootCertStore::empty()), limits }
    }

    /// Sends a request and reads the whole answer.
    pub async fn call(&self, request: Request<Vec<u8>>) -> Result<Response<Bytes>, CallError> {
        self.within_timeout(async { self.collect(self.send(request).await?).await }).await
    }

    /// Sends a request and returns as soon as the answer begins; its body may go on for ever.
    pub async fn open(&self, request: Request<Vec<u8>>) -> Result<Response<Incoming>, CallError> {
        self.within_timeout(self.send(request)).await
    }

    /// Reads the body of an answer that was only opened.
    pub async fn read(&self, answer: Response<Incoming>) -> Result<Response<Bytes>, CallError> {
        self.within_timeout(self.collect(answer)).await
    }

    async fn within_timeout<T>(
        &self,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let timeout = self.limits.timeout;
        tokio::time::timeout(timeout, call).await.map_err(|_| CallError::Late(timeout))?
    }

    async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Incoming>, CallError> {
        let mut request = request.map(|body| Full::new(Bytes::from(body)));
        if let Entry::Vacant(agent) = request.headers_mut().entry(USER_AGENT) {
            agent.insert(HeaderValue::from_static(USER_AGENT_VALUE));
        }
        Ok(self.transport.request(request).await?)
    }

    async fn collect(&self, answer: Response<Incoming>) -> Result<Response<Bytes>, CallError> {
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, self.limits.body_bytes).collect().await;
        Ok(Response::from_parts(head, body.map_err(CallError::Broken)?.to_bytes()))
    }
}

/// Builds what carries requests.
pub fn transport<B>(options: &TransportOptions<'_>) -> Result<Transport<B>, BadTransport>
where
    B: hyper::body::Body + Send + 'static + Unpin,
    B::Data: Send,
{
    let mut roots = machine_roots();
    if let Some(pem) = options.ca_pem {
        trust(&mut roots, pem)?;
    }
    let proxy = options.proxy.map(|text| {
        let uri = text.parse::<Uri>().ok().filter(|uri| uri.host().is_some());
        uri.ok_or_else(|| BadTransport::Proxy(text.to_owned()))
    });
    Ok(connect(Dialer::new(proxy.transpose()?), roots))
}

/// Tells whether a failed call never left: no connection came up, so nothing was done.
pub fn was_never_sent(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |link| (*link).source())
        .filter_map(|link| link.downcast_ref::<legacy::Error>())
        .any(legacy::Error::is_connect)
}

fn machine_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // A machine without certificates can still speak plain http; over https the handshake says why not.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn trust(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), BadTransport> {
    let bad = |why: String| BadTransport::Ca(why);
    let mut added = 0;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
        added += 1;
    }
    if added == 0 { Err(bad("there is none in PEM".into())) } else { Ok(()) }
}

fn connect<B>(dialer: Dialer, roots: RootCertStore) -> Transport<B>
where
    B: hyper::body::Body + Send + 'static + Unpin,
    B::Data: Send,
{
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs speaks TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let https = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1();
    legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_timer(TokioTimer::new())
        .build(https.wrap_connector(dialer))
}

/// Connects to a host, or to the proxy that leads there.
#[derive(Clone, Debug)]
pub struct Dialer {
    tcp: HttpConnector,
    tunnel: Option<Tunnel<HttpConnector>>,
}

impl Dialer {
    fn new(proxy: Option<Uri>) -> Self {
        let mut tcp = HttpConnector::new();
        // TLS is put on top, so the address may say https.
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(IDLE_TIMEOUT));
        let tunnel = proxy.map(|proxy| Tunnel::new(proxy, tcp.clone()));
        Self { tcp, tunnel }
    }
}

impl Service<Uri> for Dialer {
    type Response = <HttpConnector as Service<Uri>>::Response;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match &mut self.tunnel {
            Some(tunnel) => tunnel.poll_ready(context).map_err(Into::into),
            None => self.tcp.poll_ready(context).map_err(Into::into),
        }
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        if let Some(tunnel) = &mut self.tunnel {
            let through = tunnel.call(to);
            Box::pin(async { through.await.map_err(Into::into) })
        } else {
            let straight = self.tcp.call(to);
            Box::pin(async { straight.await.map_err(Into::into) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_cannot_work_are_refused_with_the_reason() {
        let refused =
            |options| transport::<Full<Bytes>>(&options).err().map(|error| error.to_string());
        let ca = |pem| refused(TransportOptions { ca_pem: Some(pem), proxy: None });
        assert!(ca(b"no PEM").is_some_and(|why| why.ends_with("there is none in PEM")));
        let proxy = |text| refused(TransportOptions { ca_pem: None, proxy: Some(text) });
        assert!(proxy("/no/host").is_some_and(|why| why.contains("`/no/host`")));
    }
}
