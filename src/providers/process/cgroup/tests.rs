//! cgroup v2 as far as this machine has it: membership, killing and removal on a real mount even where
//! no memory controller is on it, and limits and counts on files that look like the kernel's.

use std::process::{Command, Stdio};

use super::*;

fn v2(memory: PathBuf) -> Cgroup {
    Cgroup { version: Version::V2, memory, pids: None, outside: Vec::new() }
}

/// Returns a folder on a real mount of version 2 that we may write to.
fn mounted(name: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let unified = lines.find(|words| words.get(2) == Some(&"cgroup2"))?;
    let name = format!("ostler-test-{name}-{}", std::process::id());
    let folder = Path::new(unified.get(1)?).join(name);
    match create(&folder) {
        Ok(()) => Some(folder),
        Err(why) => {
            println!("SKIPPED: {}: {why}", folder.display());
            None
        }
    }
}

#[test]
fn everything_in_a_cgroup_is_seen_killed_and_forgotten_on_a_real_mount() {
    let Some(folder) = mounted("seen") else { return };
    let group = v2(folder.clone());
    let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    fs::write(folder.join("cgroup.procs"), child.id().to_string()).unwrap();
    assert_eq!(group.members(), [i32::try_from(child.id()).unwrap()]);
    assert!(group.remove().is_err(), "a process is in it");
    if !folder.join("cgroup.kill").exists() {
        println!("SKIPPED: this kernel has no cgroup.kill");
        child.kill().unwrap();
    }
    group.kill();
    let ended = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(9));
    assert_eq!(group.members(), [0; 0]);
    if !folder.join("memory.events").exists() {
        assert_eq!(group.oom(), Oom::Unknown, "memory is not counted here, so it is unknown");
    }
    group.remove().unwrap();
    assert!(!folder.exists());
}

#[test]
fn a_place_without_the_memory_controller_is_refused_and_nothing_is_left_there() {
    let Some(folder) = mounted("refused") else { return };
    let place = Place { path: folder.clone(), own: folder.clone() };
    match Cgroup::create_v2(&place, "machine") {
        Ok(made) => made.remove().unwrap(),
        Err(why) => assert!(why.to_string().contains("not delegated"), "{why}"),
    }
    assert!(!folder.join("machine").exists());
    fs::remove_dir(folder).unwrap();
}

#[test]
fn limits_and_counts_are_where_version_2_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let group = v2(folder.path().to_owned());
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    fs::write(folder.path().join("memory.swap.max"), "max").unwrap();
    group.limit(Limits { memory: Some(1 << 20), pids: Some(7) }).unwrap();
    assert_eq!((read("memory.max"), read("pids.max")), ("1048576".into(), "7".into()));
    assert_eq!(read("memory.swap.max"), "0", "a limit that swaps is none");
    for (count, says) in [(0, Oom::No), (2, Oom::Killed)] {
        let events = format!("low 0\nhigh 0\nmax 3\noom 1\noom_kill {count}\noom_group_kill 0\n");
        fs::write(folder.path().join("memory.events"), events).unwrap();
        assert_eq!(group.oom(), says);
    }
}
