//! `POST /runner/v1/report`: the supervisor of a machine says what happens there.
//!
//! | field | means |
//! |---|---|
//! | `event` | `heartbeat` (or nothing), `agent_started`, `job_started`, `job_completed`, `agent_exited` |
//! | `worker` | whether a process of a job lives there; nothing where it cannot tell |
//! | `challenge` | that of the last answer, with a look that began after it came |
//! | `exit_code`, `log_tail` | with `agent_exited`; the end of the log in base64 |
//!
//! The answer is `{"interval": seconds}` until the next report is due, with a `challenge` where a look
//! is wanted that begins now. The supervisor proves itself with the token of `POST /runner/v1/token`,
//! for which it exchanges the one that came with its machine, before it starts the agent. The exchange
//! can be repeated until the first report, in case its answer is lost; after that the first token opens
//! nothing.
//!
//! | answer | means |
//! |---|---|
//! | 200 | taken |
//! | 400 | no report |
//! | 401 | the token proves nothing, or nothing any more: do not ask again |
//! | 503 | cannot tell now, ask again |

use std::time::Duration;

use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse, web};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_actors::fleet::ToFleet;
use ostler_actors::instance::{NextReport, ReportEvent, WitnessReport};
use ostler_actors::model::{Instance, Refusal, State, Worker};
use serde::Deserialize;
use serde_json::json;

use super::bearer::{Caller, OWNER_TIMEOUT, failure, later, row_of, token, unheard};
use super::both;
use crate::http::AppState;

/// How large a report may be: the end of a log in base64, and a little.
const MAX_REPORT_BYTES: usize = 128 << 10;
/// How long its body may take.
const SLOW_BODY: Duration = Duration::from_secs(20);

/// Says where supervisors report.
pub(super) fn routes(app: &mut web::ServiceConfig) {
    app.service(web::resource(both("/token")).route(web::post().to(exchange)))
        .service(web::resource(both("/report")).route(web::post().to(report)));
}

/// Holds a report as it is sent.
#[derive(Deserialize)]
struct SentReport {
    #[serde(default)]
    event: SentEvent,
    worker: Option<bool>,
    challenge: Option<String>,
    exit_code: Option<i32>,
    log_tail: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SentEvent {
    #[default]
    Heartbeat,
    AgentStarted,
    JobStarted,
    JobCompleted,
    AgentExited,
}

impl From<SentReport> for WitnessReport {
    fn from(sent: SentReport) -> Self {
        let log = sent.log_tail.and_then(|tail| STANDARD.decode(tail.trim()).ok());
        let log = log.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Self {
            event: match sent.event {
                SentEvent::Heartbeat => ReportEvent::Heartbeat,
                SentEvent::AgentStarted => ReportEvent::AgentStarted,
                SentEvent::JobStarted => ReportEvent::JobStarted,
                SentEvent::JobCompleted => ReportEvent::JobCompleted,
                SentEvent::AgentExited => ReportEvent::AgentExited { code: sent.exit_code, log },
            },
            worker: match sent.worker {
                Some(true) => Worker::Present,
                Some(false) => Worker::Absent,
                None => Worker::Unknown,
            },
            // Anything else answers no challenge of ours.
            challenge: sent.challenge.and_then(|text| text.parse().ok()),
        }
    }
}

/// Gives a supervisor the token with which it reports.
async fn exchange(app_state: web::Data<AppState>, request: HttpRequest) -> HttpResponse {
    let caller = match Caller::of(&request, &app_state).await {
        Ok(caller) => caller,
        Err(answer) => return *answer,
    };
    let Some(tokens) = &app_state.tokens else { return unheard() };
    let token = tokens.create_for_reports(&caller.bearer.instance, caller.bearer.attempt);
    HttpResponse::Ok().insert_header((CACHE_CONTROL, "no-store")).json(json!({ "token": token }))
}

async fn report(
    app_state: web::Data<AppState>,
    request: HttpRequest,
    body: web::Payload,
) -> HttpResponse {
    let bearer = token(&request).and_then(|it| app_state.tokens.as_ref()?.check_of_reports(it));
    let bearer = match row_of(bearer, &app_state, may_report).await {
        Ok((bearer, _)) => bearer,
        Err(answer) => return *answer,
    };
    let body = tokio::time::timeout(SLOW_BODY, body.to_bytes_limited(MAX_REPORT_BYTES)).await;
    let Ok(Ok(Ok(body))) = body else {
        return failure(400, "Bad Request", Some("the body is too long or broke off"));
    };
    let Ok(sent) = serde_json::from_slice::<SentReport>(&body) else {
        let why = "the body must be an object with an `event`, and `worker` where that is known";
        return failure(400, "Bad Request", Some(why));
    };
    let (instance, attempt, report) = (bearer.instance, bearer.attempt, sent.into());
    let message = |reply| ToFleet::Reported { instance, attempt, report, reply };
    match app_state.fleet.ask(message, OWNER_TIMEOUT).await {
        Ok(Ok(next)) => taken(next),
        Ok(Err(Refusal::Unsettled)) | Err(_) => later(),
        Ok(Err(_)) => unheard(),
    }
}

fn taken(next: NextReport) -> HttpResponse {
    let mut answer = json!({ "interval": next.interval.as_secs() });
    if let (Some(challenge), Some(answer)) = (next.challenge, answer.as_object_mut()) {
        // As text: numbers of this size lose digits in some readers.
        answer.insert("challenge".into(), challenge.to_string().into());
    }
    HttpResponse::Ok().insert_header((CACHE_CONTROL, "no-store")).json(answer)
}

/// Returns whether a machine may still report: for as long as there is one.
fn may_report(row: &Instance) -> bool {
    row.state != State::Deleted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<WitnessReport> {
        serde_json::from_str::<SentReport>(text).ok().map(Into::into)
    }

    #[test]
    fn reports_are_read_as_supervisors_write_them() {
        let heartbeat = read(r#"{"worker":true,"challenge":"17"}"#).unwrap();
        assert_eq!(heartbeat.event, ReportEvent::Heartbeat);
        assert_eq!((heartbeat.worker, heartbeat.challenge), (Worker::Present, Some(17)));
        let unknown = read(r#"{"event":"job_started","worker":null,"challenge":"x"}"#).unwrap();
        assert_eq!(unknown.event, ReportEvent::JobStarted);
        assert_eq!((unknown.worker, unknown.challenge), (Worker::Unknown, None));
        let over = read(r#"{"event":"agent_exited","exit_code":137,"log_tail":"b2g=\n"}"#).unwrap();
        let log = Some("oh".to_owned());
        assert_eq!(over.event, ReportEvent::AgentExited { code: Some(137), log });
        for bad in ["", "[]", r#"{"event":"reboot"}"#, r#"{"worker":"yes"}"#] {
            assert!(read(bad).is_none(), "{bad}");
        }
    }
}
