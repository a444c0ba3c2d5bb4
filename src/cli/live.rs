//! `ostler check --live`: asks forges and providers whether they would accept our calls.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::process::ExitCode;

use jiff::Timestamp;
use ostler_actors::model::Scope;
use ostler_actors::ports::{Finding, Grade};
use serde::Serialize;

use crate::config::{Config, ForgeSettings};
use crate::daemon::{forge_services, provider_capabilities};
use crate::errors::chain;
use crate::ports::ScopeCheck;

/// One finding and what it is about.
#[derive(Serialize)]
struct Row {
    /// A forge, or a provider.
    of: String,
    /// The scope, at a forge.
    scope: Option<String>,
    #[serde(flatten)]
    finding: Finding,
}

/// Tries everything and prints the findings; fails when one is wrong.
pub(super) fn check(out: &mut dyn Write, config: &Config, json: bool) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let rows = runtime.block_on(async {
        let mut rows = Vec::new();
        for (name, forge) in &config.forges {
            rows.extend(try_forge(config, name, forge).await);
        }
        for name in config.providers.keys() {
            rows.extend(try_provider(config, name).await);
        }
        rows
    });
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
    let services = match forge_services(name, forge) {
        Ok(services) => services,
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
        let check = ScopeCheck { scope, groups: &groups, url: url.as_deref() };
        let findings = services.monitor.check_scope(&check).await;
        let row = |finding| Row { of: of.clone(), scope: Some(scope.to_string()), finding };
        rows.extend(findings.into_iter().map(row));
    }
    rows
}

/// Opens a provider, and lets it try what the pools of the configuration need of it.
async fn try_provider(config: &Config, name: &str) -> Vec<Row> {
    let row = |finding| Row { of: format!("provider {name}"), scope: None, finding };
    let capabilities = match provider_capabilities(name, config) {
        Ok(capabilities) => capabilities,
        Err(error) => return vec![row(Finding::new("provider", Grade::Wrong, chain(&error)))],
    };
    let mut rows = vec![row(Finding::new("provider", Grade::Ok, "opens"))];
    if let Some(self_check) = capabilities.self_check {
        let pools = config.pools.iter().filter(|pool| pool.provider == name);
        let pools: Vec<_> = pools.map(|pool| pool.spec(Timestamp::now())).collect();
        rows.extend(self_check.check(&pools).await.into_iter().map(row));
    }
    if let Some(says) = super::check::unnamed_image(config, name) {
        rows.push(row(Finding::new("image", Grade::Doubt, says)));
    }
    rows
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
