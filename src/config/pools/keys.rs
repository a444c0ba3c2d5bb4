//! What may be written in a pool, beside its deadlines and its schedule.

use crate::config::keys::{Key, Keys, Kind};

/// The keys only a pool has.
pub(crate) const OWN: &[Key] = &[
    Key::new("name", Kind::Name, "What it is called everywhere.").required(),
    Key::new(
        "labels",
        Kind::Texts,
        "The labels its runners carry; a job is served when all of its labels are among them.",
    )
    .required(),
];

/// The keys a pool shares with `[defaults]`.
pub(crate) const SHARED: &[Key] = &[
    Key::new("forge", Kind::Text, "The forge its runners register at."),
    Key::new(
        "scope",
        Kind::Text,
        "What it serves: an organization `acme`, a repository `acme/web`, an \
                enterprise `enterprises/acme`.",
    ),
    Key::new("provider", Kind::Text, "The provider that makes its machines."),
    Key::new("intake", Kind::Choice(&["webhook", "scale-set"]), "How it hears of jobs.")
        .or("\"webhook\""),
    Key::new(
        "binding",
        Kind::Choice(&["early", "late"]),
        "When a runner registers: at creation, or when there is a job for it; \
                late for kubernetes, early for the others.",
    ),
    Key::new("runner_group", Kind::Text, "The runner group at the forge.").or("\"Default\""),
    Key::new(
        "min_idle",
        Kind::Whole { least: 0, most: 100_000 },
        "How many idle runners are kept beyond demand.",
    )
    .or("0"),
    Key::new(
        "max",
        Kind::Whole { least: 0, most: 100_000 },
        "How many machines may exist at once.",
    ),
    Key::new(
        "image",
        Kind::Text,
        "What a machine is made from: a container image, or what the external provider calls one.",
    ),
    Key::new("flavor", Kind::Text, "The machine's size, as the external provider calls it."),
    Key::new("os", Kind::Choice(&["linux", "windows", "macos"]), "The operating system.")
        .or("\"linux\""),
    Key::new("arch", Kind::Choice(&["x64", "arm64", "arm"]), "The processor.").or("\"x64\""),
    Key::new("accept_unlabelled", Kind::Flag, "Whether jobs that ask for no label are served.")
        .or("false"),
    Key::new(
        "prefix",
        Kind::Name,
        "Begins the name of every instance; the pool's name when left out.",
    ),
    Key::new("env", Kind::TextMap, "Variables of the runner. Every job can read them: no secrets."),
    Key::new("proxy", Kind::Table(PROXY), "The way from the runner to the internet."),
    Key::new("ca", Kind::Path, "Certificates the runner shall also trust, PEM."),
    Key::new("pod", Kind::Free, "kubernetes: an overlay on the pod we build."),
    Key::new(
        "extra_specs",
        Kind::Free,
        "external: what the provider takes beyond image and flavor.",
    ),
];

const PROXY: Keys = &[&[
    Key::new("http", Kind::Url, "For http://."),
    Key::new("https", Kind::Url, "For https://."),
    Key::new("no_proxy", Kind::Texts, "Hosts reached without it."),
]];
