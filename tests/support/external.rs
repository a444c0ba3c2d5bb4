//! Providers that are executables, and what they keep of their machines.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// Returns the compiled provider; built once for every state of its source.
pub(crate) fn compiled() -> PathBuf {
    // The tests of one process share one build; the first of them makes it.
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/provider.rs");
    let text = fs::read(&source).expect("a source");
    let mark = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |mark, byte| {
        (mark ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = place.join(format!("provider-{mark:016x}"));
    if !built.exists() {
        // Another process may build it at the same moment: each has a folder of its own, and the
        // rename is atomic, so an incomplete program is never visible.
        let folder = tempfile::Builder::new().prefix("provider-").tempdir_in(place);
        let folder = folder.expect("a folder of its own");
        let draft = folder.path().join("provider");
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let status = Command::new(rustc)
            .args(["--edition=2021", "-O", "-o"])
            .arg(&draft)
            .arg(&source)
            .status()
            .expect("a compiler");
        assert!(status.success(), "the provider of the tests does not compile");
        fs::rename(draft, &built).expect("our folder");
    }
    built
}

/// Returns the provider in shell.
pub(crate) fn in_shell() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/provider.sh")
}

/// Writes an executable file that can be started at once.
///
/// Another process writes it. A file that this process has open for writing is inherited by any child
/// that another test forks at that moment, and starting it fails with ETXTBSY until that child execs.
pub(crate) fn write_program(path: &Path, text: &str) {
    let mut install = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("install starts");
    let mut stdin = install.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    assert!(install.wait().expect("its end").success(), "cannot write {}", path.display());
}

/// Holds a provider's configuration and its own records.
pub(crate) struct Cloud {
    folder: TempDir,
}

impl Cloud {
    /// Makes an empty one.
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("ostler-cloud-").tempdir().expect("a folder");
        let cloud = Self { folder };
        fs::create_dir_all(cloud.state().join("machines")).expect("our folder");
        cloud.behave("");
        cloud
    }

    /// Says how the provider behaves from now on, in lines of its configuration.
    pub(crate) fn behave(&self, lines: &str) {
        let text = format!("state={}\n{lines}\n", self.state().display());
        let draft = self.folder.path().join("draft");
        fs::write(&draft, text).expect("our folder");
        fs::rename(draft, self.config()).expect("our folder");
    }

    /// Returns the provider's configuration file.
    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path().join("provider.conf")
    }

    /// Returns where the provider keeps its records.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Returns the machines that exist: id and name.
    pub(crate) fn machines(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.state().join("machines")).expect("our folder");
        let ids = entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned());
        let name = |id: String| {
            let text = fs::read_to_string(self.state().join("machines").join(&id)).ok()?;
            Some((id, text.lines().next()?.to_owned()))
        };
        ids.filter(|id| !id.starts_with('.')).filter_map(name).collect()
    }

    /// Gives the machine of a name another status.
    pub(crate) fn set_status(&self, name: &str, status: &str) {
        for id in self.machines().iter().filter(|(_, own)| *own == name).map(|(id, _)| id) {
            let path = self.state().join("machines").join(id);
            let text = fs::read_to_string(&path).expect("a machine");
            let mut lines: Vec<&str> = text.lines().collect();
            lines[3] = status;
            fs::write(path, format!("{}\n", lines.join("\n"))).expect("our folder");
        }
    }

    /// Returns the lines the provider wrote into one of its files.
    pub(crate) fn lines_of(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.state().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns what was called, in order.
    pub(crate) fn calls(&self) -> Vec<String> {
        let word = |line: String| line.split(' ').next().unwrap_or_default().to_owned();
        self.lines_of("calls").into_iter().map(word).collect()
    }

    /// Returns how many calls are under way.
    pub(crate) fn under_way(&self) -> usize {
        let Ok(marks) = fs::read_dir(self.state().join("running")) else { return 0 };
        marks.flatten().filter(|mark| Path::new("/proc").join(mark.file_name()).exists()).count()
    }

    /// Returns how many calls were under way at once, at most.
    pub(crate) fn most_at_once(&self) -> usize {
        let number = |line: &String| line.split(' ').next_back()?.parse().ok();
        self.lines_of("calls").iter().filter_map(number).max().unwrap_or_default()
    }

    /// Returns what the provider was told when it made the machine of a name.
    pub(crate) fn bootstrap(&self, name: &str) -> serde_json::Value {
        let text = fs::read_to_string(self.state().join("bootstrap").join(name));
        serde_json::from_str(&text.expect("a bootstrap")).expect("JSON")
    }
}
