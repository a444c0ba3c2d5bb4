//! The intake with a forge that counts questions.

use std::sync::Mutex;

use async_trait::async_trait;

use super::*;
use crate::mail::Mailbox;
use crate::model::{
    JobFact, JobId, JobNotice, JobReading, Labels, Observation, Place, RunnerView, Sighting,
    Timestamp,
};
use crate::pool::fixtures::{TestPorts, a_moment, perform};
use crate::ports::RunnerRef;
use crate::registry::Registry;

#[derive(Default)]
struct CountingRoster {
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Roster for CountingRoster {
    async fn runners(&self, _: &Scope) -> Observation<Vec<RunnerView>> {
        Observation::Unusable("not in this test".into())
    }

    async fn runner(&self, _: &Scope, _: &RunnerRef) -> Sighting<RunnerView> {
        Sighting::Unknown("not in this test".into())
    }

    async fn runner_of(&self, _: &Scope, _: &crate::model::MachineName) -> Sighting<RunnerView> {
        Sighting::Unknown("not in this test".into())
    }

    async fn job(&self, _: &JobId, _: &Place, _: u64) -> Sighting<JobReading> {
        Sighting::Unknown("not in this test".into())
    }

    async fn work_of(&self, _: &Scope, _: &RunnerRef) -> Sighting<JobId> {
        Sighting::Unknown("not in this test".into())
    }

    async fn open_jobs(&self, scope: &Scope) -> Observation<Vec<JobNotice>> {
        self.asked.lock().unwrap().push(scope.to_string());
        match scope.to_string().as_str() {
            "down" => Observation::Unusable("503".into()),
            "slow" => {
                tokio::time::sleep(Duration::from_hours(1)).await;
                Observation::Complete(Vec::new())
            }
            _ => Observation::Complete(vec![notice()]),
        }
    }
}

fn notice() -> JobNotice {
    JobNotice {
        id: JobId { forge: "github".into(), number: 7 },
        place: Place { owner: "acme".into(), repository: "web".into(), enterprise: None },
        run: 1,
        name: "build".into(),
        url: String::new(),
        labels: Labels::default(),
        fact: JobFact::Queued,
        runner: None,
        queued_at: Timestamp::UNIX_EPOCH,
        delivery: Some("guid".into()),
    }
}

#[test]
fn every_scope_is_asked_at_once_and_on_every_tick_and_the_ledger_gets_its_jobs() {
    perform(async {
        let (roster, received) =
            (Arc::<CountingRoster>::default(), Arc::<Mutex<Vec<JobNotice>>>::default());
        let (actor_ref, fleet, ledger) =
            (ActorRef::default(), ActorRef::default(), ActorRef::default());
        let sink = Arc::clone(&received);
        ledger.install(Mailbox::new(move |message| {
            if let ToLedger::Notice(notice) = message {
                sink.lock().unwrap().push(notice);
            }
            Ok(())
        }));
        let stop_guard = start(IntakeStart {
            actor_ref: actor_ref.clone(),
            fleet,
            ledger,
            base: Arc::<TestPorts>::default().base(&Arc::<Registry>::default()),
            rosters: BTreeMap::from([("github".into(), roster.clone() as Arc<dyn Roster>)]),
            tick: Duration::from_secs(30),
        });
        let scopes = ["acme", "down", "slow"]
            .map(|scope| (ForgeId::from("github"), Scope::Organization(scope.into())));
        let unknown = (ForgeId::from("nowhere"), Scope::Organization("acme".into()));
        let scopes: BTreeSet<_> = scopes.into_iter().chain([unknown]).collect();
        actor_ref.tell(ToIntake::Scopes(scopes.clone())).unwrap();
        a_moment().await;
        assert_eq!(*roster.asked.lock().unwrap(), ["acme", "down", "slow"]);
        assert_eq!(received.lock().unwrap().len(), 1);
        assert_eq!(received.lock().unwrap()[0].delivery, None, "nothing was delivered");

        actor_ref.tell(ToIntake::Scopes(scopes)).unwrap();
        a_moment().await;
        assert_eq!(roster.asked.lock().unwrap().len(), 3, "nothing is new");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(
            *roster.asked.lock().unwrap(),
            ["acme", "down", "slow", "acme", "down"],
            "the slow one is still thinking"
        );
        drop(stop_guard);
    });
}
