//! The scripts we hand out, read by those who know shells.

use std::path::Path;
use std::process::Command;

use crate::support::skip;

const SCRIPTS: [&str; 4] = [
    "src/providers/external/wrapper.sh",
    "src/http/runner/scripts/linux.sh",
    "src/http/runner/scripts/supervisor.sh",
    "tests/support/provider.sh",
];

#[test]
fn shell_scripts_have_no_fault_that_shellcheck_knows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checked = Command::new("shellcheck").args(SCRIPTS.map(|script| root.join(script))).output();
    match checked {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        Err(error) => {
            skip::say(&format!("no shellcheck here ({error}); apt-get install shellcheck"));
        }
    }
}

/// Parsed, not run: no test has run them on Windows yet.
#[test]
fn powershell_reads_the_scripts_for_windows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for script in ["src/providers/external/wrapper.ps1", "src/http/runner/scripts/windows.ps1"] {
        let parse = format!(
            "$e = $null; [void][Management.Automation.Language.Parser]::ParseFile('{}', [ref]$null, [ref]$e); \
             $e | Out-String; exit $e.Count",
            root.join(script).display()
        );
        match Command::new("pwsh").args(["-NoProfile", "-Command", &parse]).output() {
            Ok(output) => {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            }
            Err(error) => {
                skip::say(&format!("no pwsh here ({error}); {script} was neither read nor run"));
            }
        }
    }
}

#[test]
fn no_script_holds_what_a_template_language_would_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for script in ["src/providers/external/wrapper.sh", "src/providers/external/wrapper.ps1"] {
        let text = std::fs::read_to_string(root.join(script)).unwrap();
        assert!(!text.contains("{{"), "{script}");
    }
}
