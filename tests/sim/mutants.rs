//! A checker that cannot fail proves nothing: every deliberate mistake is caught.
//!
//! Most are caught by small worlds of the weather that brings them out; three need a coincidence
//! that few seeds bring, and are caught by a story. The very same worlds without the mistake are
//! clean, so that it is the mistake that is caught.

mod stories;

use std::time::Duration;

use ostler_actors::invariants::Violation;
use ostler_actors::mutants::{Mutant, choose};
use ostler_actors::testing::{Dice, EpisodeKind, Faults, Plan, Watched, Weather, in_virtual_time};

/// How many worlds a mistake has to show itself.
const SEEDS: u64 = 100;
/// How many jobs come to each.
const JOBS_PER_WORLD: u32 = 12;
/// How many come to each world with an episode.
const JOBS_PER_EPISODE: u32 = 20;
/// The numbers of the promises about waiting.
const LIVENESS: std::ops::RangeInclusive<u8> = 38..=41;

/// Makes this thread's worlds commit a mistake, until it is dropped.
pub(super) struct Mistake;

impl Mistake {
    pub(super) fn commit(mutant: Mutant) -> Self {
        choose(Some(mutant));
        Self
    }
}

impl Drop for Mistake {
    fn drop(&mut self) {
        choose(None);
    }
}

/// Where a mistake shows itself.
enum Hunt {
    /// In small worlds of this weather.
    Weather(Weather),
    Story(fn() -> Vec<Violation>),
    /// In waits beyond their limit, in small worlds of this weather.
    Waits(Weather),
    /// In waits beyond their limit, in worlds with an episode of this kind.
    WaitsIn(EpisodeKind),
}

fn hunt(mutant: Mutant) -> Hunt {
    match mutant {
        Mutant::ReaperDeletesDirectly
        | Mutant::MissingClaimKills
        | Mutant::SlotFreedTwice
        | Mutant::RecordAfterDelete => Hunt::Weather(Weather::Deadly),
        Mutant::EntryRemovedEarly | Mutant::JitBeforeAck => Hunt::Weather(Weather::Calm),
        Mutant::DeletingSkippedAtStart => Hunt::Weather(Weather::Crashing),
        Mutant::CreateRepeated | Mutant::ListingProvesAbsence | Mutant::EffectWithoutAnswer => {
            Hunt::Weather(Weather::LyingProvider)
        }
        Mutant::OneAbsenceProves | Mutant::ReservedForever => Hunt::Weather(Weather::Everything),
        Mutant::CompletionByOfferedJob => Hunt::Story(stories::completion_of_the_offered_job),
        Mutant::NoGenerationCheck => Hunt::Story(stories::answer_about_an_earlier_offer),
        Mutant::UnknownMeansIdle => Hunt::Story(stories::silent_witness),
        Mutant::QuarantineStopsFleet => Hunt::Story(stories::row_that_cannot_be_decoded),
        Mutant::PlaceOfTheGone => Hunt::Story(stories::registration_of_a_gone_machine),
        Mutant::ParkedForever => Hunt::WaitsIn(EpisodeKind::JobsKillRunners),
        Mutant::DeleteNotRetried => Hunt::Waits(Weather::LyingProvider),
        Mutant::MissedJobsNotAskedFor => Hunt::WaitsIn(EpisodeKind::WebhooksLost),
    }
}

/// Draws a small world in a chosen weather.
pub(super) fn small(weather: Weather, seed: u64) -> Plan {
    let mut plan = Plan::random(seed, JOBS_PER_WORLD);
    let blind = plan.pools.iter().any(|pool| pool.provider.as_str() == "blind");
    plan.weather = weather;
    plan.faults = Faults::draw(weather, blind, &mut Dice::new(seed, 9));
    plan
}

/// Runs a world until something is broken, or to its end.
fn broken_in(plan: Plan) -> Vec<Violation> {
    in_virtual_time(async {
        let mut world = Watched::new(plan).measuring();
        world.storm(Duration::from_mins(30)).await;
        let broken = world.broken();
        if broken.is_empty() { world.finish().await } else { broken }
    })
}

/// Asserts that some world of the first seeds shows the mistake, and that it is clean without it.
fn is_caught_in(mutant: Mutant, plan: impl Fn(u64) -> Plan, shows: impl Fn(&Violation) -> bool) {
    let caught = (0..SEEDS).find(|seed| {
        let _made = Mistake::commit(mutant);
        broken_in(plan(*seed)).iter().any(&shows)
    });
    assert!(caught.is_some(), "{mutant:?} went unseen in {SEEDS} worlds");
    for seed in 0..=caught.unwrap_or_default() {
        let broken = broken_in(plan(seed));
        assert!(broken.is_empty(), "world {seed} without {mutant:?}: {broken:#?}");
    }
}

fn is_caught(mutant: Mutant) {
    let strands = |broken: &Violation| LIVENESS.contains(&broken.number);
    match hunt(mutant) {
        Hunt::Weather(weather) => is_caught_in(mutant, |seed| small(weather, seed), |_| true),
        Hunt::Waits(weather) => is_caught_in(mutant, |seed| small(weather, seed), strands),
        Hunt::WaitsIn(kind) => {
            let plan = |seed| Plan::with_episode(kind, seed, JOBS_PER_EPISODE);
            is_caught_in(mutant, plan, strands);
        }
        Hunt::Story(tell) => {
            let caught = {
                let _made = Mistake::commit(mutant);
                tell()
            };
            assert!(!caught.is_empty(), "{mutant:?} went unseen in its story");
            let broken = tell();
            assert!(broken.is_empty(), "without a mistake: {broken:#?}");
        }
    }
}

/// One test a mistake, and the list of them.
macro_rules! caught {
    ($($name:ident: $mutant:ident,)*) => {
        $(
            #[test]
            fn $name() {
                is_caught(Mutant::$mutant);
            }
        )*

        #[test]
        fn every_deliberate_mistake_is_hunted() {
            assert_eq!([$(Mutant::$mutant),*], Mutant::ALL);
        }
    };
}

caught! {
    a_reaper_that_deletes_directly_is_caught: ReaperDeletesDirectly,
    an_entry_removed_when_deletion_is_asked_for_is_caught: EntryRemovedEarly,
    rows_in_deletion_without_an_owner_after_a_start_are_caught: DeletingSkippedAtStart,
    an_empty_listing_taken_as_absence_is_caught: ListingProvesAbsence,
    a_completion_credited_to_the_offered_runner_is_caught: CompletionByOfferedJob,
    a_finding_applied_to_another_attempt_is_caught: NoGenerationCheck,
    a_death_recorded_after_the_delete_is_caught: RecordAfterDelete,
    a_started_runner_reaped_on_a_missing_claim_is_caught: MissingClaimKills,
    a_create_retried_without_a_look_is_caught: CreateRepeated,
    a_slot_freed_twice_is_caught: SlotFreedTwice,
    a_silent_witness_read_as_idle_is_caught: UnknownMeansIdle,
    one_absent_read_taken_as_proof_is_caught: OneAbsenceProves,
    a_jit_config_handed_out_before_the_ledger_knows_is_caught: JitBeforeAck,
    an_offer_that_ends_untold_is_caught: ReservedForever,
    a_fleet_stopped_by_one_row_is_caught: QuarantineStopsFleet,
    an_effect_without_an_answer_is_caught: EffectWithoutAnswer,
    a_place_held_by_a_machine_that_is_gone_is_caught: PlaceOfTheGone,
    a_job_that_is_parked_for_ever_is_caught: ParkedForever,
    an_instance_whose_delete_is_not_tried_again_is_caught: DeleteNotRetried,
    jobs_of_lost_webhooks_that_are_never_listed_are_caught: MissedJobsNotAskedFor,
}
