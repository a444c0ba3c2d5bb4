//! What figures are told apart by; every label has few values.

use prometheus_client::encoding::EncodeLabelSet;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PoolLabel {
    pub(super) pool: String,
}

impl PoolLabel {
    pub(super) fn of(pool: &str) -> Self {
        Self { pool: pool.to_owned() }
    }
}

/// A move of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct MoveLabels {
    pub(super) pool: String,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DeathLabels {
    pub(super) pool: String,
    pub(super) verdict: &'static str,
    pub(super) fault: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WebhookLabels {
    pub(super) forge: String,
    pub(super) outcome: &'static str,
}

/// Why an offer ended unserved.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CauseLabel {
    pub(super) cause: &'static str,
}

/// A kind of what keeps the fleet from its work.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct KindLabel {
    pub(super) kind: &'static str,
}

/// What became of something.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabel {
    pub(super) outcome: &'static str,
}

impl OutcomeLabel {
    pub(super) fn of(outcome: &'static str) -> Self {
        Self { outcome }
    }
}

/// A kind of call to a provider, and its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ProviderLabels {
    pub(super) provider: String,
    pub(super) op: &'static str,
    pub(super) outcome: &'static str,
}

/// A kind of call to a provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ProviderCall {
    pub(super) provider: String,
    pub(super) op: &'static str,
}

/// Instances or jobs of a pool in a state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StateLabels {
    pub(super) pool: String,
    pub(super) state: &'static str,
}

/// What the reaper asked, and what it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AskLabels {
    pub(super) reason: &'static str,
    pub(super) answer: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ForgeLabel {
    pub(super) forge: String,
}

/// A kind of call to a forge, and its status.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) forge: String,
    pub(super) route: &'static str,
    pub(super) status: u32,
}

/// A budget of a forge.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RateLabels {
    pub(super) forge: String,
    pub(super) resource: &'static str,
}
