//! What is sent, how often, and with which text.

use ostler_actors::model::after;

use super::*;
use crate::config::{Outside, load};

fn notify(more: &str) -> Notify {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("url"), "http://127.0.0.1:9/secret").unwrap();
    let file = folder.path().join("ostler.toml");
    std::fs::write(&file, format!("[notify]\nurl = {{ file = \"url\" }}\n{more}\n")).unwrap();
    load(&file, &Outside::real()).unwrap().config.notify.unwrap()
}

fn notice(occasion: Occasion, subject: &str) -> Notice {
    Notice {
        occasion,
        subject: subject.into(),
        sentence: "Something is the matter.".into(),
        advice: "Look.".into(),
    }
}

fn at(minutes: u64) -> Timestamp {
    after(Timestamp::UNIX_EPOCH, Duration::from_mins(minutes))
}

#[test]
fn a_condition_is_sent_once_and_again_after_an_hour_or_when_it_comes_back() {
    let (mut router, notify) = (NoticeRouter::default(), notify(""));
    let stuck = || vec![notice(Occasion::Stuck, "linux")];
    assert_eq!(router.of_conditions(stuck(), &notify, at(0)).len(), 1);
    assert_eq!(router.of_conditions(stuck(), &notify, at(1)).len(), 0);
    assert_eq!(router.of_conditions(stuck(), &notify, at(60)).len(), 1, "still");
    assert_eq!(router.of_conditions(Vec::new(), &notify, at(61)).len(), 0);
    assert_eq!(router.of_conditions(stuck(), &notify, at(62)).len(), 1, "again");
}

#[test]
fn a_flood_is_limited_and_the_next_message_says_so() {
    let (mut router, notify) = (NoticeRouter::default(), notify("per_hour = 2"));
    let mut tell =
        |minute| router.of_event(notice(Occasion::Death, "linux-1"), &notify, at(minute));
    assert!(tell(0).is_some() && tell(1).is_some());
    assert!(tell(2).is_none() && tell(3).is_none());
    assert_eq!(tell(60).map(|(_, suppressed)| suppressed), Some(2));
    assert_eq!(tell(61).map(|(_, suppressed)| suppressed), Some(0));
}

#[test]
fn only_configured_occasions_are_sent() {
    let (mut router, notify) = (NoticeRouter::default(), notify("on = [\"leak\"]"));
    assert!(router.of_event(notice(Occasion::Death, "linux-1"), &notify, at(0)).is_none());
    assert!(router.of_event(notice(Occasion::Leak, "fleet"), &notify, at(0)).is_some());
}

#[test]
fn the_template_is_filled_once_and_what_it_brings_in_is_left_alone() {
    let written = notify(r#"template = "<{fleet}> {occasion}/{subject}: {sentence} {odd} {""#);
    let odd = Notice { subject: "{fleet}".into(), ..notice(Occasion::Stuck, "") };
    let text = text_of(&odd, &written, "ours", 3);
    assert_eq!(text, "<ours> stuck/{fleet}: Something is the matter. {odd} { (3 more suppressed)");
    let usual = text_of(&notice(Occasion::Leak, "fleet"), &notify(""), "ours", 0);
    assert_eq!(usual, "[ours] Something is the matter. Look.");
}
