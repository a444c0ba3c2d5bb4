//! The environment of a call: exactly the protocol's variables, and what is passed on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::settings::{ExternalSettings, Interface};

/// What is passed as the provider's configuration where it has none: providers want a file.
const NO_FILE: &str = "/dev/null";

/// Names what a provider can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Create,
    Delete,
    Get,
    /// Show the machines of a pool.
    List,
    Version,
    /// Tell which versions of the protocol you speak.
    Interfaces,
}

impl Command {
    /// Returns the protocol's word.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CreateInstance",
            Self::Delete => "DeleteInstance",
            Self::Get => "GetInstance",
            Self::List => "ListInstances",
            Self::Version => "GetVersion",
            Self::Interfaces => "GetSupportedInterfaceVersions",
        }
    }

    /// Returns the version a question is asked in: what tells about versions comes before them.
    fn interface(self, configured: Interface) -> Interface {
        match self {
            Self::Create | Self::Delete | Self::Get | Self::List => configured,
            Self::Version => Interface::V010,
            Self::Interfaces => Interface::V011,
        }
    }
}

/// Holds what a call is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About<'a> {
    pub(super) controller: &'a str,
    pub(super) pool: &'a str,
    /// The machine: the provider's id for it, or its name.
    pub(super) machine: &'a str,
    /// The pool's specs, as the provider gets them.
    pub(super) specs: Option<&'a Value>,
}

/// Returns the whole environment of a call.
pub(super) fn environment(
    settings: &ExternalSettings,
    command: Command,
    about: About<'_>,
) -> Vec<(String, String)> {
    let interface = command.interface(settings.interface);
    // Names of the contract are its own, whatever the operator passes on.
    let passed = settings.env.iter().filter(|(name, _)| !name.starts_with("GARM"));
    let mut env: Vec<_> = passed.map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut add = |name: &str, value: &str| env.push((name.to_owned(), value.to_owned()));
    add("GARM_INTERFACE_VERSION", interface.as_str());
    add("GARM_COMMAND", command.as_str());
    add("GARM_CONTROLLER_ID", about.controller);
    let file = settings.config_file.as_ref().map(|path| path.display().to_string());
    add("GARM_PROVIDER_CONFIG_FILE", file.as_deref().unwrap_or(NO_FILE));
    let operates = match command {
        Command::Create | Command::Delete | Command::Get | Command::List => true,
        Command::Version | Command::Interfaces => false,
    };
    let names_pool = match interface {
        Interface::V010 => matches!(command, Command::Create | Command::List),
        Interface::V011 => operates,
    };
    if names_pool {
        add("GARM_POOL_ID", about.pool);
    }
    if matches!(command, Command::Delete | Command::Get) {
        add("GARM_INSTANCE_ID", about.machine);
    }
    if interface == Interface::V011 && operates {
        let specs = about.specs.map_or_else(|| "null".to_owned(), Value::to_string);
        add("GARM_POOL_EXTRASPECS", &STANDARD.encode(specs));
    }
    env
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::providers::external::state::tests::settings;

    fn of(interface: Interface, command: Command) -> BTreeMap<String, String> {
        let mut settings = settings("/opt/provider");
        settings.interface = interface;
        settings.config_file = Some("/etc/aws.toml".into());
        settings.env = BTreeMap::from([
            ("AWS_REGION".to_owned(), "eu".to_owned()),
            ("GARM_COMMAND".to_owned(), "RemoveAllInstances".to_owned()),
        ]);
        let specs = serde_json::json!({ "disk": 1 });
        let about =
            About { controller: "c-uuid", pool: "p-uuid", machine: "i-1", specs: Some(&specs) };
        environment(&settings, command, about).into_iter().collect()
    }

    fn names(env: &BTreeMap<String, String>) -> Vec<&str> {
        env.keys().map(String::as_str).collect()
    }

    const ALWAYS: [&str; 5] = [
        "AWS_REGION",
        "GARM_COMMAND",
        "GARM_CONTROLLER_ID",
        "GARM_INTERFACE_VERSION",
        "GARM_PROVIDER_CONFIG_FILE",
    ];

    fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
        let mut all = ALWAYS.to_vec();
        all.extend(more);
        all.sort_unstable();
        all
    }

    #[test]
    fn the_first_version_names_pool_or_machine_never_both() {
        let create = of(Interface::V010, Command::Create);
        assert_eq!(names(&create), with(&["GARM_POOL_ID"]));
        assert_eq!(create["GARM_COMMAND"], "CreateInstance", "the contract's names are its own");
        assert_eq!(names(&of(Interface::V010, Command::List)), with(&["GARM_POOL_ID"]));
        assert_eq!(names(&of(Interface::V010, Command::Get)), with(&["GARM_INSTANCE_ID"]));
        assert_eq!(names(&of(Interface::V010, Command::Delete)), with(&["GARM_INSTANCE_ID"]));
    }

    #[test]
    fn the_second_version_names_pool_and_specs_with_every_operation() {
        for command in [Command::Create, Command::List] {
            let env = of(Interface::V011, command);
            assert_eq!(names(&env), with(&["GARM_POOL_EXTRASPECS", "GARM_POOL_ID"]));
            let specs = STANDARD.decode(&env["GARM_POOL_EXTRASPECS"]).unwrap();
            assert_eq!(specs, br#"{"disk":1}"#);
        }
        for command in [Command::Get, Command::Delete] {
            let all = ["GARM_INSTANCE_ID", "GARM_POOL_EXTRASPECS", "GARM_POOL_ID"];
            assert_eq!(names(&of(Interface::V011, command)), with(&all));
        }
    }

    #[test]
    fn a_pool_without_specs_sends_null() {
        let mut settings = settings("/opt/provider");
        settings.interface = Interface::V011;
        let env = environment(&settings, Command::List, About::default());
        let specs = env.iter().find(|(name, _)| name == "GARM_POOL_EXTRASPECS").unwrap();
        assert_eq!(STANDARD.decode(&specs.1).unwrap(), b"null");
    }

    #[test]
    fn questions_about_versions_are_asked_in_the_version_that_knows_them() {
        let version = of(Interface::V011, Command::Version);
        assert_eq!(version["GARM_INTERFACE_VERSION"], "v0.1.0");
        assert_eq!(names(&version), with(&[]));
        let interfaces = of(Interface::V010, Command::Interfaces);
        assert_eq!(interfaces["GARM_INTERFACE_VERSION"], "v0.1.1");
    }
}
