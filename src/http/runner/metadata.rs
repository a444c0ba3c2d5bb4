//! What machines fetch to become runners.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_actors::instance::MachineCall;
use ostler_actors::ports::Jit;
use serde::Deserialize;
use serde_json::{Value, json};

use super::bearer::{Caller, failure};
use super::{both, script};
use crate::http::AppState;

/// Says what machines may fetch.
pub(super) fn routes(app: &mut web::ServiceConfig) {
    let at = |path: &str| web::resource(both(&format!("/metadata/{path}")));
    app.service(at("install-script").route(web::get().to(install_script)))
        .service(at("credentials/{file}").route(web::get().to(credentials)))
        .service(at("runner-registration-token").route(web::get().to(registration_token)))
        .service(at("system/service-name").route(web::get().to(service_name)))
        .service(at("systemd/unit-file").route(web::get().to(unit_file)))
        .service(at("system/cert-bundle").route(web::get().to(cert_bundle)))
        .service(at("runner-metadata").route(web::get().to(runner_metadata)));
}

async fn install_script(app_state: web::Data<AppState>, request: HttpRequest) -> HttpResponse {
    answer(&request, &app_state, |caller| {
        let token = app_state.tokens.as_ref();
        let bearer = &caller.bearer;
        let token = token.map(|it| it.create(&bearer.instance, bearer.attempt)).unwrap_or_default();
        text(script::install(&caller.boot, caller.row.id.as_str(), &token))
    })
    .await
}

/// Serves one file of the JIT config, as it lies in the runner's folder.
async fn credentials(
    app_state: web::Data<AppState>,
    request: HttpRequest,
    file: web::Path<String>,
) -> HttpResponse {
    let caller = match Caller::of(&request, &app_state).await {
        Ok(caller) => caller,
        Err(answer) => return *answer,
    };
    let nothing = |why: &str| failure(404, "Not Found", Some(why));
    if !["runner", "credentials", "credentials_rsaparams"].contains(&file.as_str()) {
        return nothing("there are `runner`, `credentials` and `credentials_rsaparams`");
    }
    match caller.say(&app_state, MachineCall::RequestJit).await {
        Ok(Some(jit)) => match unpacked(&jit, &file) {
            Some(content) => {
                HttpResponse::Ok().content_type("application/octet-stream").body(content)
            }
            None => nothing("the forge gave no such file"),
        },
        Ok(None) => nothing("its registration is gone, or was never made for this machine"),
        Err(answer) => *answer,
    }
}

/// Returns one file of a JIT config: base64 of an object from file names to base64 contents.
fn unpacked(jit: &Jit, file: &str) -> Option<Vec<u8>> {
    let outer = STANDARD.decode(jit.reveal().trim()).ok()?;
    let files: BTreeMap<String, String> = serde_json::from_slice(&outer).ok()?;
    STANDARD.decode(files.get(&format!(".{file}"))?).ok()
}

async fn registration_token(app_state: web::Data<AppState>, request: HttpRequest) -> HttpResponse {
    answer(&request, &app_state, |_| {
        failure(401, "this runner is registered already; fetch its credentials instead", None)
    })
    .await
}

async fn service_name(app_state: web::Data<AppState>, request: HttpRequest) -> HttpResponse {
    answer(&request, &app_state, |caller| text(caller.boot.service_name())).await
}

#[derive(Deserialize)]
struct UnitQuery {
    #[serde(rename = "runAsUser")]
    user: Option<String>,
}

async fn unit_file(
    app_state: web::Data<AppState>,
    request: HttpRequest,
    query: web::Query<UnitQuery>,
) -> HttpResponse {
    answer(&request, &app_state, |caller| {
        let user = query.user.as_deref().unwrap_or("runner");
        match script::unit(&caller.boot, caller.row.id.as_str(), user) {
            Some(unit) => text(unit),
            None => failure(400, "Bad Request", Some("`runAsUser` is no name of a user")),
        }
    })
    .await
}

async fn cert_bundle(app_state: web::Data<AppState>, request: HttpRequest) -> HttpResponse {
    answer(&request, &app_state, |caller| HttpResponse::Ok().json(bundle(&caller))).await
}

fn bundle(caller: &Caller) -> Value {
    let named = caller.boot.ca.as_ref().map(|pem| ("ostler-ca.pem", STANDARD.encode(pem)));
    let named: BTreeMap<_, _> = named.into_iter().collect();
    json!({ "root_certificates": named })
}

async fn runner_metadata(app_state: web::Data<AppState>, request: HttpRequest) -> HttpResponse {
    answer(&request, &app_state, |caller| {
        let boot = &caller.boot;
        HttpResponse::Ok().json(json!({
            "metadata_access": {
                "callback_url": boot.callback_url(),
                "metadata_url": boot.metadata_url(),
                "agent_url": "",
            },
            "forge_type": "github",
            "runner_registration_url": format!("{}/{}", boot.web, boot.scope),
            "runner_name": caller.row.runner_name(caller.row.mints).as_str(),
            "runner_labels": boot.labels,
            "ca_bundles": bundle(&caller)["root_certificates"],
            "extra_specs": boot.specs,
            "agent_mode": false,
            "agent_tools": null,
            "agent_token": "",
            "agent_shell_enabled": false,
            "jit_enabled": true,
            "runner_tools": {
                "os": boot.platform(),
                "architecture": boot.arch,
                "download_url": boot.release_url(),
                "filename": boot.release.filename(boot.platform(), &boot.arch),
            },
        }))
    })
    .await
}

/// Answers a machine that is being set up, and no other caller.
async fn answer(
    request: &HttpRequest,
    app_state: &AppState,
    say: impl FnOnce(Caller) -> HttpResponse,
) -> HttpResponse {
    match Caller::of(request, app_state).await {
        Ok(caller) => say(caller),
        Err(answer) => *answer,
    }
}

fn text(body: String) -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; charset=utf-8").body(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_jit_config_come_out_as_they_went_in() {
        let files = json!({ ".runner": STANDARD.encode("{}"), ".credentials": "no base64!" });
        let jit = Jit::new(STANDARD.encode(files.to_string()));
        assert_eq!(unpacked(&jit, "runner").as_deref(), Some(b"{}".as_slice()));
        assert_eq!(unpacked(&jit, "credentials"), None);
        assert_eq!(unpacked(&jit, "credentials_rsaparams"), None);
        assert_eq!(unpacked(&Jit::new("garbage"), "runner"), None);
    }
}
