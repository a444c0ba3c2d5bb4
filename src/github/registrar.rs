//! Registers and removes runners.

use async_trait::async_trait;
use ostler_actors::model::{RunnerId, Scope};
use ostler_actors::ports::{Deregistered, Forge, ForgeError, Jit, MintError, MintOrder, Minted};
use serde_json::json;

use super::GitHub;
use super::answer::Answer;
use super::api::Question;
use super::failure::Failure;
use super::governor::Lane;
use super::route;
use super::wire;

#[async_trait]
impl Forge for GitHub {
    async fn mint(&self, order: MintOrder) -> Result<Minted, MintError> {
        let scope = &order.scope;
        let group = self.group(scope, &order.group).await.map_err(Failure::of_mint)?;
        let body = json!({
            "name": order.name.as_str(),
            "runner_group_id": group,
            "labels": order.labels.iter().collect::<Vec<_>>(),
            "work_folder": "_work",
        });
        let question = Question::post(route::jit_config(scope), Some(body));
        let answer = self.api.ask(scope, Lane::Mint, &question).await.map_err(Failure::of_mint)?;
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
        let question = Question::remove(route::runner(scope, id));
        let answer = self.api.ask(scope, Lane::Remove, &question).await;
        let answer = answer.map_err(Failure::of_removal)?;
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

/// Reads a fresh registration. One that cannot be read exists all the same.
fn minted(answer: &Answer) -> Result<Minted, MintError> {
    let config: wire::JitConfig = answer.read().map_err(Failure::of_mint)?;
    Ok(Minted { id: RunnerId(config.runner.id), jit: Jit::new(config.encoded_jit_config) })
}
