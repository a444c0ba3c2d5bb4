//! Making a pod: one POST under a name that is used once, then, for a runner that is registered
//! already, the Secret it reads.

use std::time::Duration;

use kube::api::{DeleteParams, PostParams};
use kube::core::Request;
use ostler_actors::model::MachineView;
use ostler_actors::ports::{CreateError, CreateOrder, Grace, Jit, MachineRef};
use tracing::debug;

use super::client::{CALL, Failure, within};
use super::provider::ProviderState;
use super::seen::Seen;
use super::{names, pod, secret, seen};

/// How often a server that is too busy is asked again, and how long it is left alone.
const MAX_TRIES: usize = 5;
const RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

impl ProviderState {
    /// Makes a pod, or finds the one that was made under this order before.
    pub(super) async fn create(&self, order: CreateOrder) -> Result<MachineView, CreateError> {
        let machine = order.name.clone();
        let refused = |why: String| CreateError::Refused { machine: machine.clone(), why };
        let unanswered = |why: String| CreateError::Unanswered { machine: machine.clone(), why };
        let wanted =
            pod::pod(&order, &self.settings).map_err(|error| refused(error.to_string()))?;
        let body = serde_json::to_vec(&wanted).map_err(|error| refused(error.to_string()))?;
        let made = match self.post(&body, &PostParams::default()).await {
            Ok(made) => made,
            Err(failure) if failure.code() == Some(409) => {
                return self.made_before(&order).await.map_err(unanswered);
            }
            Err(failure) if failure.vouches() => return Err(refused(failure.to_string())),
            Err(failure) => return Err(unanswered(failure.to_string())),
        };
        let Some(view) = seen::view(&made) else {
            return Err(unanswered("the server answered with a pod that has no name".into()));
        };
        match &order.jit {
            Some(jit) => self.hand_over(&order, jit, view).await,
            None => Ok(view),
        }
    }

    /// Sends a pod to the server; one that is too busy is asked again a few times.
    pub(super) async fn post(&self, body: &[u8], params: &PostParams) -> Result<Seen, Failure> {
        let reached = self.cluster.reach().await?;
        let place = format!("/api/v1/namespaces/{}/pods", reached.namespace);
        let mut turn = 0;
        loop {
            let request = Request::new(&place)
                .create(params, body.to_vec())
                .map_err(|error| Failure::Unanswered(error.to_string()))?;
            let answer = within(CALL, reached.client.request::<Seen>(request)).await;
            match answer {
                Err(failure) if failure.code() == Some(429) && turn < MAX_TRIES => {
                    let wait = failure.retry_after().unwrap_or(RETRY_DELAY).min(MAX_RETRY_DELAY);
                    debug!("the API server is too busy; asking again in {} s", wait.as_secs());
                    tokio::time::sleep(wait).await;
                    turn += 1;
                }
                answer => return answer,
            }
        }
    }

    /// Finds a pod of this name: created for the same instance, or for another.
    async fn made_before(&self, order: &CreateOrder) -> Result<MachineView, String> {
        let by_name = MachineRef { name: order.name.clone(), uid: None };
        let found = self.find(&by_name).await.map_err(|failure| failure.to_string())?;
        let Some(found) = found else { return Err("it was there and is gone".into()) };
        let (theirs, ours) = (names::stamp(&found.metadata), &order.stamp);
        if theirs.controller != ours.controller || theirs.instance != ours.instance {
            return Err("a pod of that name exists and was made for another".into());
        }
        seen::view(&found).ok_or_else(|| "it has no name".into())
    }

    /// Gives the runner its JIT config; a pod that cannot have it is taken back.
    async fn hand_over(
        &self,
        order: &CreateOrder,
        jit: &Jit,
        view: MachineView,
    ) -> Result<MachineView, CreateError> {
        let machine = order.name.clone();
        let uid = view.uid.clone().unwrap_or_default();
        let failure = match self.keep_secret(order, jit, &uid).await {
            Ok(()) => return Ok(view),
            Err(failure) => failure,
        };
        let why = format!("its Secret could not be made: {failure}");
        let target = MachineRef { name: order.name.clone(), uid: view.uid };
        // Nothing of it can have begun: its container cannot start without the Secret.
        let taken_back = self.delete(&target, Grace::Usual).await.is_ok()
            && matches!(self.find(&target).await, Ok(None));
        Err(if taken_back && failure.vouches() {
            CreateError::Refused { machine, why }
        } else {
            CreateError::Unanswered { machine, why }
        })
    }

    async fn keep_secret(&self, order: &CreateOrder, jit: &Jit, uid: &str) -> Result<(), Failure> {
        let secrets = self.cluster.reach().await?.secrets();
        let secret = secret::secret(order, jit, uid);
        within(CALL, secrets.create(&PostParams::default(), &secret)).await.map(drop)
    }

    /// Takes the Secret of a pod away; one that is gone is fine.
    pub(super) async fn drop_secret(&self, name: &str) -> Result<(), Failure> {
        let secrets = self.cluster.reach().await?.secrets();
        match within(CALL, secrets.delete(name, &DeleteParams::default())).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.code() == Some(404) => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}
