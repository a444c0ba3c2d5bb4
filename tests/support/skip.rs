//! What a test says that cannot be run here.

use std::io::Write as _;

/// Says why a test is skipped, in whole or in part: to whoever runs it alone, and to `make test`,
/// which counts the tests that said so and repeats the reasons at its end.
pub(crate) fn say(why: &str) {
    eprintln!("SKIPPED: {why}");
    let Some(path) = std::env::var_os("OSTLER_SKIPPED") else { return };
    // A test is called like its thread; where it has a process to itself, as it was asked for.
    let thread = std::thread::current();
    let asked = || std::env::args().find(|argument| argument.contains("::"));
    let name = thread.name().filter(|name| name.contains("::")).map(str::to_owned).or_else(asked);
    let line = format!("{}\t{why}\n", name.as_deref().unwrap_or("a test"));
    let mut file = std::fs::File::options().create(true).append(true).open(path).expect("the list");
    // In one piece: others write too.
    file.write_all(line.as_bytes()).expect("the list");
}
