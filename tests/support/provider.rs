//! A provider in a compiled language, for the tests: it speaks GARM's protocol and keeps its machines
//! as files. Built by the test that needs it; uses nothing but the standard library.
//!
//! Its configuration is lines of `key=value`: `state` (a folder), `missing` (what it does about a
//! machine that is not there: an exit code, or `empty`), `do.COMMAND` (how it misbehaves),
//! `before.COMMAND` and `after.COMMAND` (milliseconds, or `until:FILE`: until that file exists; with
//! `.POOL` appended only for machines whose name begins with it), `list` (elements to add to listings), `boot`
//! (machines run the script they are given, with these variables, as processes marked `VM_ID`).
//!
//! | in `state` | is |
//! |---|---|
//! | `machines/ID` | a machine: name, pool, controller, status, one a line |
//! | `made`, `unmade` | every machine ever: id and name |
//! | `calls` | every call: command, and how many calls were under way |
//! | `told` | every order that was read completely: name |
//! | `bootstrap/NAME` | what was said when it was made |
//! | `running/PID` | a call under way |

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio, exit};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs, thread};

/// Says that this call is under way.
static MARK: OnceLock<PathBuf> = OnceLock::new();

fn leave(code: i32) -> ! {
    if let Some(mark) = MARK.get() {
        fs::remove_file(mark).ok();
    }
    exit(code)
}

struct Machine {
    id: String,
    name: String,
    pool: String,
    controller: String,
    status: String,
}

fn main() -> ExitCode {
    let command = variable("GARM_COMMAND");
    let config = config(&variable("GARM_PROVIDER_CONFIG_FILE"));
    let state = PathBuf::from(config.get("state").expect("a folder"));
    for folder in ["machines", "running", "bootstrap"] {
        fs::create_dir_all(state.join(folder)).expect("our folder");
    }
    let mark = state.join("running").join(std::process::id().to_string());
    fs::write(&mark, &command).expect("our folder");
    MARK.set(mark.clone()).expect("once");
    let lives = |pid: &std::ffi::OsString| Path::new("/proc").join(pid).exists();
    let under_way = fs::read_dir(state.join("running")).expect("our folder").flatten();
    let under_way = under_way.filter(|entry| lives(&entry.file_name())).count();
    append(&state, "calls", &format!("{command} {under_way}"));
    // From here on the order is complete, even if the caller dies.
    let mut said = String::new();
    let mut whom = variable("GARM_INSTANCE_ID");
    if command == "CreateInstance" {
        std::io::stdin().read_to_string(&mut said).expect("a bootstrap");
        if said.is_empty() {
            eprintln!("nothing was ordered");
            leave(1);
        }
        whom = field(&said, "name");
        append(&state, "told", &whom);
    } else if let Some(machine) = find(&state, &whom) {
        whom = machine.name;
    }
    delay(&config, &state, "before", &command, &whom);
    let step = config.get(&format!("do.{command}")).cloned().unwrap_or_default();
    match step.split_once(':').unwrap_or((step.as_str(), "")) {
        ("hang", _) => hang(),
        ("flood", _) => flood(),
        ("abort", _) => std::process::abort(),
        ("exit", code) => {
            eprintln!("the cloud said no, \x1b[31mloudly");
            leave(code.parse().expect("a code"));
        }
        _ => {}
    }
    let answer = answer(&command, &config, &state, &step, &said);
    delay(&config, &state, "after", &command, &whom);
    fs::remove_file(&mark).ok();
    match step.split_once(':').unwrap_or((step.as_str(), "")) {
        ("hang_after", _) => hang(),
        ("silent", _) => {}
        ("garbage", _) => print!("created it, have fun"),
        ("partial", _) => print!("{}", &answer[..answer.len() / 2]),
        ("exit_after", code) => {
            eprintln!("it was made and then I stumbled");
            return ExitCode::from(code.parse::<u8>().expect("a code"));
        }
        ("grandchild", _) => {
            // Holds our output long after we are gone.
            Command::new("/bin/sleep").arg("600").stdin(Stdio::null()).spawn().expect("sleep");
            print!("{answer}");
        }
        _ => print!("{answer}"),
    }
    std::io::stdout().flush().ok();
    ExitCode::SUCCESS
}

fn answer(
    command: &str,
    config: &BTreeMap<String, String>,
    state: &Path,
    step: &str,
    said: &str,
) -> String {
    match command {
        "CreateInstance" => {
            let name = field(said, "name");
            fs::write(state.join("bootstrap").join(&name), said).expect("our folder");
            let mut made = create_machine(state, &name);
            if step == "twice" {
                made = create_machine(state, &name);
            }
            if let Some(variables) = config.get("boot") {
                boot(state, &made, said, variables);
            }
            shown(&made)
        }
        "DeleteInstance" => {
            let whom = variable("GARM_INSTANCE_ID");
            let Some(machine) = find(state, &whom) else {
                return missing(config, "DeleteInstance");
            };
            fs::remove_file(state.join("machines").join(&machine.id)).ok();
            if state.join("disks").join(&machine.id).exists() {
                switch_off(&machine.id);
            }
            append(state, "unmade", &format!("{} {}", machine.id, machine.name));
            String::new()
        }
        "GetInstance" => {
            let whom = variable("GARM_INSTANCE_ID");
            match find(state, &whom) {
                Some(machine) => shown(&machine),
                None => missing(config, "GetInstance"),
            }
        }
        "ListInstances" => {
            let (pool, controller) = (variable("GARM_POOL_ID"), variable("GARM_CONTROLLER_ID"));
            let ours = all(state).into_iter();
            let ours = ours.filter(|it| it.pool == pool && it.controller == controller);
            let mut shown: Vec<String> = ours.map(|machine| shown(&machine)).collect();
            shown.extend(config.get("list").cloned());
            if shown.is_empty() { "null".into() } else { format!("[{}]", shown.join(",")) }
        }
        "GetVersion" => "v9.9.9".into(),
        "GetSupportedInterfaceVersions" => r#"["v0.1.0","v0.1.1"]"#.into(),
        other => {
            eprintln!("unknown GARM_COMMAND: {other}");
            leave(1)
        }
    }
}

/// Creates a machine under an unused id.
fn create_machine(state: &Path, name: &str) -> Machine {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_nanos());
    let id = format!("vm-{nanos}-{}", std::process::id());
    let (pool, controller) = (variable("GARM_POOL_ID"), variable("GARM_CONTROLLER_ID"));
    let text = format!("{name}\n{pool}\n{controller}\nrunning\n");
    fs::write(state.join("machines").join(format!(".{id}")), text).expect("our folder");
    let from = state.join("machines").join(format!(".{id}"));
    fs::rename(from, state.join("machines").join(&id)).expect("our folder");
    append(state, "made", &format!("{id} {name}"));
    Machine { id, name: name.into(), pool, controller, status: "running".into() }
}

/// Lets a machine run the script it was given, as its user data would.
fn boot(state: &Path, machine: &Machine, said: &str, variables: &str) {
    let folder = state.join("disks").join(&machine.id);
    fs::create_dir_all(&folder).expect("our folder");
    fs::write(folder.join("script.b64"), field(said, "runner_install_template")).expect("a disk");
    let script = "/usr/bin/base64 -d script.b64 > script.sh && exec /bin/bash script.sh";
    let log = fs::File::create(folder.join("console")).expect("a disk");
    let pair = |word: &str| {
        let (name, value) = word.split_once('=').expect("NAME=value");
        (name.to_owned(), value.replace("{disk}", &folder.display().to_string()))
    };
    Command::new("/usr/bin/setsid")
        .args(["/bin/bash", "-c", script])
        .current_dir(&folder)
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("VM_ID", &machine.id)
        .envs(variables.split_whitespace().map(pair))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a disk"))
        .stderr(log)
        .spawn()
        .expect("a machine");
}

/// Ends every process of a machine.
fn switch_off(id: &str) {
    let mark = format!("VM_ID={id}");
    for entry in fs::read_dir("/proc").expect("processes").flatten() {
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ.split(|byte| *byte == 0).any(|one| one == mark.as_bytes()) {
            let pid = entry.file_name();
            Command::new("/bin/kill").arg("-9").arg(pid).stderr(Stdio::null()).status().ok();
        }
    }
}

fn missing(config: &BTreeMap<String, String>, command: &str) -> String {
    match config.get("missing").map(String::as_str) {
        // AWS and CloudStack, asked for a machine that is not there.
        Some("empty") => {
            if command == "GetInstance" {
                "{}".into()
            } else {
                String::new()
            }
        }
        // A deletion of nothing is a deletion.
        None if command == "DeleteInstance" => String::new(),
        code => {
            eprintln!("no such machine");
            leave(code.and_then(|code| code.parse().ok()).unwrap_or(30))
        }
    }
}

fn all(state: &Path) -> Vec<Machine> {
    let mut machines = Vec::new();
    for entry in fs::read_dir(state.join("machines")).expect("our folder").flatten() {
        let id = entry.file_name().to_string_lossy().into_owned();
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if let ([name, pool, controller, status], false) = (lines.as_slice(), id.starts_with('.')) {
            let (name, pool) = (name.clone(), pool.clone());
            let (controller, status) = (controller.clone(), status.clone());
            machines.push(Machine { id, name, pool, controller, status });
        }
    }
    machines.sort_by(|one, other| one.id.cmp(&other.id));
    machines
}

fn find(state: &Path, whom: &str) -> Option<Machine> {
    all(state).into_iter().find(|machine| machine.id == whom || machine.name == whom)
}

fn shown(machine: &Machine) -> String {
    let Machine { id, name, status, pool, .. } = machine;
    format!(
        r#"{{"provider_id":"{id}","name":"{name}","os_type":"linux","os_name":"ubuntu","os_arch":"amd64","status":"{status}","pool_id":"{pool}"}}"#
    )
}

/// Reads a field of flat JSON, as far as these tests need it.
fn field(json: &str, name: &str) -> String {
    let key = format!("\"{name}\":\"");
    let start = json.find(&key).expect("the field") + key.len();
    json[start..].split('"').next().unwrap_or_default().to_owned()
}

fn config(path: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let pair = |line: &str| line.split_once('=').map(|(key, value)| (key.into(), value.into()));
    text.lines().filter_map(pair).collect()
}

fn append(state: &Path, file: &str, line: &str) {
    let mut file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(state.join(file))
        .expect("our folder");
    file.write_all(format!("{line}\n").as_bytes()).expect("our folder");
}

fn delay(
    config: &BTreeMap<String, String>,
    state: &Path,
    when: &str,
    command: &str,
    whom: &str,
) {
    let key = format!("{when}.{command}");
    let pool = whom.split('-').next().unwrap_or_default();
    let Some(pause) = config.get(&format!("{key}.{pool}")).or_else(|| config.get(&key)) else {
        return;
    };
    if let Some(file) = pause.strip_prefix("until:") {
        // The test removes the folder at its end.
        while state.exists() && !Path::new(file).exists() {
            thread::sleep(Duration::from_millis(20));
        }
    } else if let Ok(millis) = pause.parse() {
        thread::sleep(Duration::from_millis(millis));
    }
}

fn hang() -> ! {
    loop {
        thread::sleep(Duration::from_secs(60));
    }
}

fn flood() -> ! {
    let chunk = vec![b'x'; 1 << 16];
    while std::io::stdout().write_all(&chunk).is_ok() {}
    exit(0)
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
