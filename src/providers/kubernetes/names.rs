//! What is written on a pod, and read back: labels and annotations under one prefix.
//!
//! Labels are output: people select by them, and the stamp among them tells a restarted daemon
//! whose a pod is. No decision reads any other of them back. A text that cannot be the value of a
//! label is hashed there and stands in full in the annotation of the same name.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use ostler_actors::model::{ControllerId, HolderId, InstanceId, PoolId, Stamp};

/// Who looks after the pod, in the word all tools understand.
pub(super) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of it.
pub(super) const US: &str = "ostler";
/// Selects every pod of ours.
pub(super) const SELECTOR: &str = "app.kubernetes.io/managed-by=ostler";

pub(super) const CONTROLLER: &str = "ostler.dev/controller";
/// The holder of the lease that created the pod.
pub(super) const HOLDER: &str = "ostler.dev/holder";
/// The pool it was made for.
pub(super) const POOL: &str = "ostler.dev/pool";
/// The instance it was made for.
pub(super) const INSTANCE: &str = "ostler.dev/instance";
/// The shape it was made in.
pub(super) const REVISION: &str = "ostler.dev/revision";
/// Whether a job may be on it: `busy` or `idle`. The disruption budget selects by it.
pub(super) const STATE: &str = "ostler.dev/state";
/// The job that runs there, an annotation.
pub(super) const JOB: &str = "ostler.dev/job";
/// Certificates the runner shall also trust, an annotation that is mounted as a file.
pub(super) const CA: &str = "ostler.dev/ca";
/// Begins every key that is ours alone.
pub(super) const PREFIX: &str = "ostler.dev/";

/// The longest value of a label.
const MAX_LABEL_CHARS: usize = 63;

/// Holds labels and annotations for one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
}

impl Marks {
    /// Writes a text as a label; in full in an annotation where a label cannot hold it.
    pub(super) fn write(&mut self, key: &str, text: &str) {
        if is_value(text) {
            self.labels.insert(key.into(), text.into());
        } else {
            self.labels.insert(key.into(), hashed(text));
            self.annotations.insert(key.into(), text.into());
        }
    }
}

/// Returns what tells whose a pod is.
pub(super) fn marks(stamp: &Stamp, revision: &str) -> Marks {
    let mut marks = Marks::default();
    marks.labels.insert(MANAGED_BY.into(), US.into());
    let texts = [
        (CONTROLLER, stamp.controller.as_ref().map(ControllerId::as_str)),
        (HOLDER, stamp.holder.as_ref().map(HolderId::as_str)),
        (POOL, stamp.pool.as_ref().map(PoolId::as_str)),
        (INSTANCE, stamp.instance.as_ref().map(InstanceId::as_str)),
        (REVISION, Some(revision)),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            marks.write(key, text);
        }
    }
    marks
}

/// Reads whose a pod is.
pub(super) fn stamp(metadata: &ObjectMeta) -> Stamp {
    let of = |map: &Option<BTreeMap<String, String>>, key: &str| {
        map.as_ref().and_then(|map| map.get(key).cloned())
    };
    let text = |key: &str| of(&metadata.annotations, key).or_else(|| of(&metadata.labels, key));
    Stamp {
        controller: text(CONTROLLER).as_deref().map(Into::into),
        holder: text(HOLDER).as_deref().map(Into::into),
        pool: text(POOL).as_deref().map(Into::into),
        instance: text(INSTANCE).as_deref().map(Into::into),
    }
}

/// Returns whether a text can be the value of a label.
fn is_value(text: &str) -> bool {
    let ends =
        |message: Option<char>| message.is_some_and(|message| message.is_ascii_alphanumeric());
    text.len() <= MAX_LABEL_CHARS
        && ends(text.chars().next())
        && ends(text.chars().last())
        && text.chars().all(|message| message.is_ascii_alphanumeric() || "-_.".contains(message))
}

/// Returns a short name of a text that is too long or too strange for a label.
fn hashed(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    let mut name = String::from("sha256-");
    for byte in &digest.as_ref()[..10] {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pool: &str) -> (Stamp, ObjectMeta) {
        let stamp = Stamp {
            controller: Some("0b0c9d5e-0000-4000-8000-000000000000".into()),
            holder: Some("h".into()),
            pool: Some(pool.into()),
            instance: Some("linux-1".into()),
        };
        let Marks { labels, annotations } = marks(&stamp, "rev1");
        let metadata = ObjectMeta {
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        };
        (stamp, metadata)
    }

    #[test]
    fn a_stamp_is_read_as_it_was_written_however_long_it_is() {
        for pool in ["linux", &"long-".repeat(30), "Büro 7", "-dash", ""] {
            let (stamp, metadata) = written(pool);
            assert_eq!(super::stamp(&metadata), stamp, "{pool}");
            let labels = metadata.labels.unwrap();
            assert!(labels.values().all(|value| is_value(value)), "{labels:?}");
            assert_eq!(labels[MANAGED_BY], "ostler");
        }
    }

    #[test]
    fn a_pod_without_our_marks_has_no_stamp() {
        assert_eq!(stamp(&ObjectMeta::default()), Stamp::default());
    }
}
