//! The invariants by number: one sentence each, and where it is held.

#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    pub number: u8,
    /// Its name, for people and metrics.
    pub name: &'static str,
    /// What must always hold.
    pub sentence: &'static str,
    /// Where that is checked.
    pub checked: Checked,
}

/// Tells where an invariant is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// At every save, by [`check_save`](super::check_save) or [`check_job`](super::check_job).
    EachStep,
    /// Now and then over everything, by [`scan`](super::scan()).
    Scan,
    /// Never: it cannot be written otherwise, and why.
    ByConstruction(&'static str),
    /// By the story of that name (`tests/README.md`).
    Elsewhere(&'static str),
}

const fn row(
    number: u8,
    name: &'static str,
    checked: Checked,
    sentence: &'static str,
) -> Invariant {
    Invariant { number, name, sentence, checked }
}

use Checked::{ByConstruction, EachStep, Elsewhere, Scan};

/// All invariants, in the order of their numbers.
pub const INVARIANTS: [Invariant; 41] = [
    row(
        1,
        "one writer",
        EachStep,
        "Every save of an instance is made by its living owner, one version after the other.",
    ),
    row(
        2,
        "entry outlives the row",
        Scan,
        "An instance stays on the board until its owner is gone, and its owner goes only after `deleted` is durable.",
    ),
    row(
        3,
        "a failed save ends no owner",
        Elsewhere("i03_save_that_fails_is_repeated_until_it_is_done"),
        "A save that fails is repeated for ever; no effect starts before it is done.",
    ),
    row(
        4,
        "only the owner deletes",
        ByConstruction(
            "the doing halves of the ports travel in `instance::Capabilities`, whose fields are private to `instance/`",
        ),
        "Only its owner can delete an instance; others ask, and may be refused.",
    ),
    row(
        5,
        "no deletion without proof",
        EachStep,
        "A machine whose runner has started is deleted only after its own end, by force, or on outside proof together with a look.",
    ),
    row(
        6,
        "offers and retirement take turns",
        Scan,
        "An instance is promised to one job at a time, and is never deleted between an offer and its refusal.",
    ),
    row(
        7,
        "labels are output",
        ByConstruction("decisions take rows; a stamp is read only to find whose a machine is"),
        "No decision reads back what was written for people.",
    ),
    row(
        8,
        "one owner, one slot",
        Scan,
        "A machine answers to one live row, and its place is given back once, by its end, never by a job's number.",
    ),
    row(
        9,
        "offer and execution are two facts",
        EachStep,
        "Only what the forge proved to run here can be over here; what was offered proves nothing.",
    ),
    row(
        10,
        "displacement is one step",
        Elsewhere("i10_shuffled_jobs_change_places_in_one_step"),
        "When B runs where A was offered, B runs and A waits again, in one transaction.",
    ),
    row(
        11,
        "old attempts are ignored",
        EachStep,
        "Every offer has a generation that only rises; what is said about an older one changes nothing.",
    ),
    row(
        12,
        "over is over",
        EachStep,
        "What the forge calls completed never becomes anything else.",
    ),
    row(
        13,
        "requeue is one step",
        ByConstruction(
            "a `JobSave` carries offer, job and tombstones in one transaction of one writer",
        ),
        "An offer's end and the job's return to the queue are one durable step.",
    ),
    row(
        14,
        "record before deletion",
        EachStep,
        "The record of an end is durable before the provider is asked to delete.",
    ),
    row(
        15,
        "unknown is not clean",
        EachStep,
        "An end is clean only with an exit of 0 and a job that ran here and is over.",
    ),
    row(
        16,
        "a delivery is repeatable",
        EachStep,
        "Asking again after a lost reply brings the same JIT config; a delivery is not taken back.",
    ),
    row(
        17,
        "names are used once",
        EachStep,
        "Every mint has a name of its own, and none is left registered behind a deleted row.",
    ),
    row(
        18,
        "a failed look proves nothing",
        ByConstruction(
            "`Observation::Unusable` and `Sighting::Unknown` carry no data to conclude from",
        ),
        "A look that failed, and a listing that is short, prove no absence.",
    ),
    row(
        19,
        "retirement has a budget",
        Elsewhere("i19_sweep_that_believes_everything_is_orphaned_spends_only_its_budget"),
        "No pool is asked to retire more than its budget in a minute, whatever a sweep believes.",
    ),
    row(
        20,
        "the stuck stay alone",
        Elsewhere("i20_one_hanging_delete_does_not_stop_its_pool_from_refilling"),
        "One stuck instance, pool, provider or forge never delays another.",
    ),
    row(
        21,
        "machines count until gone",
        Scan,
        "An instance holds its place until the provider confirms that its machine is gone.",
    ),
    row(
        22,
        "deletion is verified",
        EachStep,
        "`deleted` follows a confirmed absence, never an accepted call.",
    ),
    row(
        23,
        "adopt first, create later",
        Elsewhere("i23_nothing_is_created_before_every_row_was_looked_at_or_had_two_minutes"),
        "Every row has an owner again before its pool creates anything.",
    ),
    row(
        24,
        "silence is alive",
        ByConstruction("`Worker::Unknown` is a value of its own, matched without a wildcard"),
        "A witness that does not answer is not a dead one.",
    ),
    row(
        25,
        "clocks belong to those who stay",
        ByConstruction("ages of waiting are fields of jobs and pools"),
        "Starvation is measured on jobs and pools, not on instances that come and go.",
    ),
    row(
        26,
        "starts are paced by host",
        Elsewhere("i26_start_permits_are_per_host_and_include_machines_not_yet_seen"),
        "At most so many machines start at once, a dead host holding only its own permits.",
    ),
    row(
        27,
        "demand is what can be served",
        Elsewhere("i27_demand_leaves_out_what_cannot_be_served"),
        "Work that cannot be served is no demand, and blocked work is worth exactly one instance.",
    ),
    row(
        28,
        "receipt is durable",
        Elsewhere("i28_delivery_survives_a_crash_right_after_it_was_accepted"),
        "A delivery is durable before it is acknowledged, and handled once however often it comes.",
    ),
    row(
        29,
        "a restart touches no machine",
        Elsewhere("i29_rolling_restart_under_load_kills_no_job"),
        "Shutting down, upgrading or crashing deletes no machine.",
    ),
    row(
        30,
        "force has a name",
        EachStep,
        "Only an operator's force goes from work to deletion without proof, with who and why.",
    ),
    row(
        31,
        "the diagram",
        EachStep,
        "An instance moves only along the edges of its diagram, from its first row or a find to `deleted`.",
    ),
    row(
        32,
        "state and timeline agree",
        EachStep,
        "Every change of state is one transaction with the event that tells of it.",
    ),
    row(
        33,
        "removal requests only rise",
        EachStep,
        "A removal request is replaced only by a stronger one.",
    ),
    row(
        34,
        "names are for ever",
        EachStep,
        "An instance never changes its name, its machine, its provider or its pool.",
    ),
    row(35, "secrets are wiped", EachStep, "A JIT config is wiped at execution or end."),
    row(
        36,
        "no mishap ends a delivery",
        EachStep,
        "Once a JIT config may be out, only the forge, another execution or the instance's end ends the offer.",
    ),
    row(
        37,
        "proofs are kept",
        EachStep,
        "A create that was called, a machine that was seen, a runner that started and an end are never forgotten.",
    ),
    row(
        38,
        "no job strands",
        Elsewhere("the_first_seeds_hold_every_promise"),
        "A job that a healthy pool can serve runs within 15 minutes of the last fault that touched it, 30 if it was parked.",
    ),
    row(
        39,
        "what should go is gone",
        Elsewhere("the_first_seeds_hold_every_promise"),
        "An instance that should go is gone within 30 minutes of the last fault that touched it.",
    ),
    row(
        40,
        "no place for the gone",
        Elsewhere("the_first_seeds_hold_every_promise"),
        "No place of `max` is held by a machine that is gone, once its absence could be proven.",
    ),
    row(
        41,
        "a broken pool costs little",
        Elsewhere("nothing_is_stranded_after_a_fault_that_healed"),
        "A pool that cannot start runners spends no more registrations than its permits and 15 in the first hour, and 10 in each later one.",
    ),
];
