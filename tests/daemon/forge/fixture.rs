//! A simulated GitHub, a configuration for it, and a door that answers webhooks as told.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use ostler::demo::github::{Options, SimGitHub};
use tempfile::TempDir;

/// Answers every request with the status it is told to.
pub(super) struct HookTarget {
    pub(super) url: String,
    pub(super) answer: Arc<AtomicU16>,
}

impl HookTarget {
    pub(super) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let answer = Arc::new(AtomicU16::new(202));
        let told = Arc::clone(&answer);
        // Ends with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                reply(stream.expect("a connection"), told.load(Ordering::Relaxed));
            }
        });
        Self { url, answer }
    }
}

fn reply(mut stream: TcpStream, status: u16) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|it| it.trim().parse().ok()).unwrap_or(usize::MAX);
        let head = text.find("\r\n\r\n").map_or(usize::MAX, |at| at + 4);
        if bytes.len() >= head.saturating_add(length) {
            break;
        }
        match stream.read(&mut chunk) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&chunk[..read]),
            Ok(_) | Err(_) => return,
        }
    }
    drop(write!(
        stream,
        "HTTP/1.1 {status} Told\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ));
}

/// Holds a simulated GitHub and a configuration that points at it and at the door.
pub(super) struct ForgeFixture {
    pub(super) sim: SimGitHub,
    pub(super) hook_target: HookTarget,
    folder: TempDir,
}

impl ForgeFixture {
    /// Makes one whose forge is asked with a token.
    pub(super) fn with_token() -> Self {
        Self::with(|_| "token = { file = \"token\" }".to_owned())
    }

    /// Makes one whose forge is asked as an App.
    pub(super) fn with_app() -> Self {
        Self::with(|sim| {
            let id = sim.app().0;
            format!("app = {{ client_id = \"{id}\", private_key = {{ file = \"app.pem\" }} }}")
        })
    }

    fn with(credential: impl FnOnce(&SimGitHub) -> String) -> Self {
        let sim = SimGitHub::start(Options::default()).expect("a port on loopback");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let fixture = Self { hook_target: HookTarget::open(), folder, sim };
        fixture.write("token", &fixture.sim.token());
        fixture.write("app.pem", &fixture.sim.app().1);
        fixture.write("hook.secret", "hush-hush-hush-hush");
        fixture.configure(&credential(&fixture.sim), "scope = \"acme\"");
        fixture
    }

    /// Writes the configuration, with these lines for the forge and for the pool.
    pub(super) fn configure(&self, forge: &str, pool: &str) {
        let folder = self.folder.path().display();
        let (api_url, public) = (self.sim.api_url(), &self.hook_target.url);
        let text = format!(
            r#"
[daemon]
state_dir = "{folder}/state"
[http]
listen = "127.0.0.1:0"
public_url = "{public}"
[forge.github]
kind = "github"
api_url = "{api_url}"
webhook_secret = {{ file = "hook.secret" }}
{forge}
[provider.local]
kind = "process"
command = ["/bin/true", "{{jit_file}}"]
work_dir = "{folder}/machines"
[[pool]]
name = "linux"
forge = "github"
provider = "local"
labels = ["linux"]
max = 1
{pool}
"#
        );
        self.write("ostler.toml", &text);
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("the file can be written");
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, own).expect("it is ours");
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).expect("the file is there")
    }

    /// Runs the program on this configuration.
    pub(super) fn run(&self, words: &[&str]) -> Said {
        let output = Command::new(env!("CARGO_BIN_EXE_ostler"))
            .args(words)
            .arg("--config")
            .arg(self.folder.path().join("ostler.toml"))
            .output()
            .expect("ostler starts");
        Said::of(&output)
    }
}

/// Holds what a command said.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

impl Said {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
