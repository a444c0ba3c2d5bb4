//! The ids machines carry: a UUID for the controller and one for each pool.
//!
//! The controller's is made once in the store. A pool's is made from it and the pool's name (RFC
//! 9562, version 5), so it is the same after every restart, on every standby and in every restored
//! backup; with another one a provider would list nothing.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ostler_actors::model::{ControllerId, PoolId};
use uuid::Uuid;

/// Returns the UUID of a pool.
pub(super) fn pool_uuid(controller: &ControllerId, pool: &PoolId) -> Uuid {
    // A controller's id is a UUID; any other text still makes ids that are its own.
    let space = Uuid::parse_str(controller.as_str())
        .unwrap_or_else(|_| named(Uuid::NAMESPACE_OID, controller.as_str()));
    named(space, &format!("pool/{pool}"))
}

fn named(space: Uuid, name: &str) -> Uuid {
    let mut text = space.as_bytes().to_vec();
    text.extend_from_slice(name.as_bytes());
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &text);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_ref()[..16]);
    uuid::Builder::from_sha1_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_the_uuids_of_the_standard() {
        // RFC 9562, appendix A.4.
        let known = named(Uuid::NAMESPACE_DNS, "www.example.com");
        assert_eq!(known.to_string(), "2ed6657d-e927-568b-95e1-2665a8aea6a2");
    }

    #[test]
    fn a_pool_keeps_its_id_and_shares_it_with_no_other() {
        let ours = ControllerId::new("9f1b5bd6-0a53-4f0d-8a3c-0f6f6f1d9a01");
        let (linux, windows) = (PoolId::new("linux"), PoolId::new("windows"));
        assert_eq!(pool_uuid(&ours, &linux), pool_uuid(&ours, &linux));
        assert_ne!(pool_uuid(&ours, &linux), pool_uuid(&ours, &windows));
        let theirs = ControllerId::new("another");
        assert_ne!(pool_uuid(&ours, &linux), pool_uuid(&theirs, &linux));
    }
}
