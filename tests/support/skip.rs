//! Reports a test that cannot run on this machine.

use std::io::Write as _;

/// Says why a test is skipped, in whole or in part: on stderr, and in the file that `OSTLER_SKIPPED`
/// names. `make test` counts the tests in that file and prints the reasons at its end.
pub(crate) fn say(why: &str) {
    eprintln!("SKIPPED: {why}");
    let Some(path) = std::env::var_os("OSTLER_SKIPPED") else { return };
    // libtest names the thread after the test; nextest runs it on the main thread and names it in
    // the arguments.
    let thread = std::thread::current();
    let asked = || std::env::args().find(|argument| argument.contains("::"));
    let name = thread.name().filter(|name| name.contains("::")).map(str::to_owned).or_else(asked);
    let line = format!("{}\t{why}\n", name.as_deref().unwrap_or("a test"));
    let mut file = std::fs::File::options().create(true).append(true).open(path).expect("the list");
    // One write: other tests append at the same time.
    file.write_all(line.as_bytes()).expect("the list");
}
