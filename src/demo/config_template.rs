//! The part of a configuration that leads to a simulated GitHub and its runners, written once: for the
//! demonstration, and for the tests that run the whole program.

use std::path::Path;

use super::github::SimGitHub;

/// Says where a daemon on a stage lives.
#[derive(Clone, Copy, Debug)]
pub struct ConfigTemplate<'a> {
    pub name: &'a str,
    /// The folder of its state and its machines; the files `token` and `hook.secret` lie beside
    /// the configuration.
    pub folder: &'a Path,
    /// The address of its store.
    pub store: &'a str,
    /// What else is said of the store, line by line.
    pub store_more: &'a str,
    /// The port on which machines ask the daemon for work; none: any port, and no machine asks.
    pub port: Option<u16>,
}

impl ConfigTemplate<'_> {
    /// Returns the text, without pools. It ends inside `[provider.local]`, where more may be said.
    pub fn config(&self, github: &SimGitHub) -> String {
        let Self { name, folder, store, store_more, port } = self;
        let listen = port.unwrap_or(0);
        let public = port
            .map_or(String::new(), |port| format!("public_url = \"http://127.0.0.1:{port}\"\n"));
        let folder = folder.display();
        let api_url = github.api_url();
        let host = github.url().trim_start_matches("http://");
        format!(
            r#"
[daemon]
name = "{name}"
state_dir = "{folder}/state"

[store]
url = "{store}"
{store_more}

[http]
listen = "127.0.0.1:{listen}"
{public}
[forge.github]
kind = "github"
api_url = "{api_url}"
token = {{ file = "token" }}
webhook_secret = {{ file = "hook.secret" }}
jit_per_minute = 0

[provider.local]
kind = "process"
command = ["/proc/self/exe", "demo-runner", "--github", "{host}", "--jit", "{{jit_file}}"]
work_dir = "{folder}/machines"
"#
        )
    }
}
