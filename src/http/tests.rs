//! The servers as an unknown client meets them: real sockets, heads without bodies.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use ostler_actors::mail::ActorRef;
use ostler_actors::model::{ForgeId, Scope};
use ostler_actors::ports::{Chance, Clock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::config::{Config, Outside, load};
use crate::github::{Credential, GitHub, Settings};
use crate::ports::{ForgeAdapter as _, ForgeServices};
use crate::store::{Options, SqlStore};

struct Epoch;

impl Clock for Epoch {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

impl Chance for Epoch {
    fn bits(&self) -> u64 {
        4
    }
}

/// Holds a server and what it needs to live.
struct Stage {
    app_state: AppState,
    config: Arc<Config>,
    server: Server,
    _folder: tempfile::TempDir,
}

async fn stage() -> Stage {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite://{}", folder.path().join("ostler.db").display());
    let store = SqlStore::open(&url, Options::default()).await.expect("a store");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/process.toml");
    let mut config = load(&path, &Outside::text_only()).expect("a configuration").config;
    config.http.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    config.http.public_listen = None;
    let clock = Arc::new(Epoch) as Arc<dyn Clock>;
    let config = Arc::new(config);
    let app_state = AppState::new(Parts {
        inbox: Arc::new(store.clone()),
        records: Arc::new(store.clone()),
        history: Arc::new(store.clone()),
        saves: store.health(),
        schema: 0,
        fleet: ActorRef::default(),
        registry: Arc::default(),
        status: Arc::default(),
        clock,
        config: Arc::clone(&config),
        controller: "us".into(),
        metrics: Arc::default(),
    });
    let server = serve(&config.http, &app_state).expect("a server");
    Stage { app_state, config, server, _folder: folder }
}

/// Returns the one forge of the configuration.
fn forges(config: &Config) -> BTreeMap<ForgeId, ForgeServices> {
    let id = ForgeId::new(config.forges.keys().next().expect("a forge").as_str());
    let settings = Settings {
        credentials: vec![Credential::token("a-token".into())],
        ..Settings::of(id.clone(), "http://127.0.0.1:1")
    };
    let github = GitHub::new(settings, Arc::new(Epoch), Arc::new(Epoch)).expect("a forge");
    BTreeMap::from([(id, github.services())])
}

/// Sends a head that announces a body, no body, and returns the line of the answer.
async fn knock(stage: &Stage, forge: &str, length: u64) -> String {
    let mut stream = TcpStream::connect(stage.server.address()).await.expect("a connection");
    let head = format!(
        "POST /webhooks/{forge} HTTP/1.1\r\nHost: here\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("a head");
    let mut answer = vec![0; 4096];
    let size = stream.read(&mut answer).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..size]).into_owned();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[actix_web::test]
async fn a_body_that_will_not_be_taken_is_not_waited_for() {
    let stage = stage().await;
    let forges = forges(&stage.config);
    let name = forges.keys().next().expect("a forge").to_string();
    let answer = knock(&stage, &name, 100).await;
    assert!(answer.contains(" 503 "), "before anything is open: {answer}");
    stage.app_state.open(&stage.config, forges, &[]);
    let answer = knock(&stage, "unknown", 100).await;
    assert!(answer.contains(" 404 "), "{answer}");
    let answer = knock(&stage, &name, 100).await;
    assert!(answer.contains(" 401 "), "unsigned: {answer}");
    let answer = knock(&stage, &name, 26 << 20).await;
    assert!(answer.contains(" 413 "), "too large: {answer}");
    stage.app_state.shut();
    let answer = knock(&stage, &name, 100).await;
    assert!(answer.contains(" 503 "), "the sender shall keep it: {answer}");
}

#[actix_web::test]
async fn a_machine_is_sent_away_with_its_connection_by_a_daemon_that_does_not_lead() {
    let stage = stage().await;
    let ask = async || {
        let mut stream = TcpStream::connect(stage.server.address()).await.expect("a connection");
        let head = "POST /runner/v1/report HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(head.as_bytes()).await.expect("a head");
        let mut answer = vec![0; 4096];
        let size = stream.read(&mut answer).await.expect("an answer");
        String::from_utf8_lossy(&answer[..size]).to_lowercase()
    };
    stage.app_state.status.enter(crate::ports::Stage::Standby);
    let answer = ask().await;
    assert!(answer.contains(" 503 ") && answer.contains("connection: close"), "{answer}");
    stage.app_state.status.enter(crate::ports::Stage::Leading);
    let answer = ask().await;
    assert!(answer.contains(" 401 ") && !answer.contains("connection: close"), "{answer}");
}

#[actix_web::test]
async fn scopes_with_runners_left_are_listened_to_beside_those_of_pools() {
    let stage = stage().await;
    let forges = forges(&stage.config);
    let id = forges.keys().next().expect("a forge").clone();
    let left = Scope::Organization("left".into());
    let elsewhere = (ForgeId::new("another"), Scope::Organization("other".into()));
    stage.app_state.open(&stage.config, forges, &[(id.clone(), left.clone()), elsewhere]);
    let app_state::WebhookSource::Known(target) = stage.app_state.webhook_source(id.as_str())
    else {
        panic!("the forge is known");
    };
    let pools = stage.config.pools.iter().map(|pool| pool.scope.clone());
    let expected: Vec<Scope> = pools.chain([left]).collect();
    assert_eq!(target.scopes, expected);
}
