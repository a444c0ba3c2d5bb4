//! `ostler check --live`: asks forges and providers whether they would serve.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::process::ExitCode;

use jiff::Timestamp;
use ostler_actors::model::{Binding, Scope};
use serde::Serialize;

use crate::config::{Config, External, ForgeSettings, Kubernetes, ProviderSettings};
use crate::daemon::{open_forge, open_kubernetes, probe_external, try_provider};
use crate::errors::chain;
use crate::github::{Finding, Grade, LiveCheck};
use crate::providers::external::Support;
use crate::providers::kubernetes::{
    Granted, Need, RIGHTS, Rehearsed, default_poller_image, is_needed,
};

/// Shows one finding and where it belongs.
#[derive(Serialize)]
struct Row {
    /// A forge, or a provider.
    of: String,
    /// The scope, at a forge.
    scope: Option<String>,
    #[serde(flatten)]
    finding: Finding,
}

/// Tries everything and says what came of it; fails when something is wrong.
pub(super) fn check(out: &mut dyn Write, config: &Config, json: bool) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rows = runtime.block_on(async {
        let mut rows = Vec::new();
        for (name, forge) in &config.forges {
            rows.extend(try_forge(config, name, forge).await);
        }
        for (name, provider) in &config.providers {
            if let ProviderSettings::Kubernetes(kubernetes) = provider {
                rows.extend(try_cluster(config, name, kubernetes).await);
            }
        }
        rows
    });
    for (name, provider) in &config.providers {
        if let ProviderSettings::External(external) = provider {
            rows.extend(runtime.block_on(ask_external(config, name, external)));
        }
    }
    // A provider may want a runtime of its own, or none.
    let _inside = runtime.enter();
    let others = config.providers.iter().filter(|(_, it)| it.kind() != "kubernetes");
    rows.extend(others.map(|(name, provider)| {
        let (grade, says) = match try_provider(name, provider, &config.daemon.state_dir) {
            Ok(()) => (Grade::Ok, "opens".to_owned()),
            Err(error) => (Grade::Wrong, chain(&error)),
        };
        let finding = Finding { what: "provider", grade, says };
        Row { of: format!("provider {name}"), scope: None, finding }
    }));
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
    } else {
        table(out, &rows)?;
    }
    let wrong = rows.iter().any(|row| row.finding.grade == Grade::Wrong);
    Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn try_forge(config: &Config, name: &str, forge: &ForgeSettings) -> Vec<Row> {
    let mut wanted: BTreeMap<&Scope, BTreeSet<&str>> = BTreeMap::new();
    for pool in config.pools.iter().filter(|pool| pool.forge == name) {
        wanted.entry(&pool.scope).or_default().insert(&pool.runner_group);
    }
    let of = format!("forge {name}");
    let github = match open_forge(name, forge) {
        Ok(github) => github,
        Err(error) => {
            let finding = Finding { what: "settings", grade: Grade::Wrong, says: chain(&error) };
            return vec![Row { of, scope: None, finding }];
        }
    };
    let public = config.http.public_url.as_ref().filter(|_| !forge.webhook_secrets.is_empty());
    let url = public.map(|public| format!("{public}/webhooks/{name}"));
    let mut rows = Vec::new();
    for (scope, groups) in wanted {
        let groups: Vec<&str> = groups.into_iter().collect();
        let check = LiveCheck { scope, groups: &groups, url: url.as_deref() };
        let findings = github.try_scope(&check).await;
        let row = |finding| Row { of: of.clone(), scope: Some(scope.to_string()), finding };
        rows.extend(findings.into_iter().map(row));
    }
    rows
}

/// Asks a cluster for every right we use, and lets it judge the pods of every pool.
async fn try_cluster(config: &Config, name: &str, kubernetes: &Kubernetes) -> Vec<Row> {
    let of = format!("provider {name}");
    let row = |what, grade, says: String| Row {
        of: of.clone(),
        scope: None,
        finding: Finding { what, grade, says },
    };
    let cluster = match open_kubernetes(name, kubernetes, &config.http) {
        Ok(cluster) => cluster,
        Err(error) => return vec![row("provider", Grade::Wrong, chain(&error))],
    };
    let pools: Vec<_> = config.pools.iter().filter(|pool| pool.provider == name).collect();
    let bindings: Vec<Binding> = pools.iter().map(|pool| pool.binding).collect();
    let mut rows = Vec::new();
    for right in RIGHTS {
        let needed = is_needed(right, &bindings);
        match cluster.has(right).await {
            Granted::No if needed => rows.push(row(
                "rights",
                Grade::Wrong,
                format!("may not {right}; grant it as in config/kubernetes/rbac.yaml"),
            )),
            Granted::No if right.need == Need::Advised => rows.push(row(
                "rights",
                Grade::Doubt,
                format!("may not {right}: less can be told about deaths and drained nodes"),
            )),
            Granted::Yes | Granted::No => {}
            Granted::Unknown(why) => {
                rows.push(row("cluster", Grade::Wrong, format!("cannot be asked: {why}")));
                return rows;
            }
        }
    }
    if rows.is_empty() {
        rows.push(row("rights", Grade::Ok, "may do all that is needed".into()));
    }
    if let Some(says) = unnamed_image(config, name, kubernetes) {
        rows.push(row("image", Grade::Doubt, says));
    }
    for pool in pools {
        let (grade, says) = match cluster.rehearse(&pool.spec(Timestamp::now())).await {
            Rehearsed::Fits => (Grade::Ok, format!("pods of pool `{}` are accepted", pool.name)),
            Rehearsed::Refused(why) => {
                (Grade::Wrong, format!("pods of pool `{}` are refused: {why}", pool.name))
            }
            Rehearsed::Unknown(why) => {
                (Grade::Doubt, format!("pods of pool `{}` could not be tried: {why}", pool.name))
            }
        };
        rows.push(row("pod", grade, says));
    }
    rows
}

/// Says what must be built and pushed where warm pods wait in an image that nobody named: no
/// registry has it, and no cluster tells whether its nodes do.
pub(super) fn unnamed_image(config: &Config, name: &str, of: &Kubernetes) -> Option<String> {
    let warm =
        config.pools.iter().any(|pool| pool.provider == name && pool.binding == Binding::Late);
    let image = default_poller_image();
    (warm && of.poller_image.is_none()).then(|| {
        format!(
            "warm pods wait in the image `{image}`, which no public registry has; make it with \
             `docker build -f config/docker/Dockerfile -t REGISTRY/{image} .`, push it where the nodes \
             find it, and write `poller_image` = \"REGISTRY/{image}\" in [provider.{name}]"
        )
    })
}

/// Asks an executable about itself; what an old build does not tell is no fault.
async fn ask_external(config: &Config, name: &str, external: &External) -> Vec<Row> {
    let row = |what, grade, says: String| Row {
        of: format!("provider {name}"),
        scope: None,
        finding: Finding { what, grade, says },
    };
    let probe = match probe_external(name, external, config).await {
        Ok(probe) => probe,
        Err(error) => return vec![row("executable", Grade::Wrong, chain(&error))],
    };
    let version = match probe.version {
        Ok(version) => row("version", Grade::Ok, version),
        Err(why) => row("version", Grade::Doubt, format!("it does not tell: {why}")),
    };
    let wanted = &external.interface;
    let interface = match probe.interface {
        Support::Yes => row("interface", Grade::Ok, format!("speaks {wanted}")),
        Support::Unstated => row("interface", Grade::Ok, format!("{wanted}, as every provider")),
        Support::Doubtful(why) => {
            row("interface", Grade::Doubt, format!("may not speak {wanted}: {why}"))
        }
        Support::No(known) => {
            let known = known.join(", ");
            row("interface", Grade::Wrong, format!("speaks {known}; write one as `interface`"))
        }
    };
    vec![version, interface]
}

fn table(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    let place = |row: &Row| match &row.scope {
        Some(scope) => format!("{} {scope}", row.of),
        None => row.of.clone(),
    };
    let wide = rows.iter().map(|row| place(row).chars().count()).max().unwrap_or_default();
    for row in rows {
        let grade = match row.finding.grade {
            Grade::Ok => "ok",
            Grade::Doubt => "doubt",
            Grade::Wrong => "WRONG",
        };
        let Finding { what, says, .. } = &row.finding;
        writeln!(out, "{:<wide$}  {what:<12}  {grade:<5}  {says}", place(row))?;
    }
    Ok(())
}
