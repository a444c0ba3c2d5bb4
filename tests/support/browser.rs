//! A real browser for tests: Chromium without a window, driven over the `WebDriver` protocol.
//!
//! The client is as much of it as the tests need, over plain HTTP. Each browser has a driver,
//! a profile and a session of its own, and all of it goes when the test ends. Where the programs are
//! missing, [`Browser::start`] says so and the test is skipped.

#![expect(clippy::panic, reason = "helpers of tests may stop at the first surprise, as tests may")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use super::{HANG_LIMIT, skip};

/// How often a condition is looked at.
const PAGE_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long one command of the driver may take.
const COMMAND: Duration = Duration::from_mins(2);
/// Where the driver may be, by distribution.
const DRIVERS: [&str; 3] = [
    "/usr/bin/chromedriver",
    "/usr/lib/chromium/chromedriver",
    "/usr/lib/chromium-browser/chromedriver",
];
/// Where the browser may be.
const BROWSERS: [&str; 3] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// Says which colours the reader's machine prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Light,
    Dark,
}

/// Is a browser with one page.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    profile: TempDir,
}

impl Browser {
    /// Starts a browser; nothing where there is none, which is said.
    pub(crate) fn start() -> Option<Self> {
        let there =
            |paths: &[&'static str]| paths.iter().find(|path| Path::new(path).exists()).copied();
        let (Some(driver), Some(browser)) = (there(&DRIVERS), there(&BROWSERS)) else {
            skip::say("no Chromium and its driver (apt-get install chromium chromium-driver)");
            return None;
        };
        let profile =
            tempfile::Builder::new().prefix("ostler-browser-").tempdir().expect("a folder");
        let mut child = Command::new(driver);
        child.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // The browser is a child of the driver: both go together.
        std::os::unix::process::CommandExt::process_group(&mut child, 0);
        let mut child = child.spawn().expect("the driver starts");
        let port = port_of(&mut child);
        let mut it = Self { driver: child, port, session: String::new(), profile };
        it.begin(browser);
        Some(it)
    }

    fn begin(&mut self, browser: &str) {
        let profile = format!("--user-data-dir={}", self.profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--lang=en-US",
            &profile,
        ];
        let removal = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "binary": browser, "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let answer = self.send("POST", "/session", &removal);
        let id = answer["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {answer}"));
        self.session = format!("/session/{id}");
        self.size(1280, 900);
    }

    pub(crate) fn open(&self, address: &str) {
        self.command("POST", "/url", &json!({ "url": address }));
    }

    /// Returns where the page is.
    pub(crate) fn address(&self) -> String {
        self.run("return location.href").as_str().unwrap_or_default().to_owned()
    }

    /// Runs a function's body in the page.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.run_with(script, &[])
    }

    /// Runs a function's body with `arguments` in the page.
    pub(crate) fn run_with(&self, script: &str, arguments: &[Value]) -> Value {
        self.command("POST", "/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// Speaks to the browser itself.
    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.command("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Gives the page so much room.
    pub(crate) fn size(&self, width: u32, height: u32) {
        let room =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &room);
    }

    /// Prefers light or dark.
    pub(crate) fn prefer(&self, scheme: Scheme) {
        let value = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
        self.devtools("Emulation.setEmulatedMedia", &media);
    }

    /// Returns the visible text of the page.
    pub(crate) fn text(&self) -> String {
        self.run("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a condition, the body of a function in the page, holds.
    pub(crate) async fn until(&self, what: &str, condition: &str) {
        let deadline = Instant::now() + HANG_LIMIT;
        while self.run(condition) != json!(true) {
            assert!(
                Instant::now() < deadline,
                "waited in vain until {what}; the page says:\n{}\n{:#?}",
                self.text(),
                self.console()
            );
            tokio::time::sleep(PAGE_POLL_INTERVAL).await;
        }
    }

    /// Waits until the page shows a text.
    pub(crate) async fn until_shown(&self, text: &str) {
        let condition = format!("return document.body.innerText.includes({})", json!(text));
        self.until(&format!("`{text}` is shown"), &condition).await;
    }

    /// Clicks what a selector finds, as a person would: it must be there, visible and on top.
    pub(crate) fn click(&self, selector: &str) {
        let found = self.find(selector);
        self.command("POST", &format!("/element/{found}/click"), &json!({}));
    }

    /// Types into what a selector finds.
    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        let found = self.find(selector);
        self.command("POST", &format!("/element/{found}/clear"), &json!({}));
        self.command("POST", &format!("/element/{found}/value"), &json!({ "text": text }));
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub(crate) fn press(&self, keys: &[&str]) {
        let actions: Vec<Value> = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })))
            .collect();
        let keyboard =
            json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] });
        self.command("POST", "/actions", &keyboard);
    }

    fn find(&self, selector: &str) -> String {
        let by = json!({ "using": "css selector", "value": selector });
        let found = self.command("POST", "/element", &by);
        let id = found.as_object().and_then(|ids| ids.values().next()).and_then(Value::as_str);
        id.unwrap_or_else(|| panic!("nothing is `{selector}`")).to_owned()
    }

    /// Returns what the page complained about since the last call: warnings and errors.
    pub(crate) fn console(&self) -> Vec<String> {
        let log = self.command("POST", "/se/log", &json!({ "type": "browser" }));
        let bad = |line: &&Value| matches!(line["level"].as_str(), Some("SEVERE" | "WARNING"));
        let lines = log.as_array().into_iter().flatten().filter(bad);
        lines.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Fails if the page complained about anything.
    pub(crate) fn must_be_quiet(&self) {
        let lines = self.console();
        assert!(lines.is_empty(), "the console says: {lines:#?}");
    }

    /// Keeps a picture of the whole page in `target/screenshots`.
    pub(crate) fn picture(&self, name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots");
        fs::create_dir_all(&folder).expect("our folder");
        let all = json!({ "format": "png", "captureBeyondViewport": true });
        let data = self.devtools("Page.captureScreenshot", &all);
        let data = data["data"].as_str().expect("a picture");
        let png = base64::engine::general_purpose::STANDARD.decode(data).expect("a picture");
        let path = folder.join(format!("{name}.png"));
        fs::write(&path, png).expect("our folder");
        path
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        self.send(method, &format!("{}{path}", self.session), body)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.exchange(method, path, body).expect("the driver answers");
        let value = answer["value"].clone();
        assert_eq!(status, 200, "{method} {path} {body}: {value:#}");
        value
    }

    fn exchange(&self, method: &str, path: &str, body: &Value) -> std::io::Result<(u16, Value)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(COMMAND))?;
        let body = if method == "POST" { body.to_string() } else { String::new() };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
        let mut length = 0;
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or_default();
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
        Ok((status, serde_json::from_slice(&answer)?))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the page at the end is in {}", self.last_picture());
        }
        // A session that is ended takes its browser along; what hangs is killed with its driver.
        drop(self.exchange("DELETE", &self.session, &Value::Null));
        if let Some(group) = i32::try_from(self.driver.id()).ok().and_then(Pid::from_raw) {
            let _gone = kill_process_group(group, Signal::KILL);
        }
        drop(self.driver.wait());
    }
}

impl Browser {
    fn last_picture(&self) -> String {
        let data = json!({ "cmd": "Page.captureScreenshot", "params": {} });
        let path = format!("{}/goog/cdp/execute", self.session);
        let Ok((_, answer)) = self.exchange("POST", &path, &data) else { return "no file".into() };
        let png = answer["value"]["data"].as_str().unwrap_or_default();
        let png = base64::engine::general_purpose::STANDARD.decode(png).unwrap_or_default();
        let name = self.profile.path().with_extension("png");
        let name = name.file_name().unwrap_or_default();
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&place, png).map_or_else(|_| "no file".into(), |()| place.display().to_string())
    }
}

/// Returns the port that the driver says it listens on.
fn port_of(driver: &mut Child) -> u16 {
    let mut said = BufReader::new(driver.stdout.take().expect("a pipe"));
    let mut line = String::new();
    loop {
        line.clear();
        assert_ne!(
            said.read_line(&mut line).expect("a pipe"),
            0,
            "the driver ended before it began"
        );
        if let Some((_, rest)) = line.split_once("started successfully on port ") {
            return rest.trim().trim_end_matches('.').parse().expect("a port");
        }
    }
}
