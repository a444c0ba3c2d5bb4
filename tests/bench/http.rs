//! The doors with ten thousand instances behind them, while a fleet works.
//!
//! A world of real actors runs in a thread of its own, in virtual time, as fast as it can: 10,000
//! instances in ten pools, jobs all the time. The doors are the real ones, on its board and a store
//! of their own. Asked over real sockets, kept open: the fleet, a page of a hundred instances, and
//! as the floor a handler that does nothing. Then a thousand followers of the events, one of whom
//! never reads. Everything shares this machine: the world alone keeps one core busy.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ostler::config::{Config, Outside, load};
use ostler::daemon::on_system;
use ostler::http::{AppState, Parts, serve};
use ostler::ports::{History as _, Stage, Status};
use ostler::store::{Options, SCHEMA, SqlStore};
use ostler_actors::mail::ActorRef;
use ostler_actors::model::{PoolSpec, Subject};
use ostler_actors::ports::{Clock, InstanceRows as _};
use ostler_actors::registry::Registry;
use ostler_actors::testing::contract::{event, instance, saved};
use ostler_actors::testing::{Plan, Workload, World, in_virtual_time, pool, start_fleet};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const ALL: usize = 10_000;
const POOLS: usize = 10;
const ASKERS: usize = 4;
const READERS: usize = 1_000;
const EVENTS: u32 = 2_000;

struct Real;

impl Clock for Real {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

fn main() {
    let stop = Arc::new(AtomicBool::new(false));
    let (show, shown) = std::sync::mpsc::channel();
    let world = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || in_virtual_time(churn(&show, &stop)))
    };
    let registry = shown.recv().expect("a board");
    println!("http: {} instances in {POOLS} pools under churn", registry.len());
    on_system(measure(registry)).expect("threads");
    stop.store(true, Ordering::Relaxed);
    world.join().expect("the world ends");
}

/// Runs the world as fast as it goes.
async fn churn(show: &std::sync::mpsc::Sender<Arc<Registry>>, stop: &AtomicBool) {
    let each = u32::try_from(ALL / POOLS).unwrap_or(u32::MAX);
    let spec =
        |index| PoolSpec { min_idle: each, ..pool(&format!("p{index}"), "witness", each * 2) };
    let mut plan = Plan::quiet((0..POOLS).map(spec).collect());
    plan.workload = Workload { left: u32::MAX, gap: 100 };
    let mut world = World::new(plan, start_fleet);
    world.crash(Duration::from_secs(1));
    for index in 0..POOLS {
        world.plant_idle(index, each);
    }
    world.run_for(Duration::from_millis(999)).await;
    while world.registry().map_or(0, |registry| registry.len()) < ALL {
        world.run_for(Duration::from_millis(1)).await;
    }
    world.run_for(Duration::from_mins(1)).await;
    show.send(Arc::clone(world.registry().expect("it lives"))).expect("the reader is there");
    let (began, from) = (Instant::now(), world.now());
    while !stop.load(Ordering::Relaxed) {
        world.run_for(Duration::from_millis(100)).await;
    }
    let virtually = Duration::from_millis(world.now() - from);
    println!("  the world lived {virtually:.0?} in {:.0?}", began.elapsed());
}

async fn measure(registry: Arc<Registry>) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let config = Arc::new(config(folder.path()));
    let url = format!("sqlite://{}/bench.db", folder.path().display());
    let store = SqlStore::open(&url, Options::default()).await.expect("a store");
    let status = Arc::<Status>::default();
    status.enter(Stage::Leading);
    let app_state = AppState::new(Parts {
        inbox: Arc::new(store.clone()),
        records: Arc::new(store.clone()),
        history: Arc::new(store.clone()),
        saves: store.health(),
        schema: SCHEMA,
        fleet: ActorRef::default(),
        registry,
        status,
        clock: Arc::new(Real),
        config: Arc::clone(&config),
        controller: "bench".into(),
        metrics: Arc::default(),
    });
    let following = app_state.follow(Vec::new(), std::future::pending());
    let server = serve(&config.http, &app_state).expect("a server");
    let address = server.address();
    for (what, path, goal) in [
        ("floor: a bare handler", "/healthz", None),
        ("GET /api/v1/fleet", "/api/v1/fleet", Some(5)),
        ("GET /instances, 100 of them", "/api/v1/instances?limit=100", Some(10)),
        ("GET /metrics", "/metrics", None),
    ] {
        let times = tokio::task::spawn_blocking(move || ask(address, path)).await.expect("askers");
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        let goal = goal.map(|ms: u32| format!("(goal p99 {ms} ms)")).unwrap_or_default();
        println!("  {what:<30} p50 {:>9.2?}  p99 {:>9.2?}  {goal}", at(50), at(99));
    }
    stream(&store, address).await;
    app_state.end_readings();
    drop(following);
    server.stop(Duration::from_secs(5)).await;
}

fn config(folder: &std::path::Path) -> Config {
    let pool = |index| {
        format!(
            "[[pool]]\nname = \"p{index}\"\nforge = \"github\"\nscope = \"acme\"\nprovider = \"local\"\n\
             labels = [\"p{index}\"]\nmax = 2000\n"
        )
    };
    let pools: String = (0..POOLS).map(pool).collect();
    let text = format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[forge.github]\nkind = \"github\"\ntoken = {{ env = \"NONE\" }}\n\
         [provider.local]\nkind = \"process\"\ncommand = [\"true\"]\nwork_dir = \"m\"\n{pools}"
    );
    let file = folder.join("ostler.toml");
    std::fs::write(&file, text).expect("our folder");
    load(&file, &Outside::text_only()).expect("a configuration").config
}

/// Asks again and again over a few open connections; returns how long each answer took, sorted.
fn ask(address: SocketAddr, path: &str) -> Vec<Duration> {
    let length = Duration::from_secs(5);
    let one = || {
        let mut stream = BufReader::new(TcpStream::connect(address).expect("it listens"));
        stream.get_ref().set_nodelay(true).expect("an option");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let (began, mut times) = (Instant::now(), Vec::new());
        while began.elapsed() < length {
            let asked = Instant::now();
            stream.get_mut().write_all(request.as_bytes()).expect("a request");
            read_answer(&mut stream);
            times.push(asked.elapsed());
            // Four people who look twenty times a second, not a flood.
            std::thread::sleep(Duration::from_millis(10));
        }
        times
    };
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..ASKERS).map(|_| scope.spawn(one)).collect();
        askers.into_iter().flat_map(|asker| asker.join().expect("an asker")).collect()
    });
    times.sort();
    times
}

fn read_answer(stream: &mut BufReader<TcpStream>) {
    let (mut line, mut length) = (String::new(), 0);
    stream.read_line(&mut line).expect("an answer");
    assert!(line.contains(" 200 "), "{line}");
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).expect("a head");
        if let Some(size) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = size.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
}

/// Holds a thousand followers, one of whom never reads, and tells them of events.
async fn stream(store: &SqlStore, address: SocketAddr) {
    let request = format!("GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let mut stalled = tokio::net::TcpStream::connect(address).await.expect("it listens");
    stalled.write_all(request.as_bytes()).await.expect("a request");
    let leadership = store.take_lease(Duration::from_mins(5)).await.expect("a lease");
    let before = store.last_event().await.expect("a place");
    let last = before + i64::from(EVENTS);
    let (mut readers, mut greetings) = (Vec::new(), Vec::new());
    for _ in 1..READERS {
        let mut reader = tokio::net::TcpStream::connect(address).await.expect("it listens");
        reader.write_all(request.as_bytes()).await.expect("a request");
        let (greeted, is_there) = tokio::sync::oneshot::channel();
        greetings.push(is_there);
        readers.push(tokio::spawn(follow(reader, format!("id: {last}\n"), greeted)));
    }
    stalled.readable().await.expect("its greeting waits there");
    for greeting in greetings {
        greeting.await.expect("a follower is there");
    }
    let mut row = instance("followed");
    for place in 0..EVENTS {
        let mut save = saved(&row, leadership.epoch());
        save.events = vec![event(&Subject::Instance(row.id.clone()), place, 1)];
        store.save(save).await.expect("a save");
        row.version = row.version.next();
        row.write.0 += 1;
    }
    let saved = Instant::now();
    let (mut events, mut lagged) = (Vec::new(), 0);
    for reader in readers {
        let (heard, missed) = reader.await.expect("a reader");
        events.push(heard);
        lagged += missed;
    }
    let took = saved.elapsed();
    let fewest = events.iter().min().copied().unwrap_or_default();
    println!(
        "  {READERS} followers, one stalled: {EVENTS} events, the others heard at least {fewest} each, \
         were told of lag {lagged} times, and had the last one {took:.2?} after it was saved"
    );
    assert_eq!(fewest, EVENTS as usize, "a follower missed something");
    drop(stalled);
}

/// Reads until a line, and tells when it was greeted; returns how many events were heard, and how
/// often lag was told.
async fn follow(
    mut stream: tokio::net::TcpStream,
    until: String,
    greeted: tokio::sync::oneshot::Sender<()>,
) -> (usize, usize) {
    let mut greeted = Some(greeted);
    let (mut buffer, mut text) = (vec![0; 64 << 10], String::new());
    let (mut events, mut lagged, mut over) = (0, 0, false);
    while !over {
        let size = tokio::time::timeout(Duration::from_mins(1), stream.read(&mut buffer)).await;
        let size = size.expect("in time").expect("bytes");
        assert!(size > 0, "the server hung up");
        text.push_str(&String::from_utf8_lossy(&buffer[..size]));
        while let Some(end) = text.find('\n') {
            let line: String = text.drain(..=end).collect();
            if line == "event: fleet\n"
                && let Some(greeted) = greeted.take()
            {
                greeted.send(()).expect("the bench waits");
            }
            events += usize::from(line.starts_with("id: "));
            lagged += usize::from(line == "event: lagged\n");
            over |= line == until;
        }
    }
    (events, lagged)
}
