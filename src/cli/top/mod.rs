//! `ostler top`: the fleet live in a terminal.
//!
//! Three parts: [`TopBoard`] holds what is shown and which key does what, [`draw`](fn@draw::draw)
//! puts it on the screen, and this file reads keys, calls the daemon once a second and owns the terminal.

mod board;
mod draw;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::remote::{AskError, DaemonClient, Remote};
use board::{KeyEffect, TopBoard, TopQuery};

/// How often the daemon is called.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// How often the thread that reads keys checks whether `top` still runs.
const KEY_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How many rows are read; the rest is for `ostler instances` and the page.
const MAX_ROWS: usize = 500;

/// Shows the fleet live in the terminal; `?` lists the keys.
#[derive(Debug, Args)]
pub(super) struct TopArgs {
    #[command(flatten)]
    remote: Remote,
}

/// What the loop reacts to.
enum TopInput {
    Key(Event),
    Answer(TopQuery, Result<Value, String>),
}

impl TopArgs {
    pub(super) fn run(&self) -> ExitCode {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            eprintln!("ostler top: not a terminal; `ostler status` prints the same once");
            return ExitCode::from(2);
        }
        self.remote.with_client("top", async |client| {
            // A daemon that cannot be reached is reported before the screen is taken: there it would be lost.
            let first = client.get("/fleet").await?;
            let terminal = match ratatui::try_init() {
                Ok(terminal) => terminal,
                Err(error) => {
                    eprintln!("ostler top: cannot use the terminal: {error}");
                    return Ok(ExitCode::FAILURE);
                }
            };
            let shown = show(client, terminal, first).await;
            ratatui::restore();
            Ok(shown.map_or_else(
                |error| {
                    eprintln!("ostler top: terminal failed: {error}");
                    ExitCode::FAILURE
                },
                |()| ExitCode::SUCCESS,
            ))
        })
    }
}

async fn show(
    client: &DaemonClient,
    mut terminal: DefaultTerminal,
    first: Value,
) -> io::Result<()> {
    let mut board = TopBoard::new(client.server());
    board.apply(TopQuery::Fleet, Ok(first));
    let (tell, mut inputs) = mpsc::channel(64);
    let wanted = Arc::new(AtomicBool::new(true));
    let keys = read_keys(tell.clone(), Arc::clone(&wanted));
    let (want, wants) = watch::channel(board.query());
    let asking = tokio::spawn(ask(client.clone(), wants, tell));
    let result = loop {
        if let Err(error) = terminal.draw(|frame| draw::draw(frame, &board, Timestamp::now())) {
            break Err(error);
        }
        match inputs.recv().await {
            Some(TopInput::Answer(question, answer)) => board.apply(question, answer),
            Some(TopInput::Key(Event::Key(key))) if key.kind != KeyEventKind::Release => {
                if board.press(key.code, key.modifiers) == KeyEffect::Quit {
                    break Ok(());
                }
                want.send_if_modified(|now| {
                    let next = board.query();
                    let changed = *now != next;
                    *now = next;
                    changed
                });
            }
            Some(TopInput::Key(_)) => {}
            None => break Ok(()),
        }
    };
    wanted.store(false, Ordering::Relaxed);
    asking.abort();
    drop(inputs);
    // The thread checks every tenth of a second.
    drop(keys.join());
    result
}

/// Reads keys on a thread of its own: reading them waits.
fn read_keys(tell: mpsc::Sender<TopInput>, wanted: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        while wanted.load(Ordering::Relaxed) {
            match event::poll(KEY_POLL_INTERVAL) {
                Ok(true) => {
                    let Ok(event) = event::read() else { return };
                    if tell.blocking_send(TopInput::Key(event)).is_err() {
                        return;
                    }
                }
                Ok(false) => {}
                Err(_) => return,
            }
        }
    })
}

/// Requests the fleet and the open list, again and again.
async fn ask(
    client: DaemonClient,
    mut wants: watch::Receiver<TopQuery>,
    tell: mpsc::Sender<TopInput>,
) {
    loop {
        let question = wants.borrow_and_update().clone();
        for one in [TopQuery::Fleet, question.clone()] {
            let answer = answer(&client, &one).await.map_err(|error| error.to_string());
            if tell.send(TopInput::Answer(one, answer)).await.is_err() {
                return;
            }
            if question == TopQuery::Fleet {
                break;
            }
        }
        // A new query is sent at once; the loop ends with its sender.
        if matches!(tokio::time::timeout(REFRESH_INTERVAL, wants.changed()).await, Ok(Err(_))) {
            return;
        }
    }
}

async fn answer(client: &DaemonClient, question: &TopQuery) -> Result<Value, AskError> {
    match question {
        TopQuery::Fleet => client.get("/fleet").await,
        TopQuery::Instances => client.list("/instances", &[], MAX_ROWS).await,
        TopQuery::Jobs => super::jobs::open(client, MAX_ROWS).await,
        TopQuery::Deaths => client.list("/deaths", &[], MAX_ROWS).await,
        TopQuery::Explain(path) => client.get(path).await,
    }
}
