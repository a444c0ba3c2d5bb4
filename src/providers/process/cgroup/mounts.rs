//! Where cgroups are on this system, and where we are among them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A cgroup under which machines may have theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Where theirs are made.
    pub(super) path: PathBuf,
    pub(super) own: PathBuf,
}

/// Holds the places to try.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// v2: our own cgroup, then its parent (a service manager that delegates puts us one below).
    pub(super) unified: Vec<Place>,
    /// v1 `memory`.
    pub(super) memory: Option<Place>,
    /// v1 `pids`.
    pub(super) pids: Option<Place>,
}

/// Reads the places from the kernel.
pub(super) fn read() -> io::Result<Places> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let mut places = find(&mounts, &own);
    places.unified.retain(|place| has_memory(&place.path));
    Ok(places)
}

fn has_memory(cgroup: &Path) -> bool {
    let controllers = fs::read_to_string(cgroup.join("cgroup.controllers")).unwrap_or_default();
    controllers.split_ascii_whitespace().any(|name| name == "memory")
}

fn find(mounts: &str, own: &str) -> Places {
    let v1 = |controller: &str| {
        let mount = mounts.lines().filter_map(Mount::parse).find(|mount| {
            mount.kind == "cgroup" && mount.options.split(',').any(|word| word == controller)
        })?;
        let path = mount.inner(own_path(own, controller)?);
        Some(Place { path: path.clone(), own: path })
    };
    let v2 = || {
        let mount = mounts.lines().filter_map(Mount::parse).find(|it| it.kind == "cgroup2")?;
        let path = mount.inner(own_path(own, "")?);
        Some((PathBuf::from(mount.at), path))
    };
    let unified = v2().map_or_else(Vec::new, |(root, own)| {
        let above = own.parent().filter(|above| above.starts_with(&root)).map(Path::to_path_buf);
        let candidates = std::iter::once(own.clone()).chain(above);
        candidates.map(|path| Place { path, own: own.clone() }).collect()
    });
    Places { unified, memory: v1("memory"), pids: v1("pids") }
}

/// Returns our path in the hierarchy of a controller; v2 has no name.
fn own_path<'a>(own: &'a str, controller: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (names, path) = (fields.next()?, fields.next()?);
        names.split(',').any(|name| name == controller).then_some(path)
    })
}

struct Mount<'a> {
    root: &'a str,
    at: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// Reads `id parent device root at options… - kind source options`.
    fn parse(line: &'a str) -> Option<Self> {
        let (head, tail) = line.split_once(" - ")?;
        let mut head = head.split(' ').skip(3);
        let (root, at) = (head.next()?, head.next()?);
        let mut tail = tail.split(' ');
        let (kind, _source, options) = (tail.next()?, tail.next()?, tail.next()?);
        Some(Self { root, at, kind, options })
    }

    /// Returns where a path of the hierarchy is seen; a container mounts only a part of it.
    fn inner(&self, path: &str) -> PathBuf {
        let below = path.strip_prefix(self.root.trim_end_matches('/')).unwrap_or(path);
        let below = below.trim_start_matches('/');
        if below.is_empty() { self.at.into() } else { Path::new(self.at).join(below) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_controllers_are_found_where_we_are() {
        let mounts = "\
30 20 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 30 0:27 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
";
        let found = find(mounts, "8:pids:/\n4:memory:/jobs/a\n0::/\n");
        let memory = PathBuf::from("/sys/fs/cgroup/memory/jobs/a");
        assert_eq!(found.memory, Some(Place { path: memory.clone(), own: memory }));
        assert_eq!(found.pids.unwrap().path, PathBuf::from("/sys/fs/cgroup/pids"));
        assert!(found.unified.is_empty());
    }

    #[test]
    fn v2_offers_our_own_cgroup_and_the_one_above() {
        let mounts = "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = find(mounts, "0::/system.slice/ostler.service/daemon\n");
        let paths: Vec<_> = found.unified.iter().map(|place| place.path.as_path()).collect();
        let service = Path::new("/sys/fs/cgroup/system.slice/ostler.service");
        assert_eq!(paths, [service.join("daemon").as_path(), service]);
        assert!(found.unified.iter().all(|place| place.own == service.join("daemon")));
        assert_eq!(find(mounts, "0::/\n").unified.len(), 1, "nothing is above the root");
    }

    #[test]
    fn a_container_sees_its_part_of_the_hierarchy() {
        let mounts = "31 30 0:26 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let found = find(mounts, "4:memory:/docker/abc/sub\n");
        assert_eq!(found.memory.unwrap().path, PathBuf::from("/sys/fs/cgroup/memory/sub"));
    }
}
