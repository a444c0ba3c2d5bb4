//! Asking the daemon for work: what a warm machine does until there is a job for it.
//!
//! It asks with the token of its machine, again and again, and ends as soon as there is a JIT
//! config. Told to leave, it waits to be removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Request};
use ostler_actors::backoff::doubled;
use ostler_actors::ports::Jit;
use serde::Deserialize;

use crate::client::{CallError, CallLimits, HttpClient, TransportOptions};
use crate::errors::chain;

/// How long one question may take; the daemon answers within 50 s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);
/// The pause after a question that brought nothing, and its longest after failures.
const RETRY_DELAY: Duration = Duration::from_millis(500);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(15);
/// How often an acknowledgement is sent, and how long each may take: the runner waits meanwhile.
const ACKNOWLEDGE_TRIES: u32 = 2;
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a refusal is taken for a misunderstanding.
const MISUNDERSTANDINGS: u32 = 5;
/// How long one who was told to leave waits to be removed.
const FORGOTTEN: Duration = Duration::from_mins(15);
/// How large an answer may be.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Says whom to ask, and as whom.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The daemon's public address.
    pub server: String,
    /// The instance this machine was made for.
    pub instance: String,
    /// The file with the machine's token; it may be written anew now and then.
    pub token_file: PathBuf,
    /// Certificates to trust beside the machine's own.
    pub ca: Option<PathBuf>,
}

/// Tells why there is no work, and never will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoWork {
    /// Refused for good, or the daemon cannot be asked.
    Refused,
    /// Told to leave, and the machine was not removed.
    Forgotten,
}

/// What is said to the daemon.
#[derive(Clone, Copy)]
enum Message {
    /// Asks for work, which will be acknowledged.
    Question,
    Acknowledged,
}

impl Message {
    fn key(self) -> &'static str {
        match self {
            Self::Question => "acknowledges",
            Self::Acknowledged => "acknowledged",
        }
    }
}

/// What the daemon said.
enum Said {
    Work(Jit),
    Nothing,
    Leave,
    Refused(String),
    Later(String),
}

/// Asks until there is an answer that ends it; says on the way how it goes.
pub async fn ask_for_work(asking: &Asking, say: &mut impl FnMut(&str)) -> Result<Jit, NoWork> {
    let http = match connect(asking.ca.as_deref()) {
        Ok(http) => http,
        Err(why) => {
            say(&format!("cannot ask for work: {why}"));
            return Err(NoWork::Refused);
        }
    };
    let (mut refusals, mut failures, mut leaving) = (0, 0, Duration::ZERO);
    say(&format!("asking {} for work as `{}`", asking.server, asking.instance));
    loop {
        let said = ask(&http, asking).await;
        refusals = if matches!(said, Said::Refused(_)) { refusals + 1 } else { 0 };
        failures = if matches!(said, Said::Later(_)) { failures + 1 } else { 0 };
        match said {
            Said::Work(jit) => return Ok(jit),
            Said::Nothing => tokio::time::sleep(RETRY_DELAY).await,
            Said::Leave => {
                if leaving.is_zero() {
                    say("told to leave; waiting to be removed");
                }
                if leaving >= FORGOTTEN {
                    return Err(NoWork::Forgotten);
                }
                leaving += MAX_RETRY_DELAY;
                tokio::time::sleep(MAX_RETRY_DELAY).await;
            }
            Said::Refused(why) => {
                say(&format!("refused: {why}"));
                if refusals >= MISUNDERSTANDINGS {
                    return Err(NoWork::Refused);
                }
                tokio::time::sleep(retry_delay(refusals)).await;
            }
            Said::Later(why) => {
                say(&format!("no answer: {why}"));
                tokio::time::sleep(retry_delay(failures)).await;
            }
        }
    }
}

/// Says that what was handed out is safe here. A daemon that does not hear it asks the forge at once
/// whether the job still waits, so it is said a few times; nothing depends on it.
pub async fn acknowledge(asking: &Asking, say: &mut impl FnMut(&str)) {
    let Ok(http) = connect(asking.ca.as_deref()) else { return };
    for times in 1..=ACKNOWLEDGE_TRIES {
        match tokio::time::timeout(ACKNOWLEDGE_TIMEOUT, send(&http, asking, Message::Acknowledged))
            .await
        {
            Ok(Said::Later(why)) => say(&format!("cannot acknowledge the work: {why}")),
            Ok(_) => return,
            Err(_) => say("cannot acknowledge the work: no answer"),
        }
        tokio::time::sleep(retry_delay(times)).await;
    }
}

fn retry_delay(times: u32) -> Duration {
    doubled(RETRY_DELAY, MAX_RETRY_DELAY, times)
}

async fn ask(http: &HttpClient, asking: &Asking) -> Said {
    send(http, asking, Message::Question).await
}

async fn send(http: &HttpClient, asking: &Asking, message: Message) -> Said {
    let token = match fs::read_to_string(&asking.token_file) {
        Ok(token) => token,
        Err(error) => {
            return Said::Later(format!("no token in `{}`: {error}", asking.token_file.display()));
        }
    };
    let Ok(mut bearer) = HeaderValue::from_str(&format!("Bearer {}", token.trim())) else {
        return Said::Later("the token cannot be sent: it holds strange characters".into());
    };
    bearer.set_sensitive(true);
    let mut body = serde_json::json!({ "instance": asking.instance });
    body[message.key()] = true.into();
    let body = body.to_string();
    let request = Request::post(format!("{}/runner/v1/dispatch", asking.server))
        .header(AUTHORIZATION, bearer)
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("ostler-asker/", env!("CARGO_PKG_VERSION")))
        .body(body.into_bytes());
    let request = match request {
        Ok(request) => request,
        Err(error) => return Said::Later(error.to_string()),
    };
    match http.call(request).await {
        Ok(answer) => understand(answer.status().as_u16(), answer.body()),
        Err(CallError::Late(after)) => Said::Later(format!("nothing in {} s", after.as_secs())),
        Err(error) => Said::Later(chain(&error)),
    }
}

/// The one answer that holds something.
#[derive(Deserialize)]
struct Work {
    jit_config: String,
}

fn understand(status: u16, body: &[u8]) -> Said {
    match status {
        200 => match serde_json::from_slice::<Work>(body) {
            Ok(work) => Said::Work(Jit::new(work.jit_config)),
            // Not the error's own words: they may quote the answer.
            Err(_) => Said::Later("an answer that cannot be read".into()),
        },
        202 | 204 => Said::Nothing,
        410 => Said::Leave,
        401 | 403 => Said::Refused(detail(status, body)),
        _ => Said::Later(detail(status, body)),
    }
}

fn detail(status: u16, body: &[u8]) -> String {
    let problem: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let words = problem["detail"].as_str().unwrap_or("no reason given");
    format!("{words} ({status})")
}

fn connect(ca: Option<&Path>) -> Result<HttpClient, String> {
    let bad = |path: &Path, why: String| format!("`{}`: {why}", path.display());
    let pem = ca.map(|path| fs::read(path).map_err(|error| bad(path, error.to_string())));
    let pem = pem.transpose()?;
    let options = TransportOptions { ca_pem: pem.as_deref(), proxy: None };
    let limits = CallLimits { timeout: REQUEST_TIMEOUT, body_bytes: MAX_ANSWER_BYTES };
    HttpClient::new(&options, limits)
        .map_err(|error| bad(ca.unwrap_or(Path::new("(none)")), error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_of_the_daemon_is_understood() {
        assert!(
            matches!(understand(200, br#"{"jit_config":"j"}"#), Said::Work(jit) if jit.reveal() == "j")
        );
        assert!(matches!(understand(200, b"s3cret"), Said::Later(why) if !why.contains("s3cret")));
        assert!(matches!(understand(204, b""), Said::Nothing));
        assert!(matches!(understand(410, b""), Said::Leave));
        assert!(
            matches!(understand(401, br#"{"detail":"old"}"#), Said::Refused(why) if why == "old (401)")
        );
        assert!(matches!(understand(503, b""), Said::Later(_)));
    }
}
