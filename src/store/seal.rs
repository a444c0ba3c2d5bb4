//! Seals JIT configs before they rest in the store: AES-256-GCM, a fresh nonce each time.
//!
//! The sealed text is `v1.` and the base64 of nonce, cipher text and tag. It is bound to the key and
//! to nothing else, so a row may be copied or restored and still be opened; with another key it
//! is noise.

use std::fs::{File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_actors::ports::{Jit, Seal};

const VERSION: &str = "v1.";
const KEY_BYTES: usize = 32;
const KEY_FILE: &str = "seal.key";

/// Seals with one key.
pub struct AesSeal {
    key: RandomizedNonceKey,
    root: hmac::Key,
}

/// Tells why there is no key to seal with.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The text is no key.
    #[error(
        "seal key from {from} is not usable: give 32 bytes, raw, as 64 hex digits or as base64 \
         (`openssl rand -base64 32` makes one)"
    )]
    Unusable {
        /// Where it came from.
        from: String,
    },
    /// Others can read the key.
    #[error("seal key `{path}` can be read by others: run `chmod 600 {path}`")]
    Exposed { path: String },
    /// The file could not be read or made.
    #[error("cannot use seal key `{path}`: {why}")]
    File {
        path: String,
        /// What the system said.
        why: String,
    },
}

impl AesSeal {
    /// Takes a key from the config: 32 bytes, raw or written in hex or base64.
    pub fn from_config(key: &[u8]) -> Result<Self, SealError> {
        Self::read(key, "`store.seal_key`")
    }

    /// Takes the key in `state_dir/seal.key`, making it on first use.
    pub fn from_state_dir(state_dir: &Path) -> Result<Self, SealError> {
        let path = state_dir.join(KEY_FILE);
        let failed = |error: io::Error| SealError::File {
            path: path.display().to_string(),
            why: error.to_string(),
        };
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_key_file(&path).map_err(failed)?;
                File::open(&path).map_err(failed)?
            }
            Err(error) => return Err(failed(error)),
        };
        let mode = file.metadata().map_err(failed)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(SealError::Exposed { path: path.display().to_string() });
        }
        let mut key = Vec::new();
        file.read_to_end(&mut key).map_err(failed)?;
        Self::read(&key, &format!("`{}`", path.display()))
    }

    fn read(key: &[u8], from: &str) -> Result<Self, SealError> {
        let unusable = || SealError::Unusable { from: from.into() };
        let bytes = decode(key).ok_or_else(unusable)?;
        let key = RandomizedNonceKey::new(&AES_256_GCM, &bytes).map_err(|_| unusable())?;
        Ok(Self { key, root: hmac::Key::new(hmac::HMAC_SHA256, &bytes) })
    }

    /// Returns a key for something else than sealing; the same for the same purpose, and no way
    /// back to the one it is made from.
    pub fn key_for(&self, purpose: &str) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(hmac::sign(&self.root, purpose.as_bytes()).as_ref());
        key
    }
}

/// Creates the key file whole or not at all; one that another process created meanwhile is kept.
fn create_key_file(path: &Path) -> io::Result<()> {
    let mut key = [0; KEY_BYTES];
    aws_lc_rs::rand::fill(&mut key).map_err(|_| io::Error::other("no random bytes to be had"))?;
    let draft = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    writeln!(file, "{}", STANDARD.encode(key))?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

fn decode(key: &[u8]) -> Option<Vec<u8>> {
    if key.len() == KEY_BYTES {
        return Some(key.to_vec());
    }
    let text = std::str::from_utf8(key).ok()?.trim();
    let bytes = if text.len() == 2 * KEY_BYTES {
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect();
        digits?.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
    } else {
        STANDARD.decode(text).ok()?
    };
    (bytes.len() == KEY_BYTES).then_some(bytes)
}

impl Seal for AesSeal {
    fn seal(&self, jit: &Jit) -> String {
        let mut text = jit.reveal().as_bytes().to_vec();
        let nonce = self
            .key
            .seal_in_place_append_tag(Aad::empty(), &mut text)
            .expect("AES-GCM fails only on texts of 64 GiB and without any randomness");
        let mut sealed = nonce.as_ref().to_vec();
        sealed.append(&mut text);
        format!("{VERSION}{}", STANDARD.encode(sealed))
    }

    fn open(&self, sealed: &str) -> Option<Jit> {
        let mut bytes = STANDARD.decode(sealed.strip_prefix(VERSION)?).ok()?;
        let (nonce, text) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let text = self.key.open_in_place(nonce, Aad::empty(), text).ok()?;
        std::str::from_utf8(text).ok().map(Jit::new)
    }
}

impl fmt::Debug for AesSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AesSeal(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(byte: u8) -> AesSeal {
        AesSeal::from_config(&[byte; 32]).expect("a key")
    }

    #[test]
    fn what_was_sealed_is_opened_by_the_same_key_alone() {
        let sealed = seal(1).seal(&Jit::new("secret"));
        assert!(!sealed.contains("secret") && sealed.starts_with("v1."));
        assert_eq!(seal(1).open(&sealed).expect("our own").reveal(), "secret");
        assert!(seal(2).open(&sealed).is_none(), "another key opened it");
        assert_ne!(seal(1).seal(&Jit::new("secret")), sealed, "two seals of one text are alike");
    }

    #[test]
    fn a_changed_or_foreign_text_opens_to_nothing() {
        let sealed = seal(1).seal(&Jit::new("secret"));
        let mut bytes = STANDARD.decode(&sealed[3..]).expect("base64");
        bytes[14] ^= 1;
        assert!(seal(1).open(&format!("v1.{}", STANDARD.encode(bytes))).is_none());
        for text in ["", "v1.", "v1.AAAA", "v2.AAAA", "secret", "v1.***"] {
            assert!(seal(1).open(text).is_none(), "{text}");
        }
    }

    #[test]
    fn nothing_is_printed() {
        assert_eq!(format!("{:?}", seal(7)), "AesSeal(…)");
    }

    #[test]
    fn a_key_may_be_raw_hex_or_base64_and_nothing_weaker() {
        let sealed = seal(0x41).seal(&Jit::new("secret"));
        for key in [STANDARD.encode([0x41; 32]) + "\n", "41".repeat(32)] {
            let seal = AesSeal::from_config(key.as_bytes()).expect("a key");
            assert!(seal.open(&sealed).is_some(), "{key}");
        }
        for key in ["", "hunter2", &"zz".repeat(32), &"41".repeat(31)] {
            let error = AesSeal::from_config(key.as_bytes()).expect_err("no key").to_string();
            assert!(error.contains("openssl rand"), "{error}");
            assert!(key.is_empty() || !error.contains(key), "{error}");
        }
    }

    #[test]
    fn a_key_file_is_made_once_for_us_alone_and_refused_when_others_can_read_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let sealed = AesSeal::from_state_dir(dir.path()).expect("a key").seal(&Jit::new("secret"));
        let path = dir.path().join(KEY_FILE);
        let mode = fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).expect("the folder").count(), 1, "a draft stayed");
        assert!(AesSeal::from_state_dir(dir.path()).expect("a key").open(&sealed).is_some());
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("chmod");
        let error = AesSeal::from_state_dir(dir.path()).expect_err("exposed").to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }
}
