//! `ostler hook`: installs the webhooks of the configuration and checks them.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ostler_actors::model::Scope;
use serde::Serialize;

use crate::config::{self, Config, ForgeSettings, Outside};
use crate::daemon::forge_services;
use crate::ports::{DeliveryAttempt, ForgeHooks, HookRef, HookView, Installed};

/// Installs and checks the webhooks at the forges.
#[derive(Debug, Args)]
pub(super) struct HookArgs {
    #[command(subcommand)]
    action: HookAction,
}

#[derive(Debug, Subcommand)]
enum HookAction {
    /// Creates the webhook of each scope, or repairs the one that exists.
    Install(HookTargets),
    /// Shows the webhook of each scope, its last deliveries and its problems.
    Status {
        #[command(flatten)]
        at: HookTargets,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct HookTargets {
    /// The configuration file, or a directory whose `*.toml` files are read together.
    #[arg(long, value_name = "PATH", default_value = "/etc/ostler")]
    config: PathBuf,
    /// Only this forge.
    #[arg(long, value_name = "NAME")]
    forge: Option<String>,
    /// Only this organization or repository instead of the scopes of all pools.
    #[arg(long, value_name = "SCOPE")]
    scope: Option<Scope>,
}

/// The result for one scope, worst last; the worst decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HookOutcome {
    Ok,
    NotFound,
    Failed,
    Unusable,
}

impl From<HookOutcome> for ExitCode {
    fn from(outcome: HookOutcome) -> Self {
        Self::from(match outcome {
            HookOutcome::Ok => 0,
            HookOutcome::Failed => 1,
            HookOutcome::Unusable => 2,
            HookOutcome::NotFound => 3,
        })
    }
}

/// One scope that needs a hook.
struct HookTarget<'a> {
    forge: &'a str,
    settings: &'a ForgeSettings,
    scope: Scope,
    url: String,
}

/// One scope and what was found there.
#[derive(Serialize)]
struct HookReport {
    forge: String,
    scope: String,
    url: String,
    hook: Option<HookView>,
    deliveries: Vec<DeliveryAttempt>,
    faults: Vec<String>,
}

impl HookArgs {
    pub(super) fn run(&self) -> ExitCode {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                eprintln!("ostler hook: cannot start: {error}");
                return ExitCode::FAILURE;
            }
        };
        super::finish("hook", |out| runtime.block_on(self.action.run(out)).map(ExitCode::from))
    }
}

impl HookAction {
    async fn run(&self, out: &mut dyn Write) -> io::Result<HookOutcome> {
        let (Self::Install(at) | Self::Status { at, .. }) = self;
        let config = match config::load(&at.config, &Outside::real()) {
            Ok(loaded) => loaded.config,
            Err(problems) => {
                eprint!("{problems}\n{}\n", super::check::count(&problems));
                return Ok(HookOutcome::Unusable);
            }
        };
        let targets = match targets(&config, at.forge.as_deref(), at.scope.as_ref()) {
            Ok(targets) => targets,
            Err((outcome, why)) => {
                eprintln!("ostler hook: {why}");
                return Ok(outcome);
            }
        };
        match self {
            Self::Install(_) => install(out, &targets).await,
            Self::Status { json, .. } => status(out, &targets, *json).await,
        }
    }
}

/// Returns the scopes that need a hook.
fn targets<'a>(
    config: &'a Config,
    forge: Option<&str>,
    scope: Option<&Scope>,
) -> Result<Vec<HookTarget<'a>>, (HookOutcome, String)> {
    let Some(public) = &config.http.public_url else {
        let why = "`http.public_url` is not set; write the address GitHub can reach this daemon at";
        return Err((HookOutcome::Unusable, why.into()));
    };
    if let Some(name) = forge.filter(|name| !config.forges.contains_key(*name)) {
        let why = format!("forge `{name}` not found: the configuration has no `[forge.{name}]`");
        return Err((HookOutcome::NotFound, why));
    }
    let mut targets = Vec::new();
    for (name, settings) in
        config.forges.iter().filter(|(name, _)| forge.is_none_or(|it| it == *name))
    {
        let of_pools = config.pools.iter().filter(|pool| pool.forge.as_str() == name);
        let scopes: BTreeSet<Scope> = match scope {
            Some(scope) => BTreeSet::from([scope.clone()]),
            None => of_pools.map(|pool| pool.scope.clone()).collect(),
        };
        let url = format!("{public}/webhooks/{name}");
        targets.extend(scopes.into_iter().map(|scope| HookTarget {
            forge: name,
            settings,
            scope,
            url: url.clone(),
        }));
    }
    if targets.is_empty() {
        let why = "no scope found: add a pool, or give one with --scope";
        return Err((HookOutcome::NotFound, why.into()));
    }
    Ok(targets)
}

async fn install(out: &mut dyn Write, targets: &[HookTarget<'_>]) -> io::Result<HookOutcome> {
    let mut worst = HookOutcome::Ok;
    for target in targets {
        let (forge, scope) = (target.forge, &target.scope);
        // While a secret is rotated, the first one is the new one.
        let Some(secret) = target.settings.webhook_secrets.first() else {
            eprintln!(
                "ostler hook: forge `{forge}` has no webhook_secret, and a hook without one is refused"
            );
            worst = worst.max(HookOutcome::Unusable);
            continue;
        };
        let hooks = match forge_services(forge, target.settings) {
            Ok(services) => services.hooks,
            Err(error) => {
                super::print_error("hook", &error);
                worst = worst.max(HookOutcome::Unusable);
                continue;
            }
        };
        let Some(hooks) = hooks else {
            eprintln!("ostler hook: forge `{forge}` has no hooks that can be installed");
            worst = worst.max(HookOutcome::Unusable);
            continue;
        };
        // An App whose own hook sends here needs no other. When that cannot be read, a hook is installed.
        if let Ok(Some(_)) = hooks.shared_hook(&target.url).await {
            writeln!(
                out,
                "{forge} {scope}: the hook of the App sends to {}; no change needed",
                target.url
            )?;
            continue;
        }
        match hooks.install_hook(scope, &target.url, secret.text()).await {
            Ok(Installed::Created(id)) => {
                writeln!(out, "{forge} {scope}: hook {id} created, sends to {}", target.url)?;
            }
            Ok(Installed::Updated(id)) => {
                writeln!(out, "{forge} {scope}: hook {id} existed and is now as configured")?;
            }
            Err(why) => {
                eprintln!("ostler hook: {forge} {scope}: {why}");
                worst = worst.max(HookOutcome::Failed);
            }
        }
    }
    Ok(worst)
}

async fn status(
    out: &mut dyn Write,
    targets: &[HookTarget<'_>],
    json: bool,
) -> io::Result<HookOutcome> {
    let mut worst = HookOutcome::Ok;
    let mut all = Vec::new();
    for target in targets {
        let shown = match forge_services(target.forge, target.settings).map(|it| it.hooks) {
            Ok(Some(hooks)) => inspect(&*hooks, target).await,
            Ok(None) => Err("this forge has no hooks that can be inspected".into()),
            Err(error) => Err(error.to_string()),
        };
        let (outcome, shown) = match shown {
            Ok(shown) if shown.hook.is_none() => (HookOutcome::NotFound, shown),
            Ok(shown) if shown.faults.is_empty() => (HookOutcome::Ok, shown),
            Ok(shown) => (HookOutcome::Failed, shown),
            Err(why) => {
                (HookOutcome::Failed, HookReport { faults: vec![why], ..HookReport::empty(target) })
            }
        };
        worst = worst.max(outcome);
        if !json {
            show(out, &shown)?;
        }
        all.push(shown);
    }
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
    }
    Ok(worst)
}

/// Reads the hook of one scope: its own, or that of the App.
async fn inspect(hooks: &dyn ForgeHooks, target: &HookTarget<'_>) -> Result<HookReport, String> {
    let mut shown = HookReport::empty(target);
    let of_app = hooks.shared_hook(&target.url).await.unwrap_or_default();
    let found = match of_app {
        Some(hook) => vec![hook],
        None => hooks.hooks_to(&target.scope, &target.url).await?,
    };
    let Some(hook) = found.first() else {
        shown.faults.push("no hook sends here; run `ostler hook install`".into());
        return Ok(shown);
    };
    let which =
        hook.id.map_or(HookRef::Shared, |id| HookRef::Scope { scope: target.scope.clone(), id });
    match hooks.delivery_log(&which).await {
        Ok(log) => shown.deliveries = log,
        Err(why) => shown.faults.push(why),
    }
    shown.faults.extend(hooks.faults(hook, &shown.deliveries));
    if found.len() > 1 {
        let ids: Vec<String> =
            found.iter().filter_map(|it| it.id).map(|id| id.to_string()).collect();
        let why = format!("hooks {} all send here; remove all but one", ids.join(", "));
        shown.faults.push(why);
    }
    shown.hook = Some(hook.clone());
    Ok(shown)
}

impl HookReport {
    fn empty(target: &HookTarget<'_>) -> Self {
        Self {
            forge: target.forge.to_owned(),
            scope: target.scope.to_string(),
            url: target.url.clone(),
            hook: None,
            deliveries: Vec::new(),
            faults: Vec::new(),
        }
    }
}

fn show(out: &mut dyn Write, shown: &HookReport) -> io::Result<()> {
    writeln!(out, "{} {}", shown.forge, shown.scope)?;
    writeln!(out, "  address     {}", shown.url)?;
    if let Some(hook) = &shown.hook {
        let id = hook.id.map_or_else(|| "of the App".to_owned(), |id| id.to_string());
        let on = if hook.active { "on" } else { "off" };
        writeln!(out, "  hook        {id}, {on}, events {}", hook.events.join(", "))?;
        for one in &shown.deliveries {
            let at = one.delivered_at.map(|at| at.to_string()).unwrap_or_default();
            writeln!(out, "  {:>3}         {at} {} {}", one.status_code, one.event, one.guid)?;
        }
        if shown.deliveries.is_empty() {
            writeln!(out, "  deliveries  none yet")?;
        }
    }
    for fault in &shown.faults {
        writeln!(out, "  problem     {fault}")?;
    }
    if shown.faults.is_empty() {
        writeln!(out, "  ok")?;
    }
    Ok(())
}
