//! Runners as local processes, each under a keeper of its own.
//!
//! ```text
//!  daemon ──create──▶ DIR (stamp, plan, JIT) ──starts──▶ keeper ──starts──▶ runner ──▶ job …
//!    ▲                                                    │  own session, subreaper
//!    └───────reads──── keeper.json · output · exit.json ◀─┘
//! ```
//!
//! A machine is a directory under `work_dir`. Everything known of it is in its files, so a
//! daemon that died knows as much as one that did not: nothing is kept in memory. The *keeper*
//! is this binary again (`ostler keeper`). It outlives the daemon, owns the runner's output,
//! tells apart how the runner ended, and leaves no process behind, not even one that made
//! itself a session of its own.
//!
//! A process is known by its number *and* its start time, a machine by its name *and* an id of
//! its own; so no signal reaches another process that merely has the same number, and no delete
//! reaches a successor of the same name. A lock that the keeper holds tells a dead keeper from
//! one that is out of sight (another container, another host on the same disk): the first is
//! an end, the second is doubt.
//!
//! | file | written by | holds |
//! |---|---|---|
//! | `stamp.json` | create | name, id, whose it is |
//! | `plan.json` | create | what to run, as whom, within which limits |
//! | `ticket` | create | what a machine without a registration asks for work with; gone once it has some |
//! | `lock` | create | held while a process creates or keeps the machine |
//! | `keeper.json` | keeper | keeper and runner: number, start time, boot; its cgroup |
//! | `ready` | keeper | the runner said that it listens |
//! | `output`, `output.old` | keeper | the last of what the runner said, 64 KiB each at most |
//! | `stop.json` | delete | how much grace is left |
//! | `exit.json` | keeper | how the runner ended |
//! | `work/` | all | the runner's own directory, JIT files in it 0600 |
//!
//! Bound early, the JIT config lies in the directory before the keeper starts. Bound late, the keeper
//! asks the daemon for work first, with its ticket, and lays the config out itself; until then there
//! is neither a runner nor a registration, and nothing that a job could be given to.
//!
//! What it cannot do: prove that a runner never began (its process starts with the machine), and
//! follow processes that a job starts outside the keeper's tree, such as containers of a daemon.

mod cgroup;
mod claim;
mod copy;
mod create;
mod delete;
mod disk;
mod files;
mod jit;
pub mod keeper;
mod look;
mod machine_status;
mod names;
mod procs;
mod remove;
mod ring;
mod settings;
mod state;
mod ticket;
mod tree;
mod user;
mod watch;

pub use settings::{DEFAULT_PATH, INHERITED, Limits, ProcessSettings, Witness};
pub use state::{LocalProcess, OpenError, open};

/// Marks every process of a machine in its environment; holds the machine's id.
const MARK: &str = "OSTLER_MACHINE";
