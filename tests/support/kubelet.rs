//! The part of a kubelet that the API server talks to: the logs of containers, over TLS.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise, in its helpers too")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// What containers said: by pod, container and whether it is the life before.
type Logs = Arc<Mutex<BTreeMap<(String, String, bool), Said>>>;

/// What a container answers when its log is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Text(String),
    Silence,
}

/// A kubelet that serves logs; ends when it is dropped.
pub(crate) struct Kubelet {
    port: u16,
    logs: Logs,
    asked: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
}

impl Kubelet {
    /// Starts one with the certificates of an API server.
    pub(crate) async fn start(pki: &Path) -> Self {
        let certificate = CertificateDer::from_pem_file(pki.join("kubelet.crt")).unwrap();
        let key = PrivateKeyDer::from_pem_file(pki.join("kubelet.key")).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (logs, asked) = (Logs::default(), Arc::<Mutex<Vec<String>>>::default());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let server = tokio::spawn(serve(listener, acceptor, Arc::clone(&logs), Arc::clone(&asked)));
        Self { port, logs, asked, server }
    }

    /// Returns where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Says what the container of a pod wrote.
    pub(crate) fn wrote(&self, pod: &str, container: &str, text: &str) {
        self.says(pod, container, false, Said::Text(text.to_owned()));
    }

    /// Says what the container of a pod answers, in this life or the one before.
    pub(crate) fn says(&self, pod: &str, container: &str, before: bool, said: Said) {
        let key = (pod.to_owned(), container.to_owned(), before);
        self.logs.lock().unwrap().insert(key, said);
    }

    /// Returns what was asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    logs: Logs,
    asked: Arc<Mutex<Vec<String>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, logs, asked) = (acceptor.clone(), Arc::clone(&logs), Arc::clone(&asked));
        tokio::spawn(async move { drop(answer(stream, &acceptor, &logs, &asked).await) });
    }
}

async fn answer(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    logs: &Logs,
    asked: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = acceptor.accept(stream).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await? == 0 {
            return Ok(());
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().unwrap().push(target.clone());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let said = match parts.as_slice() {
        ["containerLogs", _, pod, container] => {
            let before = query.contains("previous=true");
            let key = ((*pod).to_owned(), (*container).to_owned(), before);
            logs.lock().unwrap().get(&key).cloned()
        }
        _ => None,
    };
    let (status, body) = match said {
        Some(Said::Silence) => {
            std::future::pending::<()>().await;
            return Ok(());
        }
        Some(Said::Text(text)) => ("200 OK", last_lines(&text, query)),
        None => ("404 Not Found", "no such container has a log here".to_owned()),
    };
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// Keeps the end of a log by lines and then its beginning by bytes, as a kubelet does.
fn last_lines(text: &str, query: &str) -> String {
    let number = |key: &str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))?;
        value.parse::<usize>().ok()
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let first = number("tailLines").map_or(0, |most| lines.len().saturating_sub(most));
    let kept = lines[first..].concat();
    match number("limitBytes") {
        Some(most) if most < kept.len() => kept[..most].to_owned(),
        _ => kept,
    }
}
