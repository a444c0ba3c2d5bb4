//! Providers, from GARM's own configuration file: its database does not know them.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::ImportError;

/// The name of an executable that is named by its folder alone.
const STANDARD: &str = "garm-external-provider";

/// A provider as GARM's configuration describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GarmProvider {
    pub(super) name: String,
    pub(super) executable: PathBuf,
    pub(super) config_file: Option<String>,
    pub(super) interface: Option<String>,
    pub(super) pass_env: Vec<String>,
}

/// Reads the providers of GARM's `config.toml`.
pub fn providers(path: &Path) -> Result<Vec<GarmProvider>, ImportError> {
    let failed = |why: String| ImportError::Config { path: path.display().to_string(), why };
    let whole = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let whole: Table = whole.parse().map_err(|error: toml::de::Error| failed(error.to_string()))?;
    let all = whole.get("provider").and_then(Value::as_array).into_iter().flatten();
    Ok(all.filter_map(Value::as_table).filter_map(provider).collect())
}

fn provider(table: &Table) -> Option<GarmProvider> {
    let external = table.get("external").and_then(Value::as_table)?;
    let text = |key: &str| {
        external.get(key).and_then(Value::as_str).filter(|it| !it.is_empty()).map(str::to_owned)
    };
    let folder = || Some(PathBuf::from(text("provider_dir")?).join(STANDARD));
    let executable = text("provider_executable").map(PathBuf::from).or_else(folder)?;
    let passed = external.get("environment_variables").and_then(Value::as_array);
    let passed = passed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Some(GarmProvider {
        name: table.get("name").and_then(Value::as_str)?.to_owned(),
        executable,
        config_file: text("config_file"),
        interface: text("interface_version"),
        pass_env: passed.collect(),
    })
}
