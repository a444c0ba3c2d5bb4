//! Names and addresses: what may go into host names, labels and URLs.

use http::Uri;

/// An instance is called `<prefix>-<12 messages>`, its later runners `<instance>-<n>`; the whole must
/// fit a DNS label, which has 63 letters.
pub(crate) const LONGEST_PREFIX: usize = 63 - 13 - 4;

/// Checks a DNS label; the error completes "`key` …".
pub(crate) fn label(text: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() {
        return Err("is empty".into());
    }
    if text.len() > 63 {
        return Err(format!("has {} letters; 63 are allowed", text.chars().count()));
    }
    if !text.chars().all(allowed) {
        return Err(format!("is `{text}`; only small letters, digits and `-` are allowed"));
    }
    if text.starts_with('-') || text.ends_with('-') {
        return Err(format!("is `{text}`; it must begin and end with a letter or digit"));
    }
    Ok(())
}

/// Returns the label a text was nearly.
pub(crate) fn nearly(text: &str) -> Option<String> {
    let fold = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(fold).collect();
    let name = name.trim_matches('-');
    label(name).is_ok().then(|| name.to_owned())
}

/// Reads an address of the web; the error completes "`key` …".
pub(crate) fn url(text: &str) -> Result<Uri, &'static str> {
    let uri: Uri = text.parse().map_err(|_| "is not a URL")?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("must begin with https:// or http://");
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err("holds a user or a password; secrets do not belong in the file");
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err("names no host");
    }
    if uri.query().is_some() || text.contains('#') {
        return Err("must end with its path, without `?` or `#`");
    }
    Ok(uri)
}

/// Returns whether a host is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
