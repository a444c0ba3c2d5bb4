//! The small script that providers put into a machine: it fetches the real one from us and runs it.
//!
//! Providers built on the shared package take it from the specs (`runner_install_template`, base64)
//! and render it as a Go template, so it must hold no `{{`. Everything it needs is written into it,
//! quoted for its shell.

use serde_json::Value;

use crate::ports::fill_script;

/// Where providers look for the script in a pool's specs.
pub(super) const KEY: &str = "runner_install_template";

const LINUX: &str = include_str!("wrapper.sh");
const WINDOWS: &str = include_str!("wrapper.ps1");

/// Holds how a machine reaches us.
pub(super) struct Home {
    url: String,
    token: String,
    proxy: Value,
}

impl Home {
    /// Returns the way home for a machine of this shape.
    pub(super) fn of(url: &str, token: &str, extra: &Value) -> Self {
        let proxy = extra.get("proxy").cloned().unwrap_or(Value::Null);
        Self { url: url.trim_end_matches('/').to_owned(), token: token.to_owned(), proxy }
    }

    /// Returns where a machine fetches what it needs.
    pub(super) fn metadata(&self) -> String {
        format!("{}/runner/v1/metadata", self.url)
    }

    /// Returns where a machine tells how far it is.
    pub(super) fn callbacks(&self) -> String {
        format!("{}/runner/v1/callbacks", self.url)
    }

    /// Returns the proxy for `http` or `https`; empty if there is none.
    pub(super) fn proxy(&self, scheme: &str) -> String {
        self.proxy.get(scheme).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Returns the hosts that are reached without a proxy.
    pub(super) fn no_proxy(&self) -> String {
        let hosts = self.proxy.get("no_proxy").and_then(Value::as_array);
        let hosts: Vec<&str> = hosts.into_iter().flatten().filter_map(Value::as_str).collect();
        hosts.join(",")
    }
}

/// Returns the script for an operating system.
pub(super) fn script(os: &str, home: &Home) -> String {
    let values = [
        ("METADATA_URL", home.metadata()),
        ("CALLBACK_URL", home.callbacks()),
        ("BEARER_TOKEN", home.token.clone()),
        ("http_proxy", home.proxy("http")),
        ("https_proxy", home.proxy("https")),
        ("no_proxy", home.no_proxy()),
    ];
    fill_script(os, LINUX, WINDOWS, &values)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_quoted_for_their_shell() {
        let extra = json!({ "proxy": { "http": "http://u:'p{{@h", "no_proxy": ["a b"] } });
        let home = Home::of("https://ci.example.com/", "v1.t", &extra);
        let linux = script("linux", &home);
        assert!(linux.starts_with("#!/bin/bash\nexport METADATA_URL='https://ci.example.com/"));
        assert!(linux.contains(r"export http_proxy='http://u:'\''p{ {@h'"));
        let windows = script("windows", &home);
        assert!(windows.contains("$env:http_proxy = 'http://u:''p{ {@h'"));
    }
}
