//! `kind = "kubernetes"`: machines are pods.

use std::path::PathBuf;

use serde::Serialize;

use super::there;
use crate::config::keys::{Key, Kind};
use crate::config::section::Section;

/// The keys beside `kind`.
pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "namespace",
        Kind::Name,
        "Where the pods live; the daemon's own namespace in a cluster, else that of the context.",
    ),
    Key::new(
        "kubeconfig",
        Kind::Path,
        "How to reach the cluster; without it the daemon runs inside one.",
    ),
    Key::new(
        "context",
        Kind::Text,
        "Which context of the kubeconfig; its current one when left out.",
    ),
    Key::new(
        "poller_image",
        Kind::Text,
        "late binding: the image with this program that a warm pod waits in; `ostler:<version>` \
                when left out.",
    ),
];

/// Holds a provider of pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kubernetes {
    /// Where the pods live.
    pub namespace: Option<String>,
    /// How to reach the cluster; inside one when `None`.
    pub kubeconfig: Option<PathBuf>,
    /// Which context of the kubeconfig.
    pub context: Option<String>,
    /// The image a warm pod waits in.
    pub poller_image: Option<String>,
}

/// Returns the image that is meant when none is named: ours, of this version.
pub fn default_poller_image() -> String {
    format!("ostler:{}", env!("CARGO_PKG_VERSION"))
}

pub(crate) fn read(section: &Section<'_>) -> Kubernetes {
    if section.wrote("context") && !section.wrote("kubeconfig") {
        section.note(section.error("context", "a `context` needs a `kubeconfig` to be in").help(
            "add kubeconfig = \"path\", or remove context to use the cluster the daemon runs in",
        ));
    }
    Kubernetes {
        namespace: section.text("namespace").map(str::to_owned),
        kubeconfig: there(section, "kubeconfig"),
        context: section.text("context").map(str::to_owned),
        poller_image: section.text("poller_image").map(str::to_owned),
    }
}
