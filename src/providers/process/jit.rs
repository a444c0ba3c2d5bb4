//! The JIT config as files: never an argument, never a variable.
//!
//! Errors tell the shape that is wrong and nothing of the content.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;

use ostler_actors::ports::Jit;
use serde::{Deserialize, Serialize};

use super::files::create_private;
use super::user::User;
use crate::providers::jit::{BadShape, unpack};

/// Stands for the path of the JIT config in a command.
pub(super) const PLACE: &str = "{jit_file}";
/// The file it is put into where a command asks for it.
pub(super) const FILE: &str = ".jitconfig";

/// Tells how a command wants its JIT config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    /// In one file whose path it is told.
    AsItCame,
    /// As the files the official runner reads.
    Unpacked,
}

impl Form {
    /// Returns what a command asks for.
    pub(super) fn of(command: &[String]) -> Self {
        let asked = command.iter().any(|word| word.contains(PLACE));
        if asked { Self::AsItCame } else { Self::Unpacked }
    }
}

/// Tells why a JIT config cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadJit {
    #[error("the command names `{PLACE}`, but the runner was not registered before its machine")]
    Missing,
    #[error(transparent)]
    Shape(#[from] BadShape),
    #[error("cannot write the JIT config's file `{0}`: {1}")]
    Write(String, io::Error),
}

/// Puts the JIT config where the command expects it; returns the names of the files.
pub(super) fn lay_out(
    jit: Option<&Jit>,
    form: Form,
    work: &Path,
    user: Option<User>,
) -> Result<Vec<String>, BadJit> {
    let files = match (jit, form) {
        (None, Form::AsItCame) => return Err(BadJit::Missing),
        (None, Form::Unpacked) => BTreeMap::new(),
        (Some(jit), Form::AsItCame) => BTreeMap::from([(FILE.to_owned(), jit.reveal().into())]),
        (Some(jit), Form::Unpacked) => unpack(jit.reveal())?,
    };
    for (name, content) in &files {
        let path = work.join(name);
        let written = create_private(&path)
            .and_then(|mut file| file.write_all(content))
            .and_then(|()| user.map_or(Ok(()), |user| user.give(&path)));
        written.map_err(|error| BadJit::Write(name.clone(), error))?;
    }
    Ok(files.into_keys().collect())
}

/// Overwrites and removes a secret file; one that is gone is fine.
pub(super) fn wipe(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) => {
            // A link would lead the zeros to a file outside.
            if meta.is_file() && std::os::unix::fs::MetadataExt::nlink(&meta) == 1 {
                let blank = vec![0; usize::try_from(meta.len()).unwrap_or(0).min(1 << 20)];
                std::fs::write(path, blank)?;
            }
            std::fs::remove_file(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn packed(files: &[(&str, &str)]) -> Jit {
        let inner: BTreeMap<&str, String> =
            files.iter().map(|(name, text)| (*name, STANDARD.encode(text))).collect();
        Jit::new(STANDARD.encode(serde_json::to_vec(&inner).unwrap()))
    }

    #[test]
    fn a_config_becomes_the_files_the_runner_reads() {
        let work = tempfile::tempdir().unwrap();
        let jit =
            packed(&[(".runner", "{}"), (".credentials", "c"), (".credentials_rsaparams", "k")]);
        let names = lay_out(Some(&jit), Form::Unpacked, work.path(), None).unwrap();
        assert_eq!(names, [".credentials", ".credentials_rsaparams", ".runner"]);
        let key = work.path().join(".credentials_rsaparams");
        assert_eq!(std::fs::read_to_string(&key).unwrap(), "k");
        assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        wipe(&key).unwrap();
        wipe(&key).unwrap();
        assert!(!key.exists());
    }

    #[test]
    fn a_custom_command_gets_the_config_as_it_came() {
        let work = tempfile::tempdir().unwrap();
        let command = ["agent".to_owned(), format!("--config={PLACE}")];
        let form = Form::of(&command);
        let names = lay_out(Some(&Jit::new("as it came")), form, work.path(), None).unwrap();
        assert_eq!(names, [FILE]);
        assert_eq!(std::fs::read_to_string(work.path().join(FILE)).unwrap(), "as it came");
        assert!(matches!(lay_out(None, form, work.path(), None), Err(BadJit::Missing)));
    }

    #[test]
    fn a_config_of_another_shape_is_refused_and_not_quoted() {
        let work = tempfile::tempdir().unwrap();
        let deep = packed(&[("../../etc/cron.d/x", "s3cret")]);
        let plain = Jit::new(STANDARD.encode("\"s3cret\""));
        for bad in [Jit::new("s3cret!"), plain, deep, packed(&[("..", "x")]), packed(&[])] {
            let error = lay_out(Some(&bad), Form::Unpacked, work.path(), None).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
        assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0);
    }
}
