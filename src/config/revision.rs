//! The name of a machine's shape: equal text, equal machines; anything that shapes them changes it.

use std::fmt::Write;

use ostler_actors::model::{Binding, Revision};
use serde_json::{Value, json};

use super::declare::Declared as _;
use super::pools::{Pool, Witness};
use super::providers::{Kubernetes, ProviderSettings};

/// Returns the revision of a pool's machines; `home` is where warm ones ask for work. It must stay the
/// same from release to release as long as the configuration does: a new one replaces every idle
/// machine of the pool.
pub(crate) fn of(pool: &Pool, provider: &ProviderSettings, home: Option<&str>) -> Revision {
    let mut labels: Vec<String> = pool.labels.iter().map(|label| label.to_lowercase()).collect();
    labels.sort();
    let machine = pool.machine();
    let mut shape = json!({
        "forge": pool.forge,
        "scope": pool.scope.to_string().to_lowercase(),
        "provider": pool.provider,
        "binding": format!("{:?}", pool.binding),
        "labels": labels,
        "runner_group": pool.runner_group,
        "image": machine.image,
        "flavor": machine.flavor,
        "os": machine.os,
        "arch": machine.arch,
        "extra": machine.extra,
        "made_by": made_by(provider),
    });
    if pool.witness == Witness::None {
        shape["witness"] = json!("none");
    }
    if pool.binding == Binding::Late {
        // A warm machine asks at the address it got when it was created, and nowhere else.
        shape["asks"] = json!(home);
    }
    let mut text = String::new();
    canonical(&shape, &mut text);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    let mut name = String::new();
    for byte in &digest.as_ref()[..6] {
        let _ = write!(name, "{byte:02x}");
    }
    Revision::new(name)
}

/// Returns what of a provider's own settings shapes the machine.
fn made_by(provider: &ProviderSettings) -> Value {
    match provider {
        ProviderSettings::Process(process) => json!({
            "runner_dir": process.runner_dir,
            "command": process.command,
            "user": process.user,
            "limits": process.limits.page(),
            "nice": process.nice,
        }),
        // Only where it is written: a release of ours must not replace every pod.
        ProviderSettings::Kubernetes(Kubernetes { poller_image: Some(image), .. }) => {
            json!({ "poller_image": image })
        }
        // Where a cluster is and how an executable is called do not change what they make.
        ProviderSettings::Kubernetes(_) | ProviderSettings::External(_) => Value::Null,
    }
}

/// Writes JSON with its keys in order, whatever order the library keeps them in.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            for key in keys {
                let _ = write!(text, "{{{key:?}:");
                canonical(&map[key], text);
                text.push('}');
            }
        }
        Value::Array(list) => {
            text.push('[');
            for one in list {
                canonical(one, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(text, "{value}");
        }
    }
}
