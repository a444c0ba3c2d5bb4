//! Registers and removes runners, and finds the number of a runner group by its name.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ostler_actors::model::{RunnerId, Scope};
use ostler_actors::ports::{Deregistered, Forge, ForgeError, Jit, MintError, MintOrder, Minted};
use serde_json::json;
use tokio::time::Instant;

use super::answer::{ApiAnswer, ApiFailure};
use super::api::ApiRequest;
use super::governor::Lane;
use super::paging::List;
use super::{GitHub, route, wire};

#[async_trait]
impl Forge for GitHub {
    async fn mint(&self, order: MintOrder) -> Result<Minted, MintError> {
        let scope = &order.scope;
        let group = self.group(scope, &order.group).await.map_err(ApiFailure::of_mint)?;
        let body = json!({
            "name": order.name.as_str(),
            "runner_group_id": group,
            "labels": order.labels.iter().collect::<Vec<_>>(),
            "work_folder": "_work",
        });
        let question = ApiRequest::post(route::jit_config(scope), Some(body));
        let question = ApiRequest { gate: Some(&order.gate), ..question };
        let answer =
            self.api.ask(scope, Lane::Mint, &question).await.map_err(ApiFailure::of_mint)?;
        match answer.status {
            201 => minted(&answer),
            409 => Err(MintError::Taken(order.name)),
            status => {
                if matches!(status, 404 | 422) {
                    self.groups.forget(scope);
                }
                let what = format!("cannot register `{}` in `{scope}`", order.name);
                Err(answer.unexpected(&what).of_mint())
            }
        }
    }

    async fn deregister(&self, scope: &Scope, id: RunnerId) -> Result<Deregistered, ForgeError> {
        let question = ApiRequest::remove(route::runner(scope, id));
        let answer = self.api.ask(scope, Lane::Remove, &question).await;
        let answer = answer.map_err(ApiFailure::of_removal)?;
        match answer.status {
            204 => Ok(Deregistered::Removed),
            404 if answer.denies() => Ok(Deregistered::NotFound),
            422 => Ok(Deregistered::Working),
            _ => {
                let what = format!("cannot remove runner {id} from `{scope}`");
                Err(answer.unexpected(&what).of_removal())
            }
        }
    }
}

/// Reads a new registration. One that cannot be read exists all the same.
fn minted(answer: &ApiAnswer) -> Result<Minted, MintError> {
    let config: wire::JitConfig = answer.read().map_err(ApiFailure::of_mint)?;
    Ok(Minted { id: RunnerId(config.runner.id), jit: Jit::new(config.encoded_jit_config) })
}

/// The group that every scope has.
const DEFAULT_GROUP: u64 = 1;
/// How long the number of a group is reused.
const GROUP_TTL: Duration = Duration::from_mins(10);

/// The numbers of runner groups, by scope and name.
#[derive(Default)]
pub(super) struct Groups {
    found: Mutex<BTreeMap<(Scope, String), (u64, Instant)>>,
    /// One caller looks a name up, the others wait for it.
    looking: tokio::sync::Mutex<()>,
}

impl Groups {
    fn find(&self, key: &(Scope, String)) -> Option<u64> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.get(key).filter(|(_, at)| at.elapsed() < GROUP_TTL).map(|(id, _)| *id)
    }

    fn keep(&self, key: (Scope, String), id: u64) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.insert(key, (id, Instant::now()));
    }

    /// Forgets the numbers of a scope after GitHub refused one.
    pub(super) fn forget(&self, scope: &Scope) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.retain(|(of, _), _| of != scope);
    }
}

impl GitHub {
    /// Returns the number of a group. Repositories have only the default one; so have
    /// organizations whose plan has no groups, where the list itself is missing.
    pub(super) async fn group(&self, scope: &Scope, name: &str) -> Result<u64, ApiFailure> {
        let default = name.is_empty() || name.eq_ignore_ascii_case("default");
        if matches!(scope, Scope::Repository { .. }) {
            return if default { Ok(DEFAULT_GROUP) } else { Err(unknown_group(scope, name)) };
        }
        let key = (scope.clone(), name.to_lowercase());
        if let Some(id) = self.groups.find(&key) {
            return Ok(id);
        }
        let _turn = self.groups.looking.lock().await;
        if let Some(id) = self.groups.find(&key) {
            return Ok(id);
        }
        let list = List {
            scope,
            lane: Lane::Remove,
            route: route::runner_groups(scope),
            field: "runner_groups",
            etags: Some(&self.etags),
        };
        let id = match self.api.list::<wire::Group>(list).await {
            Ok(groups) => groups
                .into_iter()
                .find(|group| {
                    group.name.eq_ignore_ascii_case(name) || (default && group.id == DEFAULT_GROUP)
                })
                .map(|group| group.id)
                .ok_or_else(|| unknown_group(scope, name))?,
            Err(ApiFailure::Denied { .. }) if default => DEFAULT_GROUP,
            Err(failure) => return Err(failure.before_the_call()),
        };
        self.groups.keep(key, id);
        Ok(id)
    }
}

fn unknown_group(scope: &Scope, name: &str) -> ApiFailure {
    let why =
        format!("`{scope}` has no runner group `{name}`; create it, or change `runner_group`");
    ApiFailure::Denied { why }
}
