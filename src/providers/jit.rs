//! The JIT config as the files it stands for.
//!
//! It is base64 of a JSON object from file names to base64 contents (`.runner`, `.credentials`,
//! `.credentials_rsaparams`); the official runner would unpack it the same way. Errors tell the
//! shape that is wrong and nothing of the content.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Tells what is wrong with the shape of a JIT config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the JIT config is not what a runner understands: {0}")]
pub(crate) struct BadShape(&'static str);

/// Returns the files of a JIT config: hidden ones, by name.
pub(crate) fn unpack(jit: &str) -> Result<BTreeMap<String, Vec<u8>>, BadShape> {
    let outer = STANDARD.decode(jit.trim()).map_err(|_| BadShape("no base64"))?;
    let files: BTreeMap<String, String> =
        serde_json::from_slice(&outer).map_err(|_| BadShape("no JSON object of texts within"))?;
    let mut unpacked = BTreeMap::new();
    for (name, content) in files {
        // The forge is trusted with a runner's secrets, not with the paths of this host.
        let hidden = name.starts_with('.') && name.len() > 1 && !name.starts_with("..");
        if !hidden || name.contains(['/', '\0']) {
            return Err(BadShape("a file name that is no hidden file"));
        }
        let content = STANDARD.decode(content).map_err(|_| BadShape("a file that is no base64"))?;
        unpacked.insert(name, content);
    }
    if unpacked.is_empty() {
        return Err(BadShape("no files within"));
    }
    Ok(unpacked)
}
