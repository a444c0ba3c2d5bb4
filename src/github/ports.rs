//! GitHub behind the ports of the program: what surfaces and background tasks may use of it.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use ostler_actors::model::{Place, RunnerName, Scope};
use ostler_actors::ports::Finding;
use secrecy::SecretString;

use super::GitHub;
use super::hooks::{HookSpec, faults};
use super::sweep_cursor::SweepCursor;
use super::webhook::{self, MAX_DELIVERY_BYTES, Request, WebhookEvent, WebhookRefusal};
use crate::ports::{
    DeliveryAttempt, DeliveryRefusal, EndingVersion, ForgeAdapter, ForgeFigures, ForgeHooks,
    ForgeMonitor, ForgeServices, ForgeWebhooks, HeaderLookup, HookRef, HookView, Installed,
    Received, ScopeCheck,
};

const SIGNATURE: &str = "X-Hub-Signature-256";

impl ForgeAdapter for GitHub {
    fn services(&self) -> ForgeServices {
        let shared = Arc::new(self.clone());
        ForgeServices {
            kind: "github",
            web_url: self.web_url.to_string(),
            monitor: Arc::clone(&shared) as _,
            webhooks: Some(Arc::clone(&shared) as _),
            hooks: Some(shared),
        }
    }
}

impl ForgeWebhooks for GitHub {
    fn max_body_bytes(&self) -> usize {
        MAX_DELIVERY_BYTES
    }

    fn screen(&self, header: HeaderLookup<'_>) -> Result<(), DeliveryRefusal> {
        let announced = header("Content-Length").and_then(|text| text.parse::<u64>().ok());
        if announced.is_some_and(|length| length > MAX_DELIVERY_BYTES as u64) {
            return Err(WebhookRefusal::TooLarge.into());
        }
        header(SIGNATURE).map(|_| ()).ok_or_else(|| WebhookRefusal::Unsigned.into())
    }

    fn receive(
        &self,
        header: HeaderLookup<'_>,
        body: &[u8],
        scopes: &[Scope],
        now: Timestamp,
    ) -> Result<Received, DeliveryRefusal> {
        let request = Request {
            event: header("X-GitHub-Event"),
            delivery: header("X-GitHub-Delivery"),
            signature: header(SIGNATURE),
            body,
        };
        let event = webhook::open(&self.secrets, request, &self.forge, scopes, now)?;
        let outcome = event.outcome();
        Ok(match event {
            WebhookEvent::Job(event) => {
                // GitHub retries under the same id; without one a delivery cannot be told from its
                // repetition.
                if event.notice.delivery.is_none() {
                    let why = "it has no id (`X-GitHub-Delivery`)".into();
                    return Err(DeliveryRefusal::Malformed(why));
                }
                Received::Job(Box::new(self.record_event(*event)))
            }
            WebhookEvent::Ping | WebhookEvent::Elsewhere(_) | WebhookEvent::Ignored(_) => {
                Received::NoJob(outcome)
            }
        })
    }
}

impl From<WebhookRefusal> for DeliveryRefusal {
    fn from(refusal: WebhookRefusal) -> Self {
        match refusal {
            WebhookRefusal::TooLarge => Self::TooLarge { limit: MAX_DELIVERY_BYTES },
            WebhookRefusal::Unsigned => Self::Unsigned,
            WebhookRefusal::BadSignature => Self::BadSignature,
            WebhookRefusal::Malformed(why) => Self::Malformed(why),
        }
    }
}

#[async_trait]
impl ForgeHooks for GitHub {
    async fn shared_hook(&self, url: &str) -> Result<Option<HookView>, String> {
        self.app_hook_to(url).await
    }

    async fn hooks_to(&self, scope: &Scope, url: &str) -> Result<Vec<HookView>, String> {
        self.hooks_to(scope, url).await
    }

    async fn install_hook(
        &self,
        scope: &Scope,
        url: &str,
        secret: &SecretString,
    ) -> Result<Installed, String> {
        self.install_hook(scope, &HookSpec { url, secret }).await
    }

    async fn delivery_log(&self, hook: &HookRef) -> Result<Vec<DeliveryAttempt>, String> {
        self.hook_log(hook).await
    }

    fn faults(&self, hook: &HookView, log: &[DeliveryAttempt]) -> Vec<String> {
        faults(hook, log)
    }

    async fn hooks_to_sweep(
        &self,
        url: Option<&str>,
        scopes: &[Scope],
    ) -> (Vec<HookRef>, Vec<String>) {
        match url {
            // Without an address of ours only an App's hook can be found.
            None => (vec![HookRef::Shared], Vec::new()),
            Some(url) => self.hooks_that_reach(url, scopes).await,
        }
    }

    async fn sweep(&self, hook: &HookRef, cursor: Option<&str>) -> Result<String, String> {
        // A cursor that cannot be read is no reason to sweep nothing: the log is read from its start.
        let cursor = cursor.and_then(|text| text.parse::<SweepCursor>().ok());
        let report = self.sweep_deliveries(hook, cursor).await?;
        Ok(report.cursor.to_string())
    }
}

#[async_trait]
impl ForgeMonitor for GitHub {
    fn figures(&self) -> ForgeFigures {
        self.figures()
    }

    fn doubt_about(&self, runner: &RunnerName) -> Option<(Timestamp, String)> {
        self.doubt_about(runner)
    }

    fn remember(&self, place: &Place) {
        self.remember(place);
    }

    async fn ending_versions(
        &self,
        scope: &Scope,
        images: &[&str],
        now: Timestamp,
    ) -> Vec<EndingVersion> {
        self.ending_versions(scope, images, now).await
    }

    async fn check_scope(&self, check: &ScopeCheck<'_>) -> Vec<Finding> {
        self.try_scope(check).await
    }
}
