//! Which processes belong to a machine, and whether one of them works on a job.

use std::collections::BTreeMap;
use std::path::Path;

use ostler_actors::model::Worker;

use super::files::Keeping;
use super::procs::{Identity, Process, Snapshot};
use super::settings::Witness;
use super::{MARK, cgroup};

/// How many characters of a name the kernel keeps.
const KERNEL_NAME: usize = 15;

/// Returns all living processes below `root`.
pub(super) fn below(all: &Snapshot, root: i32) -> Vec<&Process> {
    let mut children: BTreeMap<i32, Vec<&Process>> = BTreeMap::new();
    for process in all.values() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            open.push(child.pid);
            found.push(child);
        }
    }
    found.retain(|process| !process.zombie);
    found
}

/// Returns what lives on of a machine whose keeper is dead: by its cgroup, its session, its
/// group, and the mark in its environment.
///
/// What is found here is killed by a delete, so whatever the files say, no match may be wider than
/// the machine: nothing older than it, not the first process, not ourselves.
pub(super) fn left_behind(all: &Snapshot, keeping: &Keeping, uid: &str) -> Vec<Identity> {
    if uid.is_empty() {
        return Vec::new();
    }
    let mark = format!("{MARK}={uid}");
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let listed = keeping.cgroup_of(uid).map(cgroup::Cgroup::members).unwrap_or_default();
    let session = still_means(all, keeping.keeper, |_| false);
    let is_ours = |leader: &Process| leader.is_marked(&mark);
    let group = keeping.runner.and_then(|runner| still_means(all, runner, is_ours));
    all.values()
        .filter(|process| !process.zombie && process.pid > 1 && process.pid != me)
        .filter(|process| process.start >= keeping.keeper.start)
        .filter(|process| {
            listed.contains(&process.pid)
                || session == Some(process.session)
                || group == Some(process.group)
                || process.is_marked(&mark)
        })
        .map(Process::identity)
        .collect()
}

/// Returns the number while it can still mean the same session or group: the kernel gives it to
/// no other process as long as a member lives, so a new owner proves that none does. A living leader
/// must prove that it is ours.
fn still_means(
    all: &Snapshot,
    leader: Identity,
    is_ours: impl Fn(&Process) -> bool,
) -> Option<i32> {
    let means = all
        .get(&leader.pid)
        .is_none_or(|now| now.start == leader.start && (now.zombie || is_ours(now)));
    (means && leader.pid > 1).then_some(leader.pid)
}

/// Says whether a job's worker lives among the members of a machine.
pub(super) fn worker(
    witness: Option<&Witness>,
    all: &Snapshot,
    members: &[&Process],
    work: &Path,
) -> Worker {
    match witness {
        None => Worker::NoWitness,
        Some(Witness::Marker(file)) => match work.join(file).try_exists() {
            Ok(true) => Worker::Present,
            Ok(false) => Worker::Absent,
            Err(_) => Worker::Unknown,
        },
        Some(Witness::Process(name)) => {
            if members.iter().any(|process| bears(process, name)) {
                Worker::Present
            } else if all.values().any(|process| is_torn_off(all, process) && bears(process, name))
            {
                // A parent died while we looked: whose child this is cannot be said.
                Worker::Unknown
            } else {
                Worker::Absent
            }
        }
    }
}

/// Returns whether a process has this name, itself or as the program an interpreter runs.
fn bears(process: &Process, name: &str) -> bool {
    let short = name.get(..KERNEL_NAME.min(name.len())).unwrap_or(name);
    let is_name = |argument: &String| {
        let file = argument.rsplit('/').next().unwrap_or_default();
        file == name || file.strip_suffix(".dll") == Some(name)
    };
    !process.zombie && (process.name == short || process.arguments().iter().take(2).any(is_name))
}

fn is_torn_off(all: &Snapshot, process: &Process) -> bool {
    process.parent != 0 && !all.contains_key(&process.parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, group: i32, session: i32) -> Process {
        let (start, name) = (100 + u64::from(pid.unsigned_abs()), format!("p{pid}"));
        Process { pid, parent, group, session, start, zombie: false, name }
    }

    fn snapshot(all: impl IntoIterator<Item = Process>) -> Snapshot {
        all.into_iter().map(|process| (process.pid, process)).collect()
    }

    #[test]
    fn a_tree_holds_all_generations_and_no_neighbours() {
        let all = snapshot([
            process(9, 1, 9, 9),
            process(10, 9, 10, 9),
            process(11, 10, 10, 9),
            process(12, 11, 12, 12),
            process(13, 1, 13, 13),
        ]);
        let mut found: Vec<i32> = below(&all, 9).iter().map(|process| process.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [10, 11, 12]);
    }

    #[test]
    fn what_a_dead_keeper_left_is_found_unless_its_number_is_a_strangers() {
        let keeping = Keeping {
            keeper: Identity { pid: 900_001, start: 50 },
            boot: "b".into(),
            runner: Some(Identity { pid: 900_002, start: 51 }),
            cgroup: None,
        };
        let of_session = process(900_010, 1, 900_010, 900_001);
        let of_group = process(900_011, 1, 900_002, 900_011);
        let older = Process { start: 1, ..process(900_012, 1, 900_002, 900_001) };
        let all = snapshot([of_session.clone(), of_group.clone(), older]);
        let found = left_behind(&all, &keeping, "u");
        assert_eq!(found, [of_session.identity(), of_group.identity()]);

        let strangers = [900_001, 900_002].map(|pid| process(pid, 1, pid, pid));
        let all = snapshot(strangers.into_iter().chain([of_session, of_group]));
        assert!(left_behind(&all, &keeping, "u").is_empty());
    }

    #[test]
    fn no_file_however_wrong_makes_the_whole_system_a_machine() {
        let all = snapshot([
            process(1, 0, 1, 1),
            process(2, 0, 0, 0),
            process(900_020, 1, 1, 1),
            process(900_021, 1, 0, 0),
        ]);
        for pid in [-1, 0, 1] {
            let wrong = Some(Identity { pid, start: 0 });
            let keeping = Keeping {
                keeper: Identity { pid, start: 0 },
                boot: String::new(),
                runner: wrong,
                cgroup: None,
            };
            assert_eq!(left_behind(&all, &keeping, "u"), [], "{pid}");
            assert_eq!(left_behind(&all, &keeping, ""), [], "{pid}");
        }
    }

    #[test]
    fn a_worker_whose_parent_died_during_the_look_is_not_called_absent() {
        let witness = Witness::Process("Runner.Worker".into());
        let say = |parent| {
            let named = Process { name: "Runner.Worker".into(), ..process(12, parent, 12, 12) };
            let all = snapshot([process(1, 0, 1, 1), process(9, 1, 9, 9), named]);
            worker(Some(&witness), &all, &below(&all, 9), Path::new("."))
        };
        assert_eq!(say(9), Worker::Present);
        assert_eq!(say(77), Worker::Unknown);
        assert_eq!(say(1), Worker::Absent);
    }
}
