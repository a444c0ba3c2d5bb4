//! Webhooks over HTTP, and those that never arrived.

use std::sync::{Arc, Mutex};

use ostler::demo::github::{Options, SimGitHub, SimHookOwner};
use ostler::github::GitHub;
use ostler::github::webhook::{Request, Secrets, WebhookEvent, open};
use ostler::ports::HookRef;
use ostler_actors::model::{ForgeId, JobFact, Scope};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::github_support::{acme, adapter, app_of, removal, settings, start, token_of, web};

/// Takes deliveries, and answers as told.
#[derive(Clone)]
struct Receiver {
    url: String,
    taken: Arc<Mutex<Vec<(String, WebhookEvent)>>>,
    answer: Arc<Mutex<u16>>,
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/webhooks/github", listener.local_addr().unwrap());
        let receiver = Self { url, taken: Arc::default(), answer: Arc::new(Mutex::new(202)) };
        let server = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                server.clone().take(stream).await;
            }
        });
        receiver
    }

    async fn take(self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        let (head, body) = loop {
            stream.read_buf(&mut bytes).await.unwrap();
            let Some(at) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&bytes[..at]).to_lowercase();
            let length: usize = header(&head, "content-length").unwrap().parse().unwrap();
            if bytes.len() >= at + 4 + length {
                break (head, bytes[at + 4..].to_vec());
            }
        };
        let answer = *self.answer.lock().unwrap();
        let guid = header(&head, "x-github-delivery").unwrap();
        let request = Request {
            event: header(&head, "x-github-event"),
            delivery: Some(guid),
            signature: header(&head, "x-hub-signature-256"),
            body: &body,
        };
        let secrets = Secrets::new(&["hush".to_owned().into()]);
        let now = jiff::Timestamp::now();
        let news = open(&secrets, request, &ForgeId::new("github"), &[acme()], now);
        if answer < 300 {
            let taken = (guid.to_owned(), news.expect("signed with our secret"));
            self.taken.lock().unwrap().push(taken);
        }
        let reply = format!("HTTP/1.1 {answer} Whatever\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(reply.as_bytes()).await.unwrap();
    }

    fn taken(&self) -> Vec<(String, WebhookEvent)> {
        self.taken.lock().unwrap().clone()
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
}

/// Waits until every attempt has its answer, and returns how many attempts there were.
async fn settled(sim: &SimGitHub, hook: u64) -> usize {
    sim.until(|sim| sim.attempts(hook).iter().all(|attempt| attempt.status != 0)).await;
    sim.attempts(hook).len()
}

async fn scene() -> (SimGitHub, GitHub, Receiver) {
    let sim = start(Options::default());
    let mut both = settings(&sim, app_of(&sim));
    both.credentials.push(token_of(&sim));
    (sim, adapter(both), Receiver::start().await)
}

#[tokio::test]
async fn a_job_is_announced_signed_at_every_change_of_its_status() {
    let (sim, _, receiver) = scene().await;
    let hook = sim.add_hook(SimHookOwner::Scope(acme()), &receiver.url, "hush");
    let job = sim.hold(&web(), removal(&["linux"]));
    settled(&sim, hook).await;
    sim.release(job);
    settled(&sim, hook).await;
    sim.finish(job, "cancelled");
    settled(&sim, hook).await;
    let facts: Vec<u8> = receiver
        .taken()
        .into_iter()
        .map(|(_, news)| match news {
            WebhookEvent::Job(news) => news.notice.fact.rank(),
            other
            @ (WebhookEvent::Ping | WebhookEvent::Elsewhere(_) | WebhookEvent::Ignored(_)) => {
                panic!("{other:?}")
            }
        })
        .collect();
    assert_eq!(facts, [JobFact::Waiting.rank(), JobFact::Queued.rank(), 3]);
}

#[tokio::test]
async fn lost_deliveries_of_every_kind_of_hook_are_asked_for_once_and_arrive() {
    let (sim, github, receiver) = scene().await;
    let repository: Scope = "acme/web".parse().unwrap();
    let hooks = [
        (SimHookOwner::App, None),
        (SimHookOwner::Scope(acme()), Some(acme())),
        (SimHookOwner::Scope(repository.clone()), Some(repository)),
    ];
    let hooks = hooks.map(|(owner, scope)| (sim.add_hook(owner, &receiver.url, "hush"), scope));
    sim.queue(&web(), removal(&["linux"]));
    sim.lie(|lies| lies.lost_webhooks = 3);
    sim.queue(&web(), removal(&["linux"]));
    for (id, scope) in hooks {
        assert_eq!(settled(&sim, id).await, 2);
        let before = receiver.taken().len();
        let hook = scope.map_or(HookRef::Shared, |scope| HookRef::Scope { scope, id });
        let report = github.sweep_deliveries(&hook, None).await.unwrap();
        assert_eq!((report.read, report.asked_again.len(), report.left), (2, 1, 0), "{hook:?}");
        settled(&sim, id).await;
        assert_eq!(receiver.taken().len(), before + 1);
        let again = &receiver.taken()[before].0;
        assert_eq!(again.as_str(), report.asked_again[0].as_str(), "the GUID stays");
        let next = github.sweep_deliveries(&hook, Some(report.cursor)).await.unwrap();
        assert!(next.asked_again.is_empty(), "what arrived is not asked for again");
    }
}

#[tokio::test]
async fn a_delivery_that_keeps_failing_is_not_asked_for_at_every_sweep() {
    let (sim, github, receiver) = scene().await;
    let id = sim.add_hook(SimHookOwner::Scope(acme()), &receiver.url, "hush");
    let hook = HookRef::Scope { scope: acme(), id };
    *receiver.answer.lock().unwrap() = 500;
    sim.queue(&web(), removal(&["linux"]));
    settled(&sim, id).await;
    let first = github.sweep_deliveries(&hook, None).await.unwrap();
    assert_eq!(first.asked_again.len(), 1);
    settled(&sim, id).await;
    let second = github.sweep_deliveries(&hook, Some(first.cursor)).await.unwrap();
    assert_eq!((second.asked_again.len(), second.left), (0, 1));
    assert_eq!(sim.attempts(id).len(), 2);
}

#[tokio::test]
async fn a_long_log_is_read_to_its_end_by_cursor() {
    let (sim, github, receiver) = scene().await;
    let id = sim.add_hook(SimHookOwner::Scope(acme()), &receiver.url, "hush");
    sim.lie(|lies| lies.lost_webhooks = 1);
    for _ in 0..250 {
        sim.queue(&web(), removal(&["linux"]));
    }
    assert_eq!(settled(&sim, id).await, 250);
    let report =
        github.sweep_deliveries(&HookRef::Scope { scope: acme(), id }, None).await.unwrap();
    assert_eq!((report.read, report.asked_again.len()), (250, 1), "the oldest was the lost one");
}

#[tokio::test]
async fn a_sweep_that_cannot_read_the_log_says_so() {
    let (sim, github, receiver) = scene().await;
    let id = sim.add_hook(SimHookOwner::Scope(acme()), &receiver.url, "hush");
    sim.lie(|lies| lies.errors = 9);
    let failed = github.sweep_deliveries(&HookRef::Scope { scope: acme(), id }, None).await;
    assert!(failed.is_err_and(|why| why.contains("502")));
}

#[tokio::test]
async fn a_log_too_long_for_one_sweep_is_read_on_where_it_was_stopped() {
    let (sim, _, receiver) = scene().await;
    let github = adapter(settings(&sim, token_of(&sim)));
    let id = sim.add_hook(SimHookOwner::Scope(acme()), &receiver.url, "hush");
    let hook = HookRef::Scope { scope: acme(), id };
    sim.lie(|lies| lies.lost_webhooks = 1);
    for _ in 0..450 {
        sim.queue(&web(), removal(&["linux"]));
    }
    assert_eq!(settled(&sim, id).await, 450);
    // Two pages are shown, then GitHub is silent for a while.
    sim.lie(|lies| lies.errors_after = Some(2));
    let first = github.sweep_deliveries(&hook, None).await.unwrap();
    assert_eq!((first.read, first.asked_again.len(), first.cursor.is_whole()), (200, 0, false));
    // The place survives a restart as text.
    let place = first.cursor.to_string().parse().unwrap();
    let hours = |hours| std::time::Duration::from_hours(hours);
    sim.lie(|lies| (lies.errors_after, lies.clock_ahead) = (Some(4), hours(1)));
    let second = github.sweep_deliveries(&hook, Some(place)).await.unwrap();
    assert!(!second.cursor.is_whole() && second.asked_again.is_empty(), "{second:?}");
    sim.lie(|lies| (lies.errors_after, lies.clock_ahead) = (None, hours(2)));
    let third = github.sweep_deliveries(&hook, Some(second.cursor)).await.unwrap();
    assert_eq!((third.read, third.asked_again.len()), (50, 1), "the rest alone is read");
    assert!(third.cursor.is_whole());
    settled(&sim, id).await;
    assert_eq!(sim.attempts(id).iter().filter(|it| it.status == 202).count(), 450);
    let heard = github.figures().webhooks;
    assert_eq!((heard.logged, heard.missed), (450, 1), "each once, however often it was read");
}

#[tokio::test]
async fn missed_webhooks_and_their_lateness_are_measured() {
    let (sim, github, receiver) = scene().await;
    let id = sim.add_hook(SimHookOwner::Scope(acme()), &receiver.url, "hush");
    let hook = HookRef::Scope { scope: acme(), id };
    sim.lie(|lies| lies.lost_webhooks = 1);
    for _ in 0..4 {
        sim.queue(&web(), removal(&["linux"]));
    }
    settled(&sim, id).await;
    let report = github.sweep_deliveries(&hook, None).await.unwrap();
    github.sweep_deliveries(&hook, Some(report.cursor)).await.unwrap();
    settled(&sim, id).await;
    for (_, news) in receiver.taken() {
        if let WebhookEvent::Job(news) = news {
            github.record_event(*news);
        }
    }
    let heard = github.figures().webhooks;
    assert_eq!((heard.deliveries, heard.logged, heard.missed), (4, 4, 1), "{heard:?}");
    assert_eq!(heard.lateness.count, 4);
}
