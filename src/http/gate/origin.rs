//! Where a request without a token comes from; a plain decision.
//!
//! A page of any site may make the operator's browser send requests to this machine. Two lies are
//! known: *rebinding*, where the site's own name is made to point here, which the `Host` header
//! gives away; and *forged requests*, which `Origin` and `Sec-Fetch-Site` give away.

use crate::config::Http;

/// What a request says about itself.
pub(super) struct RequestHeaders<'a> {
    pub(super) host: &'a str,
    pub(super) origin: Option<&'a str>,
    pub(super) site: Option<&'a str>,
}

/// Returns the names by which this machine may be called besides the loopback's.
pub(super) fn names_of(config: &Http) -> Vec<String> {
    let public = config.public_url.as_deref().and_then(|url| url.split_once("://"));
    let public = public.map(|(_, rest)| name_of(rest.split('/').next().unwrap_or(rest)));
    public.into_iter().collect()
}

/// Decides; the sentence says why not.
pub(super) fn check(
    names: &[String],
    headers: &RequestHeaders<'_>,
    changes: bool,
) -> Result<(), &'static str> {
    let ours = |name: &str| is_loopback(name) || names.iter().any(|known| known == name);
    if !ours(&name_of(headers.host)) {
        return Err("there are no tokens, so only this machine may ask: call it `localhost` or \
                    `127.0.0.1`, or configure [[http.token]]");
    }
    if !changes {
        return Ok(());
    }
    let foreign = "this request comes from another site's page; ask from the daemon's own page or \
                   a command line";
    if let Some(origin) = headers.origin {
        let place = origin.split_once("://").map(|(_, place)| place);
        // The page's address and ours are one, up to upper and lower case.
        if !place.is_some_and(|place| place.eq_ignore_ascii_case(headers.host)) {
            return Err(foreign);
        }
    }
    match headers.site {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) => Err(foreign),
    }
}

fn is_loopback(name: &str) -> bool {
    let address = name.parse::<std::net::IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Returns the name without port and brackets, in lower case.
fn name_of(host: &str) -> String {
    let host = host.trim().to_ascii_lowercase();
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest).to_owned();
    }
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name.to_owned(),
        Some(_) | None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: &str, origin: Option<&str>, site: Option<&str>, changes: bool) -> bool {
        check(&["ci.example.com".into()], &RequestHeaders { host, origin, site }, changes).is_ok()
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in ["localhost", "LOCALHOST:7480", "127.0.0.1:7480", "[::1]:7480", "127.9.9.9"] {
            assert!(asked(host, None, None, true), "{host}");
        }
        assert!(asked("ci.example.com", None, None, true), "its public name");
        for host in ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7480"] {
            assert!(!asked(host, None, None, false), "rebound: {host}");
        }
    }

    #[test]
    fn pages_of_other_sites_change_nothing() {
        let here = "127.0.0.1:7480";
        assert!(asked(here, Some("http://127.0.0.1:7480"), Some("same-origin"), true));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:9999", "127.0.0.1:7480"] {
            assert!(!asked(here, Some(origin), None, true), "{origin}");
            assert!(asked(here, Some(origin), None, false), "reading is the browser's to forbid");
        }
        assert!(!asked(here, None, Some("cross-site"), true));
        assert!(!asked(here, None, Some("same-site"), true), "another port of this machine");
        assert!(asked(here, None, Some("none"), true), "typed by a person");
    }
}
