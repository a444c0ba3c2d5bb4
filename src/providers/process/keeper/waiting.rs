//! Waiting for work: the life of a machine that is bound late, until it has a registration.

use ostler_actors::ports::Jit;

use super::Ears;
use super::ending::End;
use super::output::OutputReader;
use crate::providers::asking::{Asking, NoWork, acknowledge, ask_for_work};
use crate::providers::process::files::{Home, Waiting};
use crate::providers::process::user::User;
use crate::providers::process::{jit, ticket};

/// What one says who was told to leave and forgotten.
const FORGOTTEN: i32 = 75;

/// Waits until there is work and lays it out; returns the names of its files. A request to stop is
/// heard meanwhile.
pub(super) async fn wait_for_work(
    home: &Home,
    waiting: &Waiting,
    user: Option<User>,
    ears: &mut Ears,
    output: &mut OutputReader,
) -> Result<Vec<String>, End> {
    let jit = ask(home, waiting, ears, output).await?;
    let laid = jit::lay_out(Some(&jit), waiting.form, &home.work(), user);
    let names = laid.map_err(|error| {
        output.log(&error.to_string());
        End::unbegun(None)
    })?;
    let asking = asking_of(home, waiting);
    acknowledge(&asking, &mut |line: &str| output.log(line)).await;
    // Only now: an answer that was lost on the way is asked for again.
    if let Err(error) = ticket::tear_up(home) {
        output.log(&format!("cannot tear up the ticket: {error}"));
    }
    Ok(names)
}

fn asking_of(home: &Home, waiting: &Waiting) -> Asking {
    Asking {
        server: waiting.server.clone(),
        instance: waiting.instance.clone(),
        token_file: home.ticket(),
        ca: None,
    }
}

async fn ask(
    home: &Home,
    waiting: &Waiting,
    ears: &mut Ears,
    output: &mut OutputReader,
) -> Result<Jit, End> {
    let asking = asking_of(home, waiting);
    let mut say = |line: &str| output.log(line);
    let work = tokio::select! {
        work = ask_for_work(&asking, &mut say) => work,
        _ = ears.stop.recv() => {
            say("told to stop before there was work");
            return Err(End::stopped());
        }
    };
    work.map_err(|why| match why {
        NoWork::Refused => End::unbegun(Some(1)),
        NoWork::Forgotten => End::unbegun(Some(FORGOTTEN)),
    })
}
