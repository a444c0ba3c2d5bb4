//! Machines without a registration: what they prove themselves with, and how they go.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use ostler_actors::model::{Binding, MachinePhase, PoolSpec};
use ostler_actors::ports::{
    CreateError, CreateOrder, Grace, MachineAuth as _, MachineRef, MachineToken, Provider as _,
    TokenReview,
};

use super::fixture::{Fixture, away, named, order, over, says, seen};

/// Orders a machine that is to ask for work.
fn warm(name: &str) -> CreateOrder {
    let order = order(name);
    let pool = PoolSpec { binding: Binding::Late, ..PoolSpec::clone(&order.pool) };
    CreateOrder { pool: Arc::new(pool), ..order }
}

/// A fixture whose machines ask where no server answers.
fn unanswered() -> Fixture {
    let mut fixture = Fixture::running("echo began; exit 0");
    fixture.settings.public_url = Some("http://127.0.0.1:9".into());
    fixture
}

#[tokio::test]
async fn a_ticket_proves_one_machine_and_no_other() {
    let fixture = unanswered();
    let provider = fixture.provider();
    for name in ["m1", "m2"] {
        provider.create(warm(name)).await.unwrap();
    }
    let path = fixture.home("m1").join("ticket");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let ticket = fs::read_to_string(&path).unwrap();
    let review = async |text: &str| provider.review(&MachineToken::new(text)).await;
    let uid = seen(&provider, "m1").await.uid.unwrap();
    let belongs = TokenReview::Belongs(MachineRef { name: "m1".into(), uid: Some(uid) });
    assert_eq!(review(&ticket).await, belongs);
    // Another daemon on the same machines knows it as well.
    let again = fixture.provider();
    assert_eq!(again.review(&MachineToken::new(ticket.as_str())).await, belongs);

    let other = fs::read_to_string(fixture.home("m2").join("ticket")).unwrap();
    let (claim, _) = ticket.rsplit_once(':').unwrap();
    let (_, secret) = other.rsplit_once(':').unwrap();
    let shorter = ticket.get(1..).unwrap();
    let crossed = format!("{claim}:{secret}");
    for bad in ["", ":", "::", "m1::", "../m1:x:y", &crossed, shorter, &format!("{ticket}0")] {
        assert!(matches!(review(bad).await, TokenReview::Refused(_)), "{bad}");
    }
    away(&provider, "m1").await;
    assert!(matches!(review(&ticket).await, TokenReview::Refused(_)), "its machine is gone");
    away(&provider, "m2").await;
}

#[tokio::test]
async fn a_machine_that_waits_for_work_begins_nothing_and_goes_at_once() {
    let fixture = unanswered();
    let provider = fixture.provider();
    provider.create(warm("m1")).await.unwrap();
    says(&provider, "m1", "no answer").await;
    assert_eq!(seen(&provider, "m1").await.phase, MachinePhase::Booting);
    provider.delete(&named("m1"), Grace::Usual).await.unwrap();
    assert!(!fixture.home("m1").exists(), "and nothing is left of it");
}

#[tokio::test]
async fn a_keeper_that_is_stopped_while_it_waits_says_that_the_runner_never_began() {
    let fixture = unanswered();
    let provider = fixture.provider();
    provider.create(warm("m1")).await.unwrap();
    says(&provider, "m1", "asking http://127.0.0.1:9").await;
    let keeper =
        fixture.living().first().map(|(pid, _)| *pid).and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(keeper.unwrap(), rustix::process::Signal::TERM).unwrap();
    let facts = over(&provider, "m1").await;
    assert_eq!((facts.code, facts.part.as_deref()), (Some(143), Some("keeper")));
    says(&provider, "m1", "told to stop before there was work").await;
    away(&provider, "m1").await;
}

#[tokio::test]
async fn without_an_address_to_ask_at_nothing_is_made() {
    let fixture = Fixture::running("exit 0");
    let refused = fixture.provider().create(warm("m1")).await.unwrap_err();
    let CreateError::Refused { why, .. } = refused else { panic!("{refused:?}") };
    assert!(why.contains("http.public_url"), "{why}");
    assert!(!fixture.home("m1").exists());
}
