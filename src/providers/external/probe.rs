//! What a provider tells about itself, for people: its version, and which protocol it speaks.
//!
//! Old builds know neither question and answer with exit code 1; so does one whose credentials are
//! wrong. Neither keeps it from being used.

use super::External;
use super::call::{End, Spoken};
use super::environ::Command;
use super::settings::Interface;

/// How many seconds a question may take.
const PROBE_SECONDS: u64 = 20;

/// Holds what a provider told about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its version, or why it does not tell.
    pub version: Result<String, String>,
    /// Whether it speaks the protocol it is configured for.
    pub interface: Support,
}

/// Tells whether a provider speaks a version of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    Yes,
    /// It does not say; every provider speaks the first version.
    Unstated,
    /// It does not say, and the configured version is not the first.
    Doubtful(String),
    /// It speaks these, and the configured one is not among them.
    No(Vec<String>),
}

impl External {
    /// Asks the provider about itself. The first question also tries its credentials.
    pub async fn probe(&self) -> Result<Probe, String> {
        let state = &self.state;
        let berth = state.berth(None).await?;
        let timeout = state.look_timeout(PROBE_SECONDS);
        let version = state.call(Command::Version, &berth, "", None, timeout).await;
        if let End::NotStarted(why) = &version.end {
            return Err(why.clone());
        }
        let spoken = state.call(Command::Interfaces, &berth, "", None, timeout).await;
        let interface = judge(&spoken, state.settings.interface);
        Ok(Probe { version: version_of(&version), interface })
    }
}

fn version_of(spoken: &Spoken) -> Result<String, String> {
    let text = String::from_utf8_lossy(&spoken.stdout);
    let text: String = text.trim().chars().filter(|it| !it.is_control()).take(100).collect();
    if spoken.end != End::Code(0) {
        Err(spoken.story())
    } else if text.is_empty() {
        Err("GetVersion succeeded and said nothing".into())
    } else {
        Ok(text)
    }
}

fn judge(spoken: &Spoken, wanted: Interface) -> Support {
    let told = (spoken.end == End::Code(0)).then_some(&spoken.stdout);
    let known: Option<Vec<String>> = told.and_then(|text| serde_json::from_slice(text).ok());
    match (known, wanted) {
        (Some(known), _) if known.iter().any(|it| it == wanted.as_str()) => Support::Yes,
        (Some(known), _) => Support::No(known),
        (None, Interface::V010) => Support::Unstated,
        (None, Interface::V011) => Support::Doubtful(spoken.story()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: i32, stdout: &str) -> Spoken {
        let stdout = stdout.as_bytes().to_vec();
        let fault = "unknown GARM_COMMAND".to_owned();
        Spoken { command: Command::Interfaces, end: End::Code(code), stdout, fault }
    }

    #[test]
    fn old_builds_are_believed_to_speak_the_first_version() {
        assert_eq!(judge(&said(1, ""), Interface::V010), Support::Unstated);
        assert!(matches!(judge(&said(1, ""), Interface::V011), Support::Doubtful(_)));
        assert_eq!(judge(&said(0, "garbage"), Interface::V010), Support::Unstated);
    }

    #[test]
    fn what_a_provider_says_of_itself_is_believed() {
        let both = r#"["v0.1.0","v0.1.1"]"#;
        assert_eq!(judge(&said(0, both), Interface::V011), Support::Yes);
        let first = r#"["v0.1.0"]"#;
        assert_eq!(judge(&said(0, first), Interface::V011), Support::No(vec!["v0.1.0".into()]));
    }

    #[test]
    fn a_version_is_one_harmless_line() {
        assert_eq!(version_of(&said(0, " v1.2.3\u{1b}[2J\n")), Ok("v1.2.3[2J".into()));
        assert!(version_of(&said(1, "")).unwrap_err().contains("unknown GARM_COMMAND"));
    }
}
