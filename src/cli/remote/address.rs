//! The address of a daemon, as people write it.

use http::Uri;
use http::uri::{Authority, Scheme};

use super::AskError;

/// Scheme, host and port of a daemon, and the prefix of every path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DaemonAddress {
    scheme: Scheme,
    authority: Authority,
    prefix: String,
}

impl DaemonAddress {
    /// Reads an address; without a scheme it is plain HTTP.
    pub(super) fn read(text: &str) -> Result<Self, AskError> {
        let bad = || AskError::Address { given: text.to_owned() };
        let given = text.trim();
        let whole = if given.contains("://") { given.into() } else { format!("http://{given}") };
        let parts = whole.parse::<Uri>().map_err(|_| bad())?.into_parts();
        let scheme = parts.scheme.filter(|it| *it == Scheme::HTTP || *it == Scheme::HTTPS);
        // A name and a password in an address end up in logs and in the list of processes.
        let authority = parts.authority.filter(|it| !it.as_str().contains('@'));
        let prefix = parts.path_and_query.map(|it| it.as_str().to_owned()).unwrap_or_default();
        if prefix.contains('?') {
            return Err(bad());
        }
        Ok(Self {
            scheme: scheme.ok_or_else(bad)?,
            authority: authority.filter(|it| !it.host().is_empty()).ok_or_else(bad)?,
            prefix: prefix.trim_end_matches('/').to_owned(),
        })
    }

    /// Returns the address of a path.
    pub(super) fn of(&self, path: &str) -> String {
        format!("{self}{path}")
    }

    /// Returns whether a token would travel unencrypted over a network.
    pub(super) fn is_unencrypted(&self) -> bool {
        let host = self.authority.host().trim_start_matches('[').trim_end_matches(']');
        let loopback = host.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback());
        self.scheme == Scheme::HTTP && !loopback && host != "localhost"
    }
}

impl std::fmt::Display for DaemonAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_in_many_ways() {
        for (given, read) in [
            ("http://127.0.0.1:7480", "http://127.0.0.1:7480"),
            ("ci.example.com:7480", "http://ci.example.com:7480"),
            ("https://ci.example.com/ostler/", "https://ci.example.com/ostler"),
            ("http://[::1]:7480/", "http://[::1]:7480"),
        ] {
            assert_eq!(DaemonAddress::read(given).unwrap().to_string(), read, "{given}");
        }
        for given in ["", "ftp://x", "http://user:secret@host", "http://", "http://a/b?c", "a b"] {
            assert!(DaemonAddress::read(given).is_err(), "{given}");
        }
    }

    #[test]
    fn a_token_is_safe_on_this_machine_and_under_tls() {
        for (given, open) in [
            ("http://127.0.0.1:1", false),
            ("http://[::1]:1", false),
            ("http://localhost", false),
            ("https://ci.example.com", false),
            ("http://ci.example.com", true),
        ] {
            assert_eq!(DaemonAddress::read(given).unwrap().is_unencrypted(), open, "{given}");
        }
    }
}
