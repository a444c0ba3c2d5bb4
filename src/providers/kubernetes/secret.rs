//! The JIT config of an early-bound pod: a Secret that lives no longer than its pod, and is taken
//! away as soon as the runner has it.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use ostler_actors::ports::{CreateOrder, Jit};

use super::names;
use crate::providers::jit::unpack;

/// The file that holds the config as it came.
const AS_IT_CAME: &str = "jitconfig";

/// Returns the Secret of a pod.
pub(super) fn secret(order: &CreateOrder, jit: &Jit, uid: &str) -> Secret {
    let files = staged(jit.reveal());
    let data = files.into_iter().map(|(name, content)| (name, ByteString(content))).collect();
    let names::Marks { labels, annotations } =
        names::marks(&order.stamp, order.pool.revision.as_str());
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: order.name.to_string(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    };
    Secret {
        metadata: ObjectMeta {
            name: Some(order.name.to_string()),
            labels: Some(labels),
            annotations: (!annotations.is_empty()).then_some(annotations),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(data),
        immutable: Some(true),
        ..Secret::default()
    }
}

/// Returns the files a runner's container finds: the config as it came, for images with a command
/// of their own, and unpacked, for the official one.
pub(super) fn staged(jit: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = unpack(jit).unwrap_or_default();
    files.insert(AS_IT_CAME.into(), jit.as_bytes().to_vec());
    files
}
