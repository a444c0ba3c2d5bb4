//! `ostler hook`: installs the webhooks of the configuration, and says what is wrong with them.

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

/// Looks after the webhooks at the forges.
#[derive(Debug, Args)]
pub(super) struct Hook {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Makes the webhook of each scope, or mends the one that sends to us already.
    Install(At),
    /// Shows the webhook of each scope, how its last deliveries went, and what is wrong.
    Status {
        #[command(flatten)]
        at: At,
        /// For programs.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct At {
    /// The file, or a directory whose `*.toml` are read together.
    #[arg(long, value_name = "PATH", default_value = "/etc/ostler")]
    config: PathBuf,
    /// Only this forge.
    #[arg(long, value_name = "NAME")]
    forge: Option<String>,
    /// Only this organization or repository; without it, the scopes of all pools.
    #[arg(long, value_name = "SCOPE")]
    scope: Option<Scope>,
}

/// Tells how it went, worst last; the worst is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Well,
    NotFound,
    Failed,
    Unusable,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Well => 0,
            Outcome::Failed => 1,
            Outcome::Unusable => 2,
            Outcome::NotFound => 3,
        })
    }
}

/// Names one place where a hook belongs.
struct Target<'a> {
    forge: &'a str,
    settings: &'a ForgeSettings,
    scope: Scope,
    url: String,
}

/// Shows one place and what was found there.
#[derive(Serialize)]
struct Shown {
    forge: String,
    scope: String,
    url: String,
    hook: Option<HookView>,
    deliveries: Vec<DeliveryAttempt>,
    faults: Vec<String>,
}

impl Hook {
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

impl Action {
    async fn run(&self, out: &mut dyn Write) -> io::Result<Outcome> {
        let (Self::Install(at) | Self::Status { at, .. }) = self;
        let config = match config::load(&at.config, &Outside::real()) {
            Ok(loaded) => loaded.config,
            Err(problems) => {
                eprint!("{problems}\n{}\n", super::check::count(&problems));
                return Ok(Outcome::Unusable);
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

/// Finds where hooks belong.
fn targets<'a>(
    config: &'a Config,
    forge: Option<&str>,
    scope: Option<&Scope>,
) -> Result<Vec<Target<'a>>, (Outcome, String)> {
    let Some(public) = &config.http.public_url else {
        let why = "`http.public_url` is not set; write the address GitHub can reach this daemon at";
        return Err((Outcome::Unusable, why.into()));
    };
    if let Some(name) = forge.filter(|name| !config.forges.contains_key(*name)) {
        let why = format!("there is no `[forge.{name}]` in the configuration");
        return Err((Outcome::NotFound, why));
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
        targets.extend(scopes.into_iter().map(|scope| Target {
            forge: name,
            settings,
            scope,
            url: url.clone(),
        }));
    }
    if targets.is_empty() {
        let why = "no pool names a scope here; add a pool, or name one with --scope";
        return Err((Outcome::NotFound, why.into()));
    }
    Ok(targets)
}

async fn install(out: &mut dyn Write, targets: &[Target<'_>]) -> io::Result<Outcome> {
    let mut worst = Outcome::Well;
    for target in targets {
        let (forge, scope) = (target.forge, &target.scope);
        // The first is the new one while it replaces the old.
        let Some(secret) = target.settings.webhook_secrets.first() else {
            eprintln!(
                "ostler hook: forge `{forge}` has no webhook_secret; a hook without one is refused"
            );
            worst = worst.max(Outcome::Unusable);
            continue;
        };
        let hooks = match forge_services(forge, target.settings) {
            Ok(services) => services.hooks,
            Err(error) => {
                super::tell_error("hook", &error);
                worst = worst.max(Outcome::Unusable);
                continue;
            }
        };
        let Some(hooks) = hooks else {
            eprintln!("ostler hook: forge `{forge}` has no hooks that can be installed");
            worst = worst.max(Outcome::Unusable);
            continue;
        };
        // An App whose own hook comes here needs no other; not being able to tell hinders nobody.
        if let Ok(Some(_)) = hooks.shared_hook(&target.url).await {
            writeln!(
                out,
                "{forge} {scope}: the App's own hook sends to {}; nothing to do",
                target.url
            )?;
            continue;
        }
        match hooks.install_hook(scope, &target.url, secret.text()).await {
            Ok(Installed::Created(id)) => {
                writeln!(out, "{forge} {scope}: hook {id} made, sends to {}", target.url)?;
            }
            Ok(Installed::Updated(id)) => {
                writeln!(out, "{forge} {scope}: hook {id} was there and is now as configured")?;
            }
            Err(why) => {
                eprintln!("ostler hook: {forge} {scope}: {why}");
                worst = worst.max(Outcome::Failed);
            }
        }
    }
    Ok(worst)
}

async fn status(out: &mut dyn Write, targets: &[Target<'_>], json: bool) -> io::Result<Outcome> {
    let mut worst = Outcome::Well;
    let mut all = Vec::new();
    for target in targets {
        let shown = match forge_services(target.forge, target.settings).map(|it| it.hooks) {
            Ok(Some(hooks)) => look(&*hooks, target).await,
            Ok(None) => Err("this forge has no hooks that can be inspected".into()),
            Err(error) => Err(error.to_string()),
        };
        let (outcome, shown) = match shown {
            Ok(shown) if shown.hook.is_none() => (Outcome::NotFound, shown),
            Ok(shown) if shown.faults.is_empty() => (Outcome::Well, shown),
            Ok(shown) => (Outcome::Failed, shown),
            Err(why) => (Outcome::Failed, Shown { faults: vec![why], ..Shown::empty(target) }),
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

/// Looks at the hook of one place: its own, or the App's.
async fn look(hooks: &dyn ForgeHooks, target: &Target<'_>) -> Result<Shown, String> {
    let mut shown = Shown::empty(target);
    let of_app = hooks.shared_hook(&target.url).await.unwrap_or_default();
    let found = match of_app {
        Some(hook) => vec![hook],
        None => hooks.hooks_to(&target.scope, &target.url).await?,
    };
    let Some(hook) = found.first() else {
        shown.faults.push("no hook sends to us; run `ostler hook install`".into());
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
        let why = format!("hooks {} all send to us; remove all but one", ids.join(", "));
        shown.faults.push(why);
    }
    shown.hook = Some(hook.clone());
    Ok(shown)
}

impl Shown {
    fn empty(target: &Target<'_>) -> Self {
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

fn show(out: &mut dyn Write, shown: &Shown) -> io::Result<()> {
    writeln!(out, "{} {}", shown.forge, shown.scope)?;
    writeln!(out, "  address     {}", shown.url)?;
    if let Some(hook) = &shown.hook {
        let id = hook.id.map_or_else(|| "the App's own".to_owned(), |id| id.to_string());
        let on = if hook.active { "on" } else { "off" };
        writeln!(out, "  hook        {id}, {on}, tells of {}", hook.events.join(", "))?;
        for one in &shown.deliveries {
            let at = one.delivered_at.map(|at| at.to_string()).unwrap_or_default();
            writeln!(out, "  {:>3}         {at} {} {}", one.status_code, one.event, one.guid)?;
        }
        if shown.deliveries.is_empty() {
            writeln!(out, "  deliveries  none yet")?;
        }
    }
    for fault in &shown.faults {
        writeln!(out, "  wrong       {fault}")?;
    }
    if shown.faults.is_empty() {
        writeln!(out, "  well")?;
    }
    Ok(())
}
