//! Random inputs against what must always hold; `Desk::save` checks after each.

use proptest::prelude::*;

use super::*;
use crate::jobs::Accepts;
use crate::model::Refusal;

const INSTANCES: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Debug)]
enum Input {
    Notice(u64, u8, Option<usize>),
    News(usize, u8, u64),
    Deliver(u64, usize, u64),
    Answered(u64, usize, u64, bool),
    Ask(u64),
    Answer(usize, u8, Option<usize>),
    Standing(usize, u8),
    Pass(u64),
    Tick,
    Restart,
    Reload,
}

fn inputs() -> impl Strategy<Value = Input> {
    let runner = || prop::option::of(0..6_usize);
    prop_oneof![
        8 => (0..5_u64, 0..6_u8, runner()).prop_map(|(a, b, c)| Input::Notice(a, b, c)),
        8 => (0..4_usize, 0..9_u8, 0..5_u64).prop_map(|(a, b, c)| Input::News(a, b, c)),
        5 => (0..5_u64, 0..4_usize, 0..2_u64).prop_map(|(a, b, c)| Input::Deliver(a, b, c)),
        2 => (0..5_u64, 0..4_usize, 0..2_u64, any::<bool>())
            .prop_map(|(a, b, c, d)| Input::Answered(a, b, c, d)),
        3 => (0..5_u64).prop_map(Input::Ask),
        4 => (0..8_usize, 0..6_u8, runner()).prop_map(|(a, b, c)| Input::Answer(a, b, c)),
        2 => (0..2_usize, 0..4_u8).prop_map(|(a, b)| Input::Standing(a, b)),
        3 => prop_oneof![Just(1), Just(60), Just(301), Just(90_000)].prop_map(Input::Pass),
        1 => Just(Input::Tick),
        1 => Just(Input::Restart),
        1 => Just(Input::Reload),
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

fn news(what: u8, job: u64, name: &str) -> InstanceChange {
    match what {
        0 => InstanceChange::Answers(vec![name.into()]),
        1 => InstanceChange::Answers(vec![name.into(), format!("{name}-2").as_str().into()]),
        2..=4 => InstanceChange::Offerable,
        5 => InstanceChange::Unavailable,
        6 => InstanceChange::Working((job > 0).then(|| id(job))),
        7 => InstanceChange::Ended,
        _ => InstanceChange::Deleted,
    }
}

/// Plays one input at the desk; `questions` are those still unanswered.
fn play(desk: &mut Desk, questions: &mut Vec<Finding>, input: &Input) {
    let generation = |desk: &Desk, job: u64, behind: u64| {
        let row = desk.rows.get(&id(job));
        Generation(row.map_or(0, |row| row.generation.0).saturating_sub(behind))
    };
    match *input {
        Input::Notice(job, kind, at) => {
            let named = if kind >= 3 { runner(at) } else { None };
            desk.hear(job, fact(kind), named);
        }
        Input::News(at, what, job) => {
            desk.news(INSTANCES[at], news(what, job, INSTANCES[at]));
        }
        Input::Deliver(job, at, behind) => {
            let generation = generation(desk, job, behind);
            let allowed = desk.deliver(job, INSTANCES[at], generation);
            let open = desk.rows.get(&id(job)).and_then(Job::open_offer);
            let durable = open.is_some_and(|open| {
                (open.stage, open.generation) == (OfferStage::Delivered, generation)
                    && open.instance.as_str() == INSTANCES[at]
            });
            assert_eq!(allowed, durable);
        }
        Input::Answered(job, at, behind, taken) => {
            let generation = generation(desk, job, behind);
            let answer = taken.then_some(Err(Refusal::Busy));
            let now = desk.now;
            let instance = INSTANCES[at].into();
            let change = desk.ledger.offer_answered(&id(job), &instance, generation, answer, now);
            desk.save(change);
        }
        Input::Ask(job) if desk.rows.contains_key(&id(job)) => {
            questions.push(desk.question(job));
        }
        Input::Answer(at, kind, by) if !questions.is_empty() => {
            let question = questions.swap_remove(at % questions.len());
            answer(desk, question, kind, by);
        }
        Input::Ask(_) | Input::Answer(..) => {}
        Input::Standing(at, kind) => {
            let accepts = [Accepts::Work, Accepts::Draining, Accepts::Full, Accepts::Broken];
            let pool = desk.pools[at].id.clone();
            let change = desk.ledger.standing_changed(&pool, accepts[usize::from(kind)], desk.now);
            desk.save(change);
        }
        Input::Pass(seconds) => desk.pass(Duration::from_secs(seconds)),
        Input::Tick => drop(desk.tick()),
        Input::Restart => {
            desk.restart();
            desk.know_pools();
        }
        Input::Reload => drop(desk.know_pools()),
    }
}

fn answer(desk: &mut Desk, question: Finding, kind: u8, by: Option<usize>) {
    let before = desk.rows[&question.job].clone();
    let seen = match kind {
        0 => Sighting::Absent,
        1 => Sighting::Unknown("502".into()),
        _ => reading(fact(kind), runner(by)),
    };
    let stale =
        before.generation != question.generation || before.holder() != question.instance.as_ref();
    desk.answer(question, seen);
    if stale {
        assert_eq!(desk.rows[&before.id], before, "a late finding touched a successor");
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
        script in prop::collection::vec(inputs(), 1..80)
    ) {
        let mut small = pool("linux", &["linux"]);
        small.max = 2;
        let mut desk = Desk::with(vec![small, pool("more", &["linux", "x64"])]);
        let mut questions = Vec::new();
        for input in &script {
            play(&mut desk, &mut questions, input);
        }
    }
}
