//! What this machine can do at best, measured in the same run: every figure stands beside one.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(2);

/// Returns how often a second four KiB are appended and forced to the disk.
pub(crate) fn commits(folder: &Path) -> f64 {
    let mut file = File::create(folder.join("floor")).expect("our folder");
    let page = [7_u8; 4096];
    rate(|| {
        file.write_all(&page).expect("our file");
        file.sync_data().expect("our disk");
    })
}

/// Returns how many processes a second are started and waited for, one after another.
pub(crate) fn spawns() -> f64 {
    rate(|| {
        let mut command = Command::new("/bin/true");
        command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("a process");
    })
}

/// Returns how many questions a second are answered over one connection to another process.
pub(crate) fn round_trips(forge: &str) -> f64 {
    let mut stream = TcpStream::connect(forge).expect("the forge");
    stream.set_nodelay(true).expect("a socket");
    let question = format!("GET /_bench/ping HTTP/1.1\r\nHost: {forge}\r\n\r\n");
    let mut buffer = [0_u8; 1024];
    rate(|| {
        stream.write_all(question.as_bytes()).expect("the forge");
        let mut read = 0;
        while !buffer[..read].ends_with(b"\r\n\r\n") {
            let more = stream.read(&mut buffer[read..]).expect("the forge");
            assert!(more > 0, "the forge hung up");
            read += more;
        }
    })
}

/// Is a server that answers anything with the same bytes, for as long as the bench runs.
pub(crate) struct Bare(String);

impl Bare {
    /// Serves a body of so many bytes, a thread for each connection.
    pub(crate) fn serve(bytes: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("a port").to_string();
        let body = "x".repeat(bytes);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{body}");
        std::thread::spawn(move || {
            for visitor in listener.incoming().filter_map(Result::ok) {
                let answer = answer.clone();
                std::thread::spawn(move || serve(visitor, &answer));
            }
        });
        Self(address)
    }

    pub(crate) fn address(&self) -> &str {
        &self.0
    }
}

/// Answers every question of a visitor until he leaves.
fn serve(mut visitor: TcpStream, answer: &str) {
    let (mut buffer, mut read) = ([0_u8; 1024], 0);
    while let Ok(more @ 1..) = visitor.read(&mut buffer[read..]) {
        read += more;
        if buffer[..read].ends_with(b"\r\n\r\n") {
            read = 0;
            if visitor.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn rate(mut act: impl FnMut()) -> f64 {
    let (began, mut count) = (Instant::now(), 0_u32);
    while began.elapsed() < TIME {
        act();
        count += 1;
    }
    f64::from(count) / began.elapsed().as_secs_f64()
}
