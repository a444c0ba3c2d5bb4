//! `top` without a terminal: what is drawn, and what keys do.

use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use serde_json::json;

use super::board::{KeyEffect, TopBoard, TopQuery};
use super::draw::draw;

fn board() -> TopBoard {
    let mut board = TopBoard::new("http://127.0.0.1:7480".into());
    let pool = |name: &str, busy: u32| {
        json!({"name": name, "states": {"busy": busy, "idle": 1}, "want": 2, "max": 5, "demand": 0,
               "draining": name == "gpu", "settled": true, "stuck": 0})
    };
    let fleet = json!({"name": "acme", "version": "0.1.0", "stage": "leading", "leaks": 2,
        "instances": {"total": 5, "states": {"busy": 3, "idle": 2}}, "jobs": {"running": 3, "queued": 1},
        "pools": [pool("linux", 2), pool("gpu", 1)]});
    board.apply(TopQuery::Fleet, Ok(fleet));
    board
}

fn screen(board: &TopBoard, width: u16, height: u16) -> String {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, board, now)).unwrap();
    terminal.backend().to_string()
}

fn press(board: &mut TopBoard, keys: &[KeyCode]) {
    for key in keys {
        assert_eq!(board.press(*key, KeyModifiers::NONE), KeyEffect::Stay);
    }
}

#[test]
fn the_first_screen_shows_numbers_concerns_and_pools() {
    let shown = screen(&board(), 120, 20);
    for text in [
        "acme  5 instances: 2 idle, 3 busy",
        "jobs: 3 running, 1 waiting",
        "! 2 machines without an owner",
        "linux",
        "draining",
        "? keys",
    ] {
        assert!(shown.contains(text), "no `{text}` in\n{shown}");
    }
}

#[test]
fn keys_choose_lists_and_filter_them() {
    let mut board = board();
    press(
        &mut board,
        &[KeyCode::Char('/'), KeyCode::Char('g'), KeyCode::Char('p'), KeyCode::Enter],
    );
    let shown = screen(&board, 100, 12);
    assert!(shown.contains("gpu") && !shown.contains("linux"), "{shown}");
    press(&mut board, &[KeyCode::Esc, KeyCode::Tab]);
    assert_eq!(board.query(), TopQuery::Instances);
    press(&mut board, &[KeyCode::BackTab, KeyCode::BackTab]);
    assert_eq!(board.query(), TopQuery::Deaths);
    assert_eq!(board.press(KeyCode::Char('q'), KeyModifiers::NONE), KeyEffect::Quit);
}

#[test]
fn enter_requests_an_explanation_and_shows_it() {
    let mut board = board();
    press(&mut board, &[KeyCode::Down, KeyCode::Enter]);
    let question = TopQuery::Explain("/pools/gpu/explain".into());
    assert_eq!(board.query(), question);
    assert!(screen(&board, 100, 16).contains("loading…"));
    board.apply(question, Ok(json!({"lines": ["It drains because ops asked.\x1b[2J"]})));
    let shown = screen(&board, 100, 16);
    assert!(shown.contains(r"- It drains because ops asked.\u{1b}[2J"), "{shown}");
    press(&mut board, &[KeyCode::Esc]);
    assert_eq!(board.query(), TopQuery::Fleet);
}

#[test]
fn a_daemon_that_falls_silent_is_reported_and_the_old_rows_stay() {
    let mut board = board();
    board.apply(TopQuery::Fleet, Err("no daemon reachable at http://127.0.0.1:7480".into()));
    let shown = screen(&board, 100, 12);
    assert!(shown.contains("no answer; showing stale data") && shown.contains("linux"), "{shown}");
}

#[test]
fn the_selection_never_leaves_the_list_and_no_screen_is_too_small() {
    let mut board = board();
    press(&mut board, &[KeyCode::End, KeyCode::Down, KeyCode::PageDown]);
    assert_eq!(board.cursor(), 1);
    press(&mut board, &[KeyCode::Home, KeyCode::Up]);
    assert_eq!(board.cursor(), 0);
    for (width, height) in [(1, 1), (3, 2), (20, 5), (400, 120)] {
        screen(&board, width, height);
        board.press(KeyCode::Char('?'), KeyModifiers::NONE);
        screen(&board, width, height);
        board.press(KeyCode::Esc, KeyModifiers::NONE);
    }
}
