//! What machines tell while they are set up.

use actix_web::{HttpRequest, HttpResponse, web};
use ostler_actors::instance::MachineCall;
use ostler_actors::model::Setup;
use serde_json::Value;

use super::bearer::{Caller, failure};
use super::both;
use crate::http::AppState;

/// No machine has more to say at once.
const MAX_REPORT_BYTES: usize = 64 << 10;

/// Says what machines may tell.
pub(super) fn routes(app: &mut web::ServiceConfig) {
    let at = |path: &str| web::resource(both(&format!("/callbacks/{path}")));
    app.service(at("status").route(web::post().to(status)))
        .service(at("system-info").route(web::post().to(system_info)));
}

async fn status(
    app_state: web::Data<AppState>,
    request: HttpRequest,
    body: web::Payload,
) -> HttpResponse {
    tell(&app_state, &request, body, heard_status).await
}

async fn system_info(
    app_state: web::Data<AppState>,
    request: HttpRequest,
    body: web::Payload,
) -> HttpResponse {
    tell(&app_state, &request, body, heard_system).await
}

async fn tell(
    app_state: &AppState,
    request: &HttpRequest,
    body: web::Payload,
    read: fn(&Value) -> Result<MachineCall, &'static str>,
) -> HttpResponse {
    let caller = match Caller::of(request, app_state).await {
        Ok(caller) => caller,
        Err(answer) => return *answer,
    };
    let Ok(Ok(body)) = body.to_bytes_limited(MAX_REPORT_BYTES).await else {
        return failure(400, "Bad Request", Some("the body is too long or broke off"));
    };
    let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let word = match read(&value) {
        Ok(word) => word,
        Err(why) => return failure(400, "Bad Request", Some(why)),
    };
    match caller.say(app_state, word).await {
        Ok(_) => HttpResponse::Ok().finish(),
        Err(answer) => *answer,
    }
}

/// Reads a status; words that say nothing final are progress.
fn heard_status(value: &Value) -> Result<MachineCall, &'static str> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let (status, message) = (text("status"), text("message").to_owned());
    Ok(match status {
        "" => return Err("the body must be an object with a `status`"),
        "idle" => MachineCall::ReportSetup(Setup::Idle, message),
        "failed" => MachineCall::ReportSetup(Setup::Failed, message),
        "installing" => MachineCall::ReportSetup(Setup::Installing, message),
        other => MachineCall::ReportSetup(Setup::Installing, format!("{other}: {message}")),
    })
}

fn heard_system(value: &Value) -> Result<MachineCall, &'static str> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let system = format!("{} {}", text("os_name"), text("os_version"));
    match system.trim() {
        "" => Err("the body must be an object with `os_name` and `os_version`"),
        system => Ok(MachineCall::ReportSystem(system.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reports_of_a_machine_are_parsed_or_refused() {
        let status = |status: &str| heard_status(&json!({ "status": status, "message": "m" }));
        assert_eq!(status("idle"), Ok(MachineCall::ReportSetup(Setup::Idle, "m".into())));
        assert_eq!(status("failed"), Ok(MachineCall::ReportSetup(Setup::Failed, "m".into())));
        assert_eq!(
            status("online"),
            Ok(MachineCall::ReportSetup(Setup::Installing, "online: m".into()))
        );
        for bad in [json!(null), json!([]), json!({ "status": 5 }), json!({ "message": "m" })] {
            assert!(heard_status(&bad).is_err(), "{bad}");
            assert!(heard_system(&bad).is_err(), "{bad}");
        }
        let system = json!({ "os_name": "Ubuntu", "os_version": "24.04", "agent_id": null });
        assert_eq!(heard_system(&system), Ok(MachineCall::ReportSystem("Ubuntu 24.04".into())));
    }
}
