//! Random inputs against what must always hold; `TestLedger::save` checks after each.

use proptest::prelude::*;

use super::*;
use crate::jobs::Accepts;
use crate::model::Refusal;

const INSTANCES: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Debug)]
enum LedgerStep {
    Notice(u64, u8, Option<usize>),
    Instance(usize, u8, u64),
    Deliver(u64, usize, u64),
    Answered(u64, usize, u64, bool),
    Ask(u64),
    Answer(usize, u8, Option<usize>),
    PoolStatus(usize, u8),
    Pass(u64),
    Tick,
    Restart,
    Reload,
}

fn steps() -> impl Strategy<Value = LedgerStep> {
    let runner = || prop::option::of(0..6_usize);
    prop_oneof![
        8 => (0..5_u64, 0..6_u8, runner()).prop_map(|(a, b, c)| LedgerStep::Notice(a, b, c)),
        8 => (0..4_usize, 0..13_u8, 0..5_u64).prop_map(|(a, b, c)| LedgerStep::Instance(a, b, c)),
        5 => (0..5_u64, 0..4_usize, 0..2_u64).prop_map(|(a, b, c)| LedgerStep::Deliver(a, b, c)),
        2 => (0..5_u64, 0..4_usize, 0..2_u64, any::<bool>())
            .prop_map(|(a, b, c, d)| LedgerStep::Answered(a, b, c, d)),
        3 => (0..5_u64).prop_map(LedgerStep::Ask),
        4 => (0..8_usize, 0..6_u8, runner()).prop_map(|(a, b, c)| LedgerStep::Answer(a, b, c)),
        2 => (0..2_usize, 0..4_u8).prop_map(|(a, b)| LedgerStep::PoolStatus(a, b)),
        3 => prop_oneof![Just(1), Just(60), Just(301), Just(90_000)].prop_map(LedgerStep::Pass),
        1 => Just(LedgerStep::Tick),
        1 => Just(LedgerStep::Restart),
        1 => Just(LedgerStep::Reload),
    ]
}

fn runner(at: Option<usize>) -> Option<&'static str> {
    at.map(|at| ["a", "b", "c", "d", "a-2", "foreign"][at])
}

fn fact(at: u8) -> JobFact {
    match at {
        0 => JobFact::Waiting,
        1 | 2 => QUEUED,
        3 | 4 => RUNS,
        _ => JobFact::Completed(Conclusion::Cancelled),
    }
}

fn instance_change(what: u8, job: u64, name: &str) -> InstanceChange {
    match what {
        0 => InstanceChange::Answers(home(), vec![name.into()]),
        1 => {
            InstanceChange::Answers(home(), vec![name.into(), format!("{name}-2").as_str().into()])
        }
        2..=4 => InstanceChange::Offerable(None),
        5 => InstanceChange::Unavailable,
        6 => InstanceChange::Working((job > 0).then(|| id(job))),
        7 => InstanceChange::Ended,
        8 => InstanceChange::EndedUnnamed,
        9 => InstanceChange::Registered(name.into(), crate::model::RunnerId(job)),
        10 => InstanceChange::Judged(crate::model::VerdictClass::Wasted),
        11 => InstanceChange::DeliveryInDoubt,
        _ => InstanceChange::Deleted,
    }
}

/// Plays one step; `questions` are those still unanswered.
fn play(test: &mut TestLedger, questions: &mut Vec<JobFinding>, step: &LedgerStep) {
    let generation = |test: &TestLedger, job: u64, behind: u64| {
        let row = test.rows.get(&id(job));
        Generation(row.map_or(0, |row| row.generation.0).saturating_sub(behind))
    };
    match *step {
        LedgerStep::Notice(job, kind, at) => {
            let named = if kind >= 3 { runner(at) } else { None };
            test.notice(job, fact(kind), named);
        }
        LedgerStep::Instance(at, what, job) => {
            test.instance(INSTANCES[at], instance_change(what, job, INSTANCES[at]));
        }
        LedgerStep::Deliver(job, at, behind) => {
            let generation = generation(test, job, behind);
            let allowed = test.deliver(job, INSTANCES[at], generation);
            let open = test.rows.get(&id(job)).and_then(Job::open_offer);
            let durable = open.is_some_and(|open| {
                (open.stage, open.generation) == (OfferStage::Delivered, generation)
                    && open.instance.as_str() == INSTANCES[at]
            });
            assert_eq!(allowed, durable);
        }
        LedgerStep::Answered(job, at, behind, taken) => {
            let generation = generation(test, job, behind);
            let answer = taken.then_some(Err(Refusal::Busy));
            test.offer_answered(job, INSTANCES[at], generation, answer);
        }
        LedgerStep::Ask(job) if test.rows.contains_key(&id(job)) => {
            questions.push(test.question(job));
        }
        LedgerStep::Answer(at, kind, by) if !questions.is_empty() => {
            let question = questions.swap_remove(at % questions.len());
            answer(test, question, kind, by);
        }
        LedgerStep::Ask(_) | LedgerStep::Answer(..) => {}
        LedgerStep::PoolStatus(at, kind) => {
            let accepts = [Accepts::Work, Accepts::Draining, Accepts::Full, Accepts::Broken];
            let pool = test.pools[at].id.clone();
            let accepts = accepts[usize::from(kind)];
            test.handle(LedgerInput::PoolStatus { pool, accepts });
        }
        LedgerStep::Pass(seconds) => test.pass(Duration::from_secs(seconds)),
        LedgerStep::Tick => drop(test.tick()),
        LedgerStep::Restart => {
            test.restart();
            test.know_pools();
        }
        LedgerStep::Reload => drop(test.know_pools()),
    }
}

fn answer(test: &mut TestLedger, question: JobFinding, kind: u8, by: Option<usize>) {
    let before = test.rows[&question.job].clone();
    let seen = match kind {
        0 => Sighting::Absent,
        1 => Sighting::Unknown("502".into()),
        _ => reading(fact(kind), runner(by)),
    };
    let stale =
        before.generation != question.generation || before.holder() != question.instance.as_ref();
    test.answer(question, seen);
    if stale {
        assert_eq!(test.rows[&before.id], before, "a late finding touched a successor");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_happens_the_ledger_holds(
        script in prop::collection::vec(steps(), 1..80)
    ) {
        let mut small = pool("linux", &["linux"]);
        small.max = 2;
        let mut test = TestLedger::with(vec![small, pool("more", &["linux", "x64"])]);
        let mut questions = Vec::new();
        for step in &script {
            play(&mut test, &mut questions, step);
        }
    }
}
