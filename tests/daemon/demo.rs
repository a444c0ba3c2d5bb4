//! `ostler demo` as it is typed: the whole product at work, and nothing of it left afterwards.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may stop at the first surprise, as tests may"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A demo under way, in a temporary folder of its own.
struct Demo {
    place: TempDir,
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Demo {
    fn start(arguments: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_ostler"))
            .arg("demo")
            .args(arguments)
            .env("TMPDIR", place.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { place, child, said }
    }

    /// Reads until a line that holds a text; returns what was read.
    fn read_until(&mut self, text: &str) -> String {
        let mut read = String::new();
        while !read.lines().last().is_some_and(|line| line.contains(text)) {
            assert_ne!(self.said.read_line(&mut read).unwrap(), 0, "no `{text}` in:\n{read}");
        }
        read
    }

    fn interrupt(&self) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
    }

    /// Waits for the end; whatever it left behind fails the test.
    fn end(mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        let files: Vec<_> =
            fs::read_dir(self.place.path()).unwrap().map(|it| it.unwrap()).collect();
        assert!(files.is_empty(), "files are left: {files:?}\n{rest}");
        let processes = marked(self.place.path());
        assert!(processes.is_empty(), "processes are left: {processes:?}\n{rest}");
        (status, rest)
    }
}

/// Returns the processes of machines that were started in a folder.
fn marked(place: &Path) -> Vec<String> {
    let place = place.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let of_ours = processes.filter_map(|process| {
        // A process of another user may end while it is read, or be out of our reach.
        let read = |file| fs::read(process.path().join(file)).ok();
        let (environment, command) = (read("environ")?, read("cmdline")?);
        let words = [environment, command].map(|it| String::from_utf8_lossy(&it).into_owned());
        let ours = words[0].contains("OSTLER_MACHINE=") || words[1].contains("keeper");
        (ours && words.iter().any(|it| it.contains(place))).then(|| words[1].replace('\0', " "))
    });
    of_ours.collect()
}

/// Returns the rows of the table of ends: verdict and job of each runner.
fn ends(said: &str) -> Vec<(String, String)> {
    let table = said.lines().skip_while(|line| !line.starts_with("instance ")).skip(1);
    let rows = table.take_while(|line| !line.is_empty());
    rows.map(|row| {
        let mut cells = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        (cells.nth(1).unwrap().to_owned(), cells.nth(2).unwrap().to_owned())
    })
    .collect()
}

#[test]
fn demo_accounts_for_every_job_and_leaves_nothing() {
    let (status, said) = Demo::start(&["--jobs", "8", "--exit"]).end();
    assert!(status.success(), "{status}\n{said}");
    let ends = ends(&said);
    for (verdict, job) in [
        ("clean", "build 1"),
        ("clean", "build 2"),
        ("guest_killed", "job whose runner is killed 3"),
        ("clean", "build 4"),
        ("clean", "test that fails 5"),
        ("clean", "build 6"),
        ("aborted", "job that fills the disk 7"),
        ("clean", "build 8"),
    ] {
        let served = ends.iter().filter(|(_, of)| of == job).map(|(verdict, _)| verdict.as_str());
        assert_eq!(served.collect::<Vec<_>>(), [verdict], "{job}\n{said}");
    }
    assert!(said.contains("8 jobs: 3 failure, 5 success\n"), "{said}");
    assert!(said.contains(" 1 lost; `build 1` was found by polling\n"), "{said}");
    let displaced = said.lines().find(|line| line.starts_with("displaced by GitHub: "));
    let displaced = displaced.unwrap_or_else(|| panic!("{said}"));
    assert!(!displaced.contains(": 0 of "), "{said}");
    assert!(
        displaced.contains("` was offered to ") && displaced.contains(" and ran on "),
        "{said}"
    );
    assert!(said.contains("1 × aborted "), "the sad ends come with advice:\n{said}");
    assert!(
        said.ends_with(
            "left behind: machines 0, registrations 0, instances 0; broken promises 0\n"
        ),
        "{said}"
    );
}

#[test]
fn interrupted_demo_cleans_up_and_leaves_nothing() {
    let mut demo = Demo::start(&["--jobs", "8"]);
    demo.read_until("busy");
    assert!(!marked(demo.place.path()).is_empty(), "this look must be able to see a machine");
    demo.interrupt();
    let (status, said) = demo.end();
    assert!(status.success(), "{status}\n{said}");
    assert!(said.contains("Cleaning up\n"), "{said}");
    assert!(said.contains("left behind: machines 0, registrations 0, instances 0"), "{said}");
}
