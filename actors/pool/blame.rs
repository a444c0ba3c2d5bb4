//! Which images fail beyond one pool.
//!
//! A pool whose instances fail says nothing about its image yet: its scope, its host or its settings
//! may be at fault. Two pools that fail with one image, of which no pool made one that works since
//! the first of those failures, blame the image.

use std::collections::BTreeMap;

use crate::model::{FailureClass, PoolId};
use crate::registry::PoolView;

/// Returns the images to blame, each with the pools that fail with it; `image_of` names what a pool
/// makes its machines from, if that has a name.
pub fn blamed_images<'a>(
    views: &[&PoolView],
    image_of: impl Fn(&PoolId) -> Option<&'a str>,
) -> BTreeMap<&'a str, Vec<PoolId>> {
    let mut by_image: BTreeMap<&str, Vec<&PoolView>> = BTreeMap::new();
    for view in views {
        if let Some(image) = image_of(&view.id).filter(|image| !image.is_empty()) {
            by_image.entry(image).or_default().push(view);
        }
    }
    by_image.retain(|_, users| {
        let began = users.iter().filter_map(|view| Some(failing_image(view)?.since));
        let (count, first) = (began.clone().count(), began.min());
        count >= 2 && !users.iter().any(|view| view.proven >= first)
    });
    let failing = |users: Vec<&PoolView>| {
        let failing = users.into_iter().filter(|view| failing_image(view).is_some());
        failing.map(|view| view.id.clone()).collect()
    };
    by_image.into_iter().map(|(image, users)| (image, failing(users))).collect()
}

/// Returns how a pool fails, where that may be its image's fault.
fn failing_image(view: &PoolView) -> Option<&crate::registry::PoolFailure> {
    view.failing.as_ref().filter(|failing| match failing.failure.class {
        FailureClass::Image | FailureClass::Runner => true,
        FailureClass::Host
        | FailureClass::Forge
        | FailureClass::Credential
        | FailureClass::Provider => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Failure, LifeStage};
    use crate::pool::fixtures::{at, view};
    use crate::registry::PoolFailure;

    fn failing(pool: &str, since: u64, class: FailureClass) -> PoolView {
        let failure = Failure {
            stage: LifeStage::Boot,
            class,
            provisional: false,
            error: "exit code 127".into(),
            advice: "Read the log tail.".into(),
        };
        let failing = PoolFailure {
            failures: 3,
            instance: "i".into(),
            since: at(since),
            at: at(since),
            failure,
            next_probe: None,
        };
        PoolView { failing: Some(failing), ..view(pool) }
    }

    fn blamed(views: &[PoolView]) -> Vec<(&'static str, usize)> {
        let views: Vec<&PoolView> = views.iter().collect();
        let image_of = |id: &PoolId| (id.as_str() != "other").then_some("runner:2");
        blamed_images(&views, image_of).into_iter().map(|(image, of)| (image, of.len())).collect()
    }

    #[test]
    fn an_image_is_blamed_if_two_pools_fail_with_it_and_none_served_meanwhile() {
        let [a, b] = ["a", "b"].map(|pool| failing(pool, 10, FailureClass::Image));
        assert_eq!(blamed(std::slice::from_ref(&a)), [], "one pool may have its own reasons");
        assert_eq!(blamed(&[a.clone(), failing("other", 10, FailureClass::Image)]), []);
        assert_eq!(blamed(&[a.clone(), failing("b", 10, FailureClass::Provider)]), []);
        assert_eq!(blamed(&[a.clone(), b.clone()]), [("runner:2", 2)]);
        let served = |second| PoolView { proven: Some(at(second)), ..view("c") };
        assert_eq!(blamed(&[a.clone(), b.clone(), served(9)]), [("runner:2", 2)], "long ago");
        assert_eq!(blamed(&[a, b, served(10)]), [], "it works elsewhere");
    }
}
