//! `ostler check`: reads the configuration and reports everything that is wrong with it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ostler_actors::model::Binding;

use crate::config::{self, Config, Loaded, Outside, Pool, Problems, ProviderSettings, Severity};

/// Checks the configuration: every problem at once, each with its place and the way out.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(super) struct Check {
    /// The file, or a directory whose `*.toml` are read together.
    #[arg(long, value_name = "PATH", default_value = "/etc/ostler")]
    config: PathBuf,
    /// Looks at the text alone: no secret, program or folder need be on this machine.
    #[arg(long)]
    text_only: bool,
    /// Also checks remotely: credentials, rights, hooks, groups and clocks of forges, and whether providers open.
    #[arg(long, conflicts_with = "text_only")]
    live: bool,
    /// Prints the JSON Schema of the configuration instead.
    #[arg(long, conflicts_with_all = ["config", "text_only", "json", "live"])]
    schema: bool,
    /// Prints an example with every key, its meaning and its default instead.
    #[arg(long, conflicts_with_all = ["config", "text_only", "json", "live", "schema"])]
    example: bool,
    /// Prints the problems as JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(&self) -> ExitCode {
        super::finish("check", |out| {
            if self.schema {
                writeln!(out, "{}", serde_json::to_string_pretty(&config::schema())?)?;
                Ok(ExitCode::SUCCESS)
            } else if self.example {
                write!(out, "{}", config::example())?;
                Ok(ExitCode::SUCCESS)
            } else {
                self.check(out)
            }
        })
    }

    fn check(&self, out: &mut dyn Write) -> io::Result<ExitCode> {
        let outside = if self.text_only { Outside::text_only() } else { Outside::real() };
        let outcome = config::load(&self.config, &outside);
        if let (true, Ok(loaded)) = (self.live, &outcome) {
            if !loaded.warnings.is_empty() {
                eprintln!("{}", loaded.warnings);
            }
            return super::live::check(out, &loaded.config, self.json);
        }
        let code = if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(2) };
        if self.json {
            let reports = match &outcome {
                Ok(loaded) => loaded.warnings.reports(),
                Err(problems) => problems.reports(),
            };
            writeln!(out, "{}", serde_json::to_string_pretty(&reports)?)?;
            return Ok(code);
        }
        match outcome {
            Ok(loaded) => print_summary(out, &loaded)?,
            Err(problems) => eprint!("{problems}\n{}\n", count(&problems)),
        }
        Ok(code)
    }
}

fn print_summary(out: &mut dyn Write, loaded: &Loaded) -> io::Result<()> {
    if !loaded.warnings.is_empty() {
        eprintln!("{}", loaded.warnings);
    }
    let config = &loaded.config;
    let (pools, forges, providers) =
        (config.pools.len(), config.forges.len(), config.providers.len());
    let end = if loaded.warnings.is_empty() {
        String::new()
    } else {
        format!("; {}", count(&loaded.warnings))
    };
    writeln!(out, "ok: pools {pools}, forges {forges}, providers {providers}{end}")?;
    for name in config.providers.keys() {
        if let Some(hint) = unnamed_image(config, name) {
            writeln!(out, "note: {hint}")?;
        }
    }
    if let Some(hint) = without_witness(config) {
        writeln!(out, "note: {hint}")?;
    }
    Ok(())
}

/// Names the pools whose machines cannot say themselves whether a job runs there.
pub(super) fn without_witness(config: &Config) -> Option<String> {
    let is_external = |pool: &&Pool| {
        matches!(config.providers.get(&pool.provider), Some(ProviderSettings::External(_)))
    };
    let external = config.pools.iter().filter(is_external);
    let without: Vec<String> = external
        .filter(|pool| !pool.has_supervisor())
        .map(|pool| format!("`{}`", pool.name))
        .collect();
    (!without.is_empty()).then(|| {
        format!(
            "no witness in the machines of {}: an idle machine leaves only when the forge rules out a job \
             there; machines on Linux have one unless `witness` is \"none\" or `extra_specs` brings a \
             `runner_install_template`",
            without.join(", ")
        )
    })
}

/// Says what must be built and pushed where warm pods wait in an image that is not configured: no
/// registry has it, and no cluster tells whether its nodes do.
pub(super) fn unnamed_image(config: &Config, name: &str) -> Option<String> {
    let Some(ProviderSettings::Kubernetes(settings)) = config.providers.get(name) else {
        return None;
    };
    let warm =
        config.pools.iter().any(|pool| pool.provider == name && pool.binding == Binding::Late);
    let image = config::default_poller_image();
    (warm && settings.poller_image.is_none()).then(|| {
        format!(
            "warm pods wait in the image `{image}`, which no public registry has; make it with \
             `docker build -f config/docker/Dockerfile -t REGISTRY/{image} .`, push it where the nodes \
             find it, and write `poller_image` = \"REGISTRY/{image}\" in [provider.{name}]"
        )
    })
}

/// Returns the last line: how many errors and warnings there are.
pub(super) fn count(problems: &Problems) -> String {
    let of = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let words = |number: usize, word: &str| {
        format!("{number} {word}{}", if number == 1 { "" } else { "s" })
    };
    match (of(Severity::Error), of(Severity::Warning)) {
        (0, warnings) => words(warnings, "warning"),
        (errors, 0) => words(errors, "error"),
        (errors, warnings) => format!("{}, {}", words(errors, "error"), words(warnings, "warning")),
    }
}
