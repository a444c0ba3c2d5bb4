//! Apps: signatures, installations, tokens.

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::gate::Caller;
use super::router::Reply;
use super::shapes;
use super::state::State;

/// Checks a signed statement to be the App: by key, and by date, not from the future.
pub(super) fn signed(state: &State, bearer: &str) -> bool {
    let Some((signed, signature)) = bearer.rsplit_once('.') else { return false };
    let Ok(signature) = BASE64_URL_SAFE_NO_PAD.decode(signature) else { return false };
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &state.app_public_key);
    if key.verify(signed.as_bytes(), &signature).is_err() {
        return false;
    }
    let claims = signed.split_once('.').and_then(|(_, it)| BASE64_URL_SAFE_NO_PAD.decode(it).ok());
    let claims: Option<Value> = claims.and_then(|it| serde_json::from_slice(&it).ok());
    let Some(claims) = claims else { return false };
    let date = |name: &str| claims.get(name).and_then(Value::as_i64).unwrap_or_default();
    let now = state.date().as_second();
    let in_time = date("iat") <= now && now < date("exp") && date("exp") - now <= 600;
    in_time && claims.get("iss").and_then(Value::as_str) == Some(state.client_id.as_str())
}

/// Shows the App to itself.
pub(super) fn itself(state: &State, caller: &Caller) -> Reply {
    match caller {
        Caller::App => Reply::new(200, shapes::app(&state.client_id)),
        Caller::Token | Caller::Guest(_) | Caller::Installation(_) => {
            Reply::error(401, "A JSON web token could not be decoded")
        }
    }
}

/// Answers which installation serves an owner.
pub(super) fn installation(state: &State, caller: &Caller, owner: &str) -> Reply {
    if !matches!(caller, Caller::App) {
        return Reply::error(401, "A JSON web token could not be decoded");
    }
    let found = state.installations.iter().find(|(_, it)| it.eq_ignore_ascii_case(owner));
    found.map_or_else(Reply::not_found, |(id, owner)| {
        let mut shape = shapes::installation(*id, owner);
        if state.lies.selected.is_some() {
            shape["repository_selection"] = json!("selected");
        }
        Reply::new(200, shape)
    })
}

/// Gives out a token for an hour.
pub(super) fn token(state: &mut State, caller: &Caller, id: &str) -> Reply {
    let id = id.parse().unwrap_or_default();
    if !matches!(caller, Caller::App) || !state.installations.contains_key(&id) {
        return Reply::not_found();
    }
    let number = state.number();
    let token = format!("ghs_simulated{number:08}{}", uuid::Uuid::new_v4().simple());
    let ends = state.date().checked_add(SignedDuration::from_hours(1)).unwrap_or_default();
    // A token that was dropped by force is replaced by a good one.
    state.lies.dropped_tokens = false;
    state.tokens.retain(|_, (of, _)| *of != id);
    state.tokens.insert(token.clone(), (id, ends));
    let second = jiff::Timestamp::from_second(ends.as_second()).unwrap_or_default();
    Reply::new(201, json!({"token": token, "expires_at": second.to_string()}))
}
