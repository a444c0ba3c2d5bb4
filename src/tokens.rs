//! The tokens with which machines call home: made by who orders a machine, checked at the door.
//!
//! There are two kinds. With the one a machine is ordered, and fetches what it needs; who can read its
//! user data can read it. The supervisor on the machine exchanges it for the other before the agent
//! starts, keeps that in its memory, and reports with it; from its first report on the first kind opens
//! nothing.
//!
//! A token names an instance and one of its registrations, and proves both with a key that is made
//! from the one that seals; nothing of it is stored. Whether it still opens anything is for the
//! instance's owner to say.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ostler_actors::model::InstanceId;

/// Begins a token with which a machine sets itself up.
const SETUP: &str = "v1";
/// Begins a token with which its supervisor reports.
const REPORT: &str = "r1";
/// No token of ours is longer.
const MAX_TOKEN_CHARS: usize = 512;

/// Makes and checks tokens. Cheap to clone.
#[derive(Clone)]
pub struct Tokens(Arc<hmac::Key>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(…)")
    }
}

/// Tells whom a token speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    /// The instance.
    pub instance: InstanceId,
    /// Which of its registrations its machine was made with.
    pub attempt: u32,
}

impl Tokens {
    /// Makes tokens with this key.
    pub fn new(key: &[u8]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, key)))
    }

    /// Returns the token that a machine is set up with; the same each time.
    pub fn create(&self, instance: &InstanceId, attempt: u32) -> String {
        self.sign(SETUP, instance, attempt)
    }

    /// Returns the token that its supervisor reports with; the same each time.
    pub fn create_for_reports(&self, instance: &InstanceId, attempt: u32) -> String {
        self.sign(REPORT, instance, attempt)
    }

    fn sign(&self, kind: &str, instance: &InstanceId, attempt: u32) -> String {
        let name = URL_SAFE_NO_PAD.encode(instance.as_str());
        let claim = format!("{kind}.{name}.{attempt}");
        let proof = hmac::sign(&self.0, claim.as_bytes());
        format!("{claim}.{}", URL_SAFE_NO_PAD.encode(proof.as_ref()))
    }

    /// Returns whom a token speaks for, if a machine was ordered with it.
    pub fn check(&self, token: &str) -> Option<Bearer> {
        self.verify(SETUP, token)
    }

    /// Returns whom a token speaks for, if it is a supervisor's.
    pub fn check_of_reports(&self, token: &str) -> Option<Bearer> {
        self.verify(REPORT, token)
    }

    fn verify(&self, kind: &str, token: &str) -> Option<Bearer> {
        if token.len() > MAX_TOKEN_CHARS {
            return None;
        }
        let (claim, proof) = token.rsplit_once('.')?;
        let proof = URL_SAFE_NO_PAD.decode(proof).ok()?;
        // Compares in constant time.
        hmac::verify(&self.0, claim.as_bytes(), &proof).ok()?;
        let mut parts = claim.split('.');
        let (claimed, name, attempt) = (parts.next()?, parts.next()?, parts.next()?);
        if claimed != kind || parts.next().is_some() {
            return None;
        }
        let name = String::from_utf8(URL_SAFE_NO_PAD.decode(name).ok()?).ok()?;
        Some(Bearer { instance: InstanceId::new(name), attempt: attempt.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_speaks_for_one_instance_and_one_registration() {
        let tokens = Tokens::new(b"a key");
        let token = tokens.create(&"linux-1".into(), 2);
        let bearer = Bearer { instance: "linux-1".into(), attempt: 2 };
        assert_eq!(tokens.check(&token), Some(bearer));
        assert_eq!(Tokens::new(b"another").check(&token), None);
        let other = tokens.create(&"linux-1".into(), 3);
        let (claim, _) = other.rsplit_once('.').unwrap();
        let (_, proof) = token.rsplit_once('.').unwrap();
        assert_eq!(tokens.check(&format!("{claim}.{proof}")), None);
    }

    #[test]
    fn a_token_of_one_kind_is_none_of_the_other() {
        let tokens = Tokens::new(b"a key");
        let (setup, report) =
            (tokens.create(&"a".into(), 1), tokens.create_for_reports(&"a".into(), 1));
        assert!(tokens.check_of_reports(&report).is_some());
        assert_eq!((tokens.check(&report), tokens.check_of_reports(&setup)), (None, None));
        let renamed = report.replacen(REPORT, SETUP, 1);
        assert_eq!(tokens.check(&renamed), None);
    }

    #[test]
    fn no_text_of_a_stranger_is_a_token() {
        let tokens = Tokens::new(b"a key");
        let good = tokens.create(&"linux-1".into(), 1);
        for bad in ["", ".", "v1..1.", "v1.bGludXgtMQ.1.", &good[1..], &format!("{good}A")] {
            assert_eq!(tokens.check(bad), None, "{bad}");
        }
        assert_eq!(tokens.check(&"x".repeat(100_000)), None);
        assert!(!good.contains("{{") && !good.contains('\''), "it is written into scripts");
    }
}
