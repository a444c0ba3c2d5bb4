//! The calls of the demo's runner: it has one thread and waits for each answer.

use std::io;
use std::time::Duration;

use http::Request;
use tokio::runtime::{Builder, Runtime};

use crate::client::{CallLimits, HttpClient};
use crate::errors::chain;

/// Longer than the server lets anyone wait.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// More than any job's description.
const MAX_ANSWER_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Calls the simulated GitHub as one runner.
pub(super) struct Caller {
    runtime: Runtime,
    client: HttpClient,
    host: String,
    bearer: String,
}

impl Caller {
    pub(super) fn new(host: &str, bearer: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let limits = CallLimits { timeout: CALL_TIMEOUT, body_bytes: MAX_ANSWER_BYTES };
        let client = HttpClient::plain(limits);
        Ok(Self { runtime, client, host: host.into(), bearer: format!("Bearer {bearer}") })
    }

    /// Posts a body as JSON.
    pub(super) fn post(&self, path: &str, body: &str) -> io::Result<Answer> {
        let request = Request::post(format!("http://{}{path}", self.host))
            .header("Authorization", &self.bearer)
            .header("Content-Type", "application/json")
            .body(body.as_bytes().to_vec())
            .map_err(io::Error::other)?;
        let answer = self.runtime.block_on(self.client.call(request));
        let answer = answer.map_err(|error| io::Error::other(chain(&error)))?;
        let body = String::from_utf8_lossy(answer.body()).into_owned();
        Ok(Answer { status: answer.status().as_u16(), body })
    }
}
