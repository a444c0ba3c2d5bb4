//! The project speaks plain engineering English, and this is the list of words that it does not use.
//!
//! An earlier edition had some sixty nouns of its own, which a reader had to learn before the code. The
//! first test keeps them out of declared names, the second out of prose, and the third sees to it that a
//! constant's name says what it is for instead of standing in every second file with another meaning.
//! What stays is listed here with its reason.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Words that no file, module, type, function, field, variant or constant has in its name, and what
/// the project says instead. Names are split at underscores and humps.
const NAMES: &[(&str, &str)] = &[
    ("letter letters word words", "message"),
    ("office offices inlet inlets", "ActorRef, Mailbox"),
    ("leash leashes", "StopGuard"),
    ("obituary obituaries farewell farewells", "ExitNotifier"),
    ("wish wishes petition petitions", "removal request"),
    ("kit kits", "capabilities"),
    ("tenure tenures", "leadership, lease, epoch"),
    ("ground grounds surroundings", "system ports, config template"),
    ("chore chores edits counted", "background tasks, apply config, metered"),
    ("door doors visitor visitors", "AppState, WebhookSource"),
    ("make unmake", "create, new, build, delete"),
    ("hire employ bury", "spawn, start owner, on owner exit"),
    ("vigil vigils", "idle check"),
    ("errand errands", "effect"),
    ("turn turns", "transition"),
    ("note notes", "volatile state, comment, remark"),
    ("asks deeds", "requests, actions"),
    ("birth closing forgetting remains", "new row, post-mortem, abandon, exit report"),
    ("standing standings ages patience", "reports, expiry, retry"),
    (
        "yard yards desk desks shelf book books seat seats hub hubs",
        "the thing itself: router, memory store, credential",
    ),
    ("told hearing looks swept doubts", "reported, headers, delivery stats, cursor"),
    ("ghost ghosts walk walks rehearsal", "removed pools, property tests, bench"),
    ("pause glance news", "what and kind: RETRY_DELAY; recent events"),
    ("nobody somebody whoever", "what there is none of"),
];

/// Names that have one of these words and keep it.
const KEPT_NAMES: &[(&str, &str)] = &[];

/// Words that prose, code and texts do without.
const PROSE: &str = "nobody somebody whoever letter letters vigil errand errands tenure obituary leash petition \
                     wish wishes surroundings chores deeds yard";

/// Where such a word stays: the file, how often, and why.
const KEPT_PROSE: &[(&str, usize, &str)] = &[
    ("CHANGELOG.md", 2, "names that fields had before"),
    ("config/example.toml", 1, "letters of the alphabet"),
    ("src/config/pools/mod.rs", 1, "letters of the alphabet"),
    ("src/config/values.rs", 2, "letters of the alphabet"),
    ("src/http/page/page.css", 6, "the CSS property `letter-spacing`"),
    ("src/store/postgres/0002_plain_names.sql", 3, "the names in stored rows that it converts"),
    ("src/store/sqlite/0002_plain_names.sql", 3, "the names in stored rows that it converts"),
    ("tests/daemon/broken/37_bad_names.txt", 2, "letters of the alphabet"),
    ("tests/daemon/broken/50_context_without_kubeconfig.txt", 1, "letters of the alphabet"),
    ("tests/daemon/external.rs", 3, "the system's user `nobody`"),
    ("tests/support/postgres.rs", 2, "the system's user `nobody`"),
    ("tests/wire/store/migrations.rs", 4, "stored rows as an earlier release wrote them"),
];

/// How many of them the whole repository may have, reasons or not.
const MAX_KEPT_PROSE: usize = 60;

/// In how many files one name of a free constant may be declared.
const MAX_FILES_OF_A_CONSTANT: usize = 4;

#[test]
fn names_use_the_parts_of_the_field() {
    let mut findings = Vec::new();
    for (path, text) in sources() {
        for (line, name) in declared_names(&path, &text) {
            if let Some((word, instead)) = unwanted_part(&name) {
                findings
                    .push(format!("{path}:{line}: `{name}` has the word `{word}`; say {instead}"));
            }
        }
    }
    judge(&findings);
}

#[test]
fn prose_uses_the_parts_of_the_field() {
    let mut findings = Vec::new();
    let mut kept = 0;
    for (path, text) in texts() {
        let hits = unwanted_prose(&text);
        let entry = KEPT_PROSE.iter().find(|(file, ..)| *file == path);
        let (expected, why) = entry.map_or((0, ""), |(_, count, why)| (*count, *why));
        kept += hits.len();
        if hits.len() > expected {
            findings.extend(hits.into_iter().map(|(line, word)| {
                format!("{path}:{line}: the word `{word}`; a sentence names who acts and on what")
            }));
        } else if hits.len() < expected {
            findings.push(format!("{path}: fewer than {expected} are left ({why}); mend the list"));
        }
    }
    if kept > MAX_KEPT_PROSE {
        findings
            .push(format!("{kept} such words in the whole repository, at most {MAX_KEPT_PROSE}"));
    }
    judge(&findings);
}

#[test]
fn a_name_of_a_constant_says_what_it_is_for() {
    let mut homes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in sources() {
        for name in text.lines().filter_map(free_constant) {
            homes.entry(name).or_default().insert(path.clone());
        }
    }
    let findings: Vec<_> = homes
        .iter()
        .filter(|(_, files)| files.len() > MAX_FILES_OF_A_CONSTANT)
        .map(|(name, files)| {
            let files: Vec<_> = files.iter().map(String::as_str).collect();
            format!(
                "the constant `{name}` is declared in {} files: {}",
                files.len(),
                files.join(", ")
            )
        })
        .collect();
    judge(&findings);
}

#[test]
fn each_check_can_fail() {
    let text = "/// A letter.\nstruct Obituary {\n    wish: Kind,\n}\nfn make_it() {\n    let x = \"nobody\";\n}\n";
    let names = |path| {
        declared_names(path, text)
            .into_iter()
            .filter(|(_, name)| unwanted_part(name).is_some())
            .count()
    };
    assert_eq!(names("src/pool.rs"), 3, "the type, the field and the function");
    assert_eq!(names("src/errands.rs"), 4, "and the file");
    assert_eq!(unwanted_prose(text).len(), 4, "letter, Obituary, wish and nobody");
    assert_eq!(unwanted_part("GitHub"), None);
    assert_eq!(unwanted_part("MINT_RETRY_DELAY"), None);
    assert_eq!(free_constant("pub(crate) const WINDOW: u64 = 1;").as_deref(), Some("WINDOW"));
    assert_eq!(free_constant("    const ALL: u64 = 1;"), None);
}

#[track_caller]
fn judge(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n{} findings", findings.join("\n"), findings.len());
}

/// Returns the first unwanted word in a name, and what to say instead.
fn unwanted_part(name: &str) -> Option<(String, &'static str)> {
    if KEPT_NAMES.iter().any(|(kept, _)| *kept == name) {
        return None;
    }
    parts_of(&name.replace("GitHub", "Github")).into_iter().find_map(|word| {
        let row = NAMES.iter().find(|(listed, _)| listed.split(' ').any(|it| it == word));
        row.map(|(_, instead)| (word, *instead))
    })
}

/// Splits a name at underscores and humps.
fn parts_of(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split('_') {
        let mut word = String::new();
        for c in part.chars() {
            if c.is_uppercase() && word.ends_with(|last: char| !last.is_uppercase()) {
                words.push(std::mem::take(&mut word));
            }
            word.push(c);
        }
        words.push(word);
    }
    words.into_iter().map(|word| word.to_lowercase()).collect()
}

/// Returns what a source file declares, with its lines, and the name of the file itself.
fn declared_names(path: &str, text: &str) -> Vec<(usize, String)> {
    let stem =
        Path::new(path).file_stem().expect("a file has a name").to_string_lossy().into_owned();
    let mut names = vec![(0, stem)];
    for (number, line) in (1..).zip(text.lines()) {
        let code = without_texts(line);
        let tokens: Vec<_> =
            code.split(|c: char| !is_of_name(c)).filter(|it| !it.is_empty()).collect();
        for pair in tokens.windows(2) {
            if ["fn", "struct", "enum", "trait", "type", "const", "static", "mod"]
                .contains(&pair[0])
            {
                names.push((number, pair[1].to_owned()));
            }
        }
        names.extend(member(&code).map(|name| (number, name.to_owned())));
    }
    names
}

/// Returns the field or variant that a line declares: indented, a name, and what follows one.
fn member(code: &str) -> Option<&str> {
    let mut rest = code.strip_prefix("    ")?.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        let public = public
            .strip_prefix('(')
            .map_or(public, |it| it.split_once(')').map_or("", |(_, it)| it));
        rest = public.strip_prefix(' ')?;
    }
    let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    let is_variant =
        name.starts_with(char::is_uppercase) && after.trim_start().starts_with([',', '(', '{']);
    let is_field = name.starts_with(|c: char| c.is_lowercase()) && after.starts_with(": ");
    (is_variant || is_field).then_some(name)
}

/// Returns the constant that a line declares outside of every block.
fn free_constant(line: &str) -> Option<String> {
    let at = ["const ", "static "].iter().find_map(|keyword| {
        let at = line.find(keyword)?;
        (at == 0 || line.starts_with("pub") && !line[..at].contains('{'))
            .then_some(at + keyword.len())
    })?;
    let name: String = line[at..].chars().take_while(|c| is_of_name(*c)).collect();
    name.starts_with(char::is_uppercase).then_some(name)
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns a line without comment and without the insides of its texts.
fn without_texts(line: &str) -> String {
    let line = line.split("//").next().unwrap_or_default();
    line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

/// Returns the lines that have an unwanted word, once for each time.
fn unwanted_prose(text: &str) -> Vec<(usize, String)> {
    let listed: HashSet<&str> = PROSE.split_whitespace().collect();
    let mut hits = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for word in line.split(|c: char| !is_of_name(c)) {
            // Most words are too short or too long to be one of them.
            if (4..=12).contains(&word.len()) && listed.contains(word.to_lowercase().as_str()) {
                hits.push((number, word.to_owned()));
            }
        }
    }
    hits
}

/// Returns the sources by their path below the root.
fn sources() -> impl Iterator<Item = (String, String)> {
    texts().filter(|(path, _)| {
        Path::new(path).extension().is_some_and(|extension| extension == "rs")
            && ["src/", "actors/", "tests/"].iter().any(|folder| path.starts_with(folder))
    })
}

/// Returns every text of the repository by its path, except what is generated and this list.
fn texts() -> impl Iterator<Item = (String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(root, &mut files);
    assert!(
        files.len() > 100,
        "found no files under {}: this test would prove nothing",
        root.display()
    );
    files.into_iter().filter_map(move |file| {
        let path =
            file.strip_prefix(root).expect("found below the root").to_string_lossy().into_owned();
        let is_exempt = ["Cargo.lock", "LICENSE", "tests/vocabulary.rs"].contains(&path.as_str());
        let text = if is_exempt { None } else { fs::read_to_string(&file).ok() };
        text.map(|text| (path, text))
    })
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder can be listed") {
        let path = entry.expect("a folder entry can be read").path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        if path.is_dir() {
            // A build, another checkout, or what a tool keeps.
            if name != "target" && name != ".git" && name != "node_modules" {
                collect(&path, files);
            }
        } else if name != ".git" {
            files.push(path);
        }
    }
    files.sort();
}
