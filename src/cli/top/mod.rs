//! `ostler top`: the fleet live in a terminal.
//!
//! Three parts: [`Board`] holds what is known and which key does what (plain), [`draw`](fn@draw::draw)
//! puts it on the screen (plain), and this file reads keys, asks the daemon once a second and owns the terminal.

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

use super::remote::{AskError, Client, Remote};
use board::{Board, Next, Question};

/// How often the daemon is asked.
const APART: Duration = Duration::from_secs(1);
/// How long the thread that reads keys waits before it looks whether it is still wanted.
const KEY_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How many rows are asked for; the rest is for `ostler instances` and the page.
const ROWS: usize = 500;

/// Shows the fleet live in the terminal; `?` tells the keys.
#[derive(Debug, Args)]
pub(super) struct Top {
    #[command(flatten)]
    remote: Remote,
}

/// What the screen hears.
enum Input {
    Key(Event),
    Answer(Question, Result<Value, String>),
}

impl Top {
    pub(super) fn run(&self) -> ExitCode {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            eprintln!("ostler top: this is no terminal; `ostler status` prints the same once");
            return ExitCode::from(2);
        }
        self.remote.talk("top", async |client| {
            // Whoever cannot be reached is told on the plain screen, not on one that flickers by.
            let first = client.get("/fleet").await?;
            let terminal = match ratatui::try_init() {
                Ok(terminal) => terminal,
                Err(error) => {
                    eprintln!("ostler top: cannot take the terminal: {error}");
                    return Ok(ExitCode::FAILURE);
                }
            };
            let shown = show(client, terminal, first).await;
            ratatui::restore();
            Ok(shown.map_or_else(
                |error| {
                    eprintln!("ostler top: the terminal fails: {error}");
                    ExitCode::FAILURE
                },
                |()| ExitCode::SUCCESS,
            ))
        })
    }
}

async fn show(client: &Client, mut terminal: DefaultTerminal, first: Value) -> io::Result<()> {
    let mut board = Board::new(client.server());
    board.hear(Question::Fleet, Ok(first));
    let (tell, mut inputs) = mpsc::channel(64);
    let wanted = Arc::new(AtomicBool::new(true));
    let keys = read_keys(tell.clone(), Arc::clone(&wanted));
    let (want, wants) = watch::channel(board.question());
    let asking = tokio::spawn(ask(client.clone(), wants, tell));
    let result = loop {
        if let Err(error) = terminal.draw(|frame| draw::draw(frame, &board, Timestamp::now())) {
            break Err(error);
        }
        match inputs.recv().await {
            Some(Input::Answer(question, answer)) => board.hear(question, answer),
            Some(Input::Key(Event::Key(key))) if key.kind != KeyEventKind::Release => {
                if board.press(key.code, key.modifiers) == Next::Leave {
                    break Ok(());
                }
                want.send_if_modified(|now| {
                    let next = board.question();
                    let changed = *now != next;
                    *now = next;
                    changed
                });
            }
            Some(Input::Key(_)) => {}
            None => break Ok(()),
        }
    };
    wanted.store(false, Ordering::Relaxed);
    asking.abort();
    drop(inputs);
    // It looks up every tenth of a second.
    drop(keys.join());
    result
}

/// Reads keys on a thread of its own: reading them waits.
fn read_keys(tell: mpsc::Sender<Input>, wanted: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        while wanted.load(Ordering::Relaxed) {
            match event::poll(KEY_POLL_INTERVAL) {
                Ok(true) => {
                    let Ok(event) = event::read() else { return };
                    if tell.blocking_send(Input::Key(event)).is_err() {
                        return;
                    }
                }
                Ok(false) => {}
                Err(_) => return,
            }
        }
    })
}

/// Asks for the fleet and for what is being looked at, again and again.
async fn ask(client: Client, mut wants: watch::Receiver<Question>, tell: mpsc::Sender<Input>) {
    loop {
        let question = wants.borrow_and_update().clone();
        for one in [Question::Fleet, question.clone()] {
            let answer = answer(&client, &one).await.map_err(|error| error.to_string());
            if tell.send(Input::Answer(one, answer)).await.is_err() {
                return;
            }
            if question == Question::Fleet {
                break;
            }
        }
        // A new question is not kept waiting; whoever could ask one being gone ends it.
        if matches!(tokio::time::timeout(APART, wants.changed()).await, Ok(Err(_))) {
            return;
        }
    }
}

async fn answer(client: &Client, question: &Question) -> Result<Value, AskError> {
    match question {
        Question::Fleet => client.get("/fleet").await,
        Question::Instances => client.list("/instances", &[], ROWS).await,
        Question::Jobs => super::jobs::open(client, ROWS).await,
        Question::Deaths => client.list("/deaths", &[], ROWS).await,
        Question::Explain(path) => client.get(path).await,
    }
}
