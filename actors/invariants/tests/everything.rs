//! Jobs, scans and budgets that must be found.

use super::*;

fn job(number: u64, offer: Offer) -> Job {
    Job {
        id: job_id(number),
        place: Place { owner: "acme".into(), repository: "web".into(), enterprise: None },
        run: 1,
        name: "test".into(),
        url: String::new(),
        labels: std::iter::empty::<&str>().collect(),
        fact: JobFact::Queued,
        pool: Some("linux".into()),
        offer,
        generation: Generation(1),
        execution: None,
        closed: None,
        queued_at: now(),
        heard_at: now(),
        over_at: None,
        runner: None,
        events: 0,
        avoid: None,
        attempts: crate::model::JobAttempts::default(),
        asked: Asked::default(),
    }
}

fn open(instance: &str, stage: OfferStage) -> Offer {
    let instance = InstanceId::from(instance);
    Offer::Open(OpenOffer { instance, generation: Generation(1), stage, since: now(), host: None })
}

#[test]
fn a_job_that_sinks_or_rises_from_the_dead_is_found() {
    let mut before = job(7, Offer::None);
    before.fact = JobFact::Completed(Conclusion::Cancelled);
    breaks(&check_job(Some(&before), &job(7, Offer::None)), 12);
    let mut over = job(7, open("linux-1", OfferStage::Offered));
    over.fact = JobFact::Completed(Conclusion::Success);
    breaks(&check_job(None, &over), 12);
    let mut runs = job(7, open("linux-1", OfferStage::Offered));
    runs.execution = Some(Execution { instance: "linux-1".into(), since: now() });
    breaks(&check_job(None, &runs), 9);
    let mut older = job(7, Offer::None);
    older.generation = Generation(0);
    breaks(&check_job(Some(&job(7, Offer::None)), &older), 11);
}

#[test]
fn a_delivered_offer_that_ends_by_mishap_is_found() {
    let delivered = job(7, open("linux-1", OfferStage::Delivered));
    let ended = |why| job(7, Offer::Ended { why, at: now() });
    breaks(&check_job(Some(&delivered), &ended(OfferEnd::Lapsed)), 36);
    breaks(&check_job(Some(&delivered), &ended(OfferEnd::Refused)), 36);
    holds(&check_job(Some(&delivered), &ended(OfferEnd::Requeued)));
    breaks(&check_job(Some(&delivered), &job(7, Offer::None)), 36);
    breaks(&check_job(Some(&delivered), &job(7, open("linux-1", OfferStage::Offered))), 36);
    breaks(&check_job(Some(&delivered), &job(7, open("linux-2", OfferStage::Delivered))), 11);
    let mut again = job(7, open("linux-2", OfferStage::Offered));
    again.generation = Generation(2);
    if let Offer::Open(offer) = &mut again.offer {
        offer.generation = Generation(2);
    }
    holds(&check_job(Some(&delivered), &again)); // a finding and the next offer share a save
}

#[test]
fn a_scan_finds_what_no_single_step_shows() {
    let registry = Arc::new(Registry::default());
    let _entry = registry.claim("linux-1".into(), Mailbox::new(|_| Ok(()))).unwrap();
    let look = |rows: &[Instance], jobs: &[Job], over: &[JobId]| {
        scan(&Snapshot {
            rows: rows.iter().collect(),
            registry: Some(&registry),
            jobs: jobs.iter().collect(),
            tombstones: &over.iter().cloned().collect(),
            limits: &BTreeMap::from([(PoolId::new("linux"), 1)]),
            quarantined: &BTreeSet::new(),
        })
    };
    let rows = [row(State::Idle), Instance { id: "linux-2".into(), ..row(State::Idle) }];
    let jobs = [7, 8].map(|number| job(number, open("linux-1", OfferStage::Offered)));
    holds(&look(&rows[..1], &jobs[..1], &[]));
    let found = look(&rows, &jobs, &[]);
    breaks(&found, 2); // linux-2 has no entry
    breaks(&found, 8); // and the machine of linux-1
    breaks(&found, 21); // and there is room for one
    breaks(&found, 6); // two jobs are promised linux-1
    breaks(&look(&rows[..1], &jobs[..1], &[job_id(7)]), 12);

    let [first, second] = rows;
    let stray = Instance { adopted: true, machine: "stray".into(), ..second };
    let found = look(&[first, stray], &[], &[]);
    assert!(found.iter().all(|violation| violation.number == 2), "{found:?}");
}

#[test]
fn an_entry_that_shows_a_life_without_a_row_is_found() {
    let registry = Arc::new(Registry::default());
    let entry = registry.claim("linux-1".into(), Mailbox::new(|_| Ok(()))).unwrap();
    let (tombstones, limits) = (BTreeSet::new(), BTreeMap::new());
    let look = || {
        let registry = Some(&*registry);
        scan(&Snapshot {
            rows: vec![],
            registry,
            jobs: vec![],
            tombstones: &tombstones,
            limits: &limits,
            quarantined: &BTreeSet::new(),
        })
    };
    holds(&look()); // not inserted yet
    entry.show(Arc::new(row(State::Deleting)));
    holds(&look()); // `deleted` is durable, its owner is about to leave
    entry.show(Arc::new(row(State::Busy)));
    breaks(&look(), 2);
}

#[test]
fn more_retirements_than_the_budget_in_any_minute_are_found() {
    let at = |seconds| after(now(), Duration::from_secs(seconds));
    let pool = PoolId::new("linux");
    holds(&check_budget(&pool, &[at(0), at(1), at(60), at(61)], 2));
    breaks(&check_budget(&pool, &[at(0), at(1), at(59)], 2), 19);
    breaks(&check_budget(&pool, &[at(0)], 0), 19);
    holds(&check_budget(&pool, &[], 0));
}
