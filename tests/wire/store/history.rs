//! What people look up.

use ostler::ports::{AuditEntry, DeathQuery, History as _, InstanceQuery, JobQuery, Page, Paged};
use ostler::store::SqlStore;
use ostler_actors::model::{JobState, State, Subject, Tail, VerdictClass, WriteId};
use ostler_actors::ports::{InstanceRows, JobRows, JobSave, Records as _};
use ostler_actors::testing::contract::{event, exit_record, instance, job, saved, stamp};

use super::{next, on_both, open};

fn page(limit: u32, cursor: Option<String>) -> Page {
    Page { limit, cursor }
}

async fn instances(store: &SqlStore, page: &Page) -> Paged<String> {
    let found = store.instances(&InstanceQuery::default(), page).await.expect("a page");
    let items = found.items.iter().map(|row| row.id.to_string()).collect();
    Paged { items, next_cursor: found.next_cursor }
}

#[test]
fn pages_neither_repeat_nor_skip_while_rows_come_and_change() {
    on_both(async |url| {
        let (store, lease) = open(&url).await;
        for number in 0..5 {
            let mut row = instance(&format!("linux-{number}"));
            // Two of one moment, to be told apart by name.
            row.created_at = stamp(number / 2);
            InstanceRows::save(&*store, saved(&row, lease.epoch())).await.expect("a save");
        }
        let first = instances(&store, &page(2, None)).await;
        assert_eq!(first.items, ["linux-4", "linux-3"]);
        let mut newest = instance("linux-new");
        newest.created_at = stamp(99);
        InstanceRows::save(&*store, saved(&newest, lease.epoch())).await.expect("a save");
        let mut gone = instance("linux-2");
        gone.created_at = stamp(1);
        gone = next(&gone);
        gone.state = State::Deleted;
        InstanceRows::save(&*store, saved(&gone, lease.epoch())).await.expect("a save");
        let second = instances(&store, &page(2, first.next_cursor)).await;
        assert_eq!(second.items, ["linux-2", "linux-1"]);
        let last = instances(&store, &page(2, second.next_cursor)).await;
        assert_eq!(last.items, ["linux-0"]);
        assert!(last.next_cursor.is_none());
        let deleted = InstanceQuery { state: Some(State::Deleted), ..InstanceQuery::default() };
        let deleted = store.instances(&deleted, &page(9, None)).await.expect("a page");
        assert_eq!(deleted.items, [gone]);
        let of = InstanceQuery { pool: Some("another".into()), ..InstanceQuery::default() };
        assert!(store.instances(&of, &page(9, None)).await.expect("a page").items.is_empty());
        let wrong = store.instances(&of, &page(9, Some("nonsense".into()))).await;
        assert!(wrong.expect_err("no cursor").to_string().contains("start without one"));
    });
}

#[test]
fn jobs_are_listed_by_state() {
    on_both(async |url| {
        let (store, lease) = open(&url).await;
        let mut closed = job(2);
        closed.closed = Some(ostler_actors::model::Closure::Stale);
        let jobs = vec![job(1), closed.clone(), job(10)];
        let save = JobSave { jobs, epoch: lease.epoch(), write: WriteId(1), ..JobSave::default() };
        JobRows::save(&*store, save).await.expect("a save");
        let all = store.jobs(&JobQuery::default(), &page(2, None)).await.expect("a page");
        let more = store.jobs(&JobQuery::default(), &page(2, all.next_cursor)).await;
        let more = more.expect("a page");
        assert_eq!((all.items.len(), more.items.len()), (2, 1));
        assert!(more.next_cursor.is_none());
        let which = JobQuery { state: Some(JobState::Closed) };
        let found = store.jobs(&which, &page(9, None)).await.expect("a page");
        assert_eq!(found.items, [closed]);
    });
}

#[test]
fn deaths_are_found_by_verdict_pool_and_date_and_keep_their_tails_apart() {
    on_both(async |url| {
        let (store, lease) = open(&url).await;
        for (number, class) in
            (1..).zip([VerdictClass::HostOom, VerdictClass::Clean, VerdictClass::HostOom])
        {
            let row = instance(&format!("linux-{number}"));
            let mut record = exit_record(&row);
            record.verdict.class = class;
            record.at = stamp(number * 100);
            let mut save = saved(&row, lease.epoch());
            save.exit = Some(record);
            InstanceRows::save(&*store, save).await.expect("a save");
        }
        let which = DeathQuery { verdict: Some(VerdictClass::HostOom), ..DeathQuery::default() };
        let found = store.deaths(&which, &page(9, None)).await.expect("a page").items;
        let names: Vec<_> = found.iter().map(|it| it.instance.as_str()).collect();
        assert_eq!(names, ["linux-3", "linux-1"]);
        assert_eq!(found[0].tail, Tail::NotNeeded);
        let whole = store.exit(&found[0].instance).await.expect("a read").expect("a record");
        assert_eq!(whole.tail, Tail::Captured("last words".into()));
        let since = DeathQuery { since: Some(stamp(200)), ..which };
        let found = store.deaths(&since, &page(9, None)).await.expect("a page").items;
        assert_eq!(found.len(), 1);
        let elsewhere = DeathQuery { pool: Some("another".into()), ..DeathQuery::default() };
        assert!(store.deaths(&elsewhere, &page(9, None)).await.expect("a page").items.is_empty());
    });
}

#[test]
fn a_follower_hears_every_event_once_and_a_repeated_one_again() {
    on_both(async |url| {
        let (store, lease) = open(&url).await;
        assert_eq!(store.last_event().await.expect("a read"), 0);
        let row = instance("linux-1");
        let subject = Subject::Instance(row.id.clone());
        let mut save = saved(&row, lease.epoch());
        save.events = vec![event(&subject, 0, 1), event(&subject, 1, 1)];
        InstanceRows::save(&*store, save).await.expect("a save");
        let heard = store.events_after(0, 10).await.expect("a read");
        assert_eq!(heard.iter().map(|it| it.event.seq).collect::<Vec<_>>(), [0, 1]);
        let last = store.last_event().await.expect("a read");
        assert_eq!(last, heard[1].seq);
        assert!(store.events_after(last, 10).await.expect("a read").is_empty());
        let mut save = saved(&next(&row), lease.epoch());
        save.events = vec![event(&subject, 0, 5)];
        InstanceRows::save(&*store, save).await.expect("a save");
        let heard = store.events_after(last, 10).await.expect("a read");
        assert_eq!(heard.iter().map(|it| it.event.count).collect::<Vec<_>>(), [5]);
        assert_eq!(store.timeline(&subject).await.expect("a read").len(), 2);
    });
}

#[test]
fn actions_are_kept_in_the_audit_log_and_positions_in_cursors() {
    on_both(async |url| {
        let (store, _lease) = open(&url).await;
        for what in ["drain", "resume"] {
            let entry =
                AuditEntry { who: "ops".into(), what: what.into(), detail: "pool `linux`".into() };
            store.audit(entry).await.expect("a note");
        }
        let log = store.audits(&page(1, None)).await.expect("a page");
        assert_eq!(log.items[0].entry.what, "resume");
        let log = store.audits(&page(1, log.next_cursor)).await.expect("a page");
        assert_eq!(log.items[0].entry.what, "drain");
        assert!(log.next_cursor.is_none());
        assert_eq!(store.cursor("polls").await.expect("a read"), None);
        for value in ["a", "b"] {
            store.set_cursor("polls", value).await.expect("a note");
        }
        assert_eq!(store.cursor("polls").await.expect("a read").as_deref(), Some("b"));
    });
}
