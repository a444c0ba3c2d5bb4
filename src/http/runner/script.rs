//! The scripts that make a machine a runner, with what it needs written into them.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Boot;
use crate::ports::{AGENT_ENV, fill_script};

const LINUX: &str = include_str!("scripts/linux.sh");
const SUPERVISOR: &str = include_str!("scripts/supervisor.sh");
const WINDOWS: &str = include_str!("scripts/windows.ps1");

/// Returns the install script of one machine.
pub(super) fn install(boot: &Boot, runner: &str, token: &str) -> String {
    let supervisor = if boot.has_witness { STANDARD.encode(SUPERVISOR) } else { String::new() };
    let mut values = vec![
        ("METADATA_URL", boot.metadata_url()),
        ("REPORT_URL", boot.report_url()),
        ("CALLBACK_URL", boot.callback_url()),
        ("BEARER_TOKEN", token.to_owned()),
        ("RUNNER_NAME", runner.to_owned()),
        ("RUNNER_VERSION", boot.release.version.clone()),
        ("RUNNER_FILE", boot.release.filename(boot.platform(), &boot.arch)),
        ("RUNNER_URL", boot.release_url()),
        ("RUNNER_ENV", STANDARD.encode(env_file(boot))),
        ("AGENT_ENV", agent_env(boot)),
        ("CA_BUNDLE", boot.ca.as_ref().map(|pem| STANDARD.encode(pem)).unwrap_or_default()),
        ("SUPERVISOR", supervisor),
    ];
    values.extend(boot.proxies.iter().map(|(name, value)| (*name, value.clone())));
    fill_script(&boot.os, LINUX, WINDOWS, &values)
}

/// Returns the runner's `.env`: a variable a line.
fn env_file(boot: &Boot) -> String {
    let proxies = boot.proxies.iter().map(|(name, value)| (*name, value));
    let own = boot.env.iter().map(|(name, value)| (name.as_str(), value));
    let line =
        |(name, value): (&str, &String)| format!("{name}={}\n", value.replace(['\n', '\r'], " "));
    proxies.chain(own).map(line).collect()
}

/// Returns what `run.sh` itself must find in its environment; the `.env` is read by the listener only.
fn agent_env(boot: &Boot) -> String {
    let of = |(name, usual): &(&str, &str)| {
        let value = boot.env.get(*name).map_or(*usual, String::as_str);
        // It is split at spaces.
        let value: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
        format!("{name}={value}")
    };
    AGENT_ENV.iter().map(of).collect::<Vec<_>>().join(" ")
}

/// Returns the unit that runs a runner as this user; nothing if that is no name of one.
pub(super) fn unit(boot: &Boot, runner: &str, user: &str) -> Option<String> {
    let fits = |message: char| message.is_ascii_alphanumeric() || "_-".contains(message);
    if user.is_empty() || user.len() > 32 || user.starts_with('-') || !user.chars().all(fits) {
        return None;
    }
    let home = format!("/home/{user}/actions-runner");
    let mut unit = format!(
        "[Unit]\nDescription=GitHub Actions Runner ({runner})\nAfter=network-online.target\n\
         Wants=network-online.target\n\n[Service]\nExecStart={home}/run.sh\nUser={user}\n\
         WorkingDirectory={home}\nKillMode=process\nKillSignal=SIGTERM\nTimeoutStopSec=5min\n"
    );
    for variable in agent_env(boot).split(' ') {
        let _: Result<(), _> = writeln!(unit, "Environment=\"{variable}\"");
    }
    for (name, value) in &boot.proxies {
        let value = value.replace(['\n', '\r'], " ").replace('\\', r"\\").replace('"', "\\\"");
        // Percent signs are specifiers in a unit.
        let value = value.replace('%', "%%");
        let _: Result<(), _> = writeln!(unit, "Environment=\"{name}={value}\"");
    }
    unit.push_str("\n[Install]\nWantedBy=multi-user.target\n");
    Some(unit)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ostler_actors::model::Scope;
    use serde_json::Value;

    use super::*;
    use crate::ports::Release;

    fn boot(os: &str) -> Boot {
        Boot {
            home: "https://ci.example.com".into(),
            web: "https://github.com".into(),
            scope: Scope::Repository { owner: "acme".into(), name: "web".into() },
            labels: vec![],
            os: os.into(),
            arch: "x64".into(),
            proxies: BTreeMap::from([("http_proxy", "http://p:'%1".to_owned())]),
            env: BTreeMap::from([("NAME".to_owned(), "value".to_owned())]),
            ca: None,
            specs: Value::Null,
            has_witness: true,
            release: Release { version: "2.336.0".into(), mirror: "https://m".into() },
        }
    }

    #[test]
    fn what_a_machine_needs_is_written_into_its_script_quoted() {
        let linux = install(&boot("linux"), "linux-1", "v1.t");
        assert!(linux.starts_with("#!/bin/bash\nexport METADATA_URL='https://ci.example.com/"));
        assert!(linux.contains(r"export http_proxy='http://p:'\''%1'"));
        assert!(linux.contains("actions-runner-linux-x64-2.336.0.tar.gz"));
        let windows = install(&boot("windows"), "w-1", "v1.t");
        assert!(windows.contains("$env:http_proxy = 'http://p:''%1'"));
        assert!(windows.contains("actions-runner-win-x64-2.336.0.zip"));
        assert_eq!(env_file(&boot("linux")), "http_proxy=http://p:'%1\nNAME=value\n");
    }

    #[test]
    fn a_runner_whose_version_is_refused_can_say_so_however_it_is_started() {
        let both =
            "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1 RUNNER_MANUALLY_TRAP_SIG=1";
        assert_eq!(agent_env(&boot("linux")), both);
        let linux = install(&boot("linux"), "linux-1", "v1.t");
        assert!(linux.contains(&format!("export AGENT_ENV='{both}'")));
        assert_eq!(linux.matches("env $AGENT_ENV ./run.sh").count(), 2, "with setsid, and with su");
        assert_eq!(linux.matches("./run.sh").count(), 2, "there is no other start");
        assert_eq!(
            SUPERVISOR.matches("env $AGENT_ENV ./run.sh").count(),
            3,
            "as itself, or as another"
        );
        assert_eq!(SUPERVISOR.matches("./run.sh").count(), 3, "there is no other start");
        let windows = install(&boot("windows"), "w-1", "v1.t");
        assert!(windows.contains(&format!("$env:AGENT_ENV = '{both}'")));
        assert!(windows.contains(
            "-Name Environment -PropertyType MultiString -Value ($env:AGENT_ENV -split ' ')"
        ));
        let unit = unit(&boot("linux"), "linux-1", "runner").unwrap();
        for variable in both.split(' ') {
            assert!(unit.contains(&format!("\nEnvironment=\"{variable}\"\n")), "{unit}");
        }
        let mut own = boot("linux");
        own.env.insert("RUNNER_MANUALLY_TRAP_SIG".into(), String::new());
        assert!(
            agent_env(&own).ends_with("RUNNER_MANUALLY_TRAP_SIG="),
            "the pool's own word counts"
        );
    }

    #[test]
    fn a_pool_without_a_witness_gets_no_supervisor() {
        let with = install(&boot("linux"), "linux-1", "v1.t");
        assert!(with.contains(&format!("export SUPERVISOR='{}'", STANDARD.encode(SUPERVISOR))));
        let without = Boot { has_witness: false, ..boot("linux") };
        assert!(install(&without, "linux-1", "v1.t").contains("export SUPERVISOR=''"));
    }

    #[test]
    fn a_unit_runs_as_a_user_and_as_nothing_else() {
        let text = unit(&boot("linux"), "linux-1", "runner").unwrap();
        assert!(text.contains("ExecStart=/home/runner/actions-runner/run.sh"));
        assert!(text.contains("Environment=\"http_proxy=http://p:'%%1\""));
        for bad in ["", "root\nExecStart=/bin/sh", "../x", "-x", "a b"] {
            assert_eq!(unit(&boot("linux"), "linux-1", bad), None, "{bad:?}");
        }
        assert_eq!(boot("linux").service_name(), "actions.runner.acme.web");
    }
}
