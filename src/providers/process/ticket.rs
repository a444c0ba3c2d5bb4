//! The ticket of a machine that has no registration yet: what it proves itself with when it asks
//! for work.
//!
//! It is made with the machine, lies in a file that the runner's user cannot read, and is torn up
//! once there is work. Whose a ticket is, the machine's own files tell: nothing is kept in memory,
//! so a daemon that was started anew knows its warm machines as well as the one before.

use std::fs;
use std::io::{self, Write as _};

use async_trait::async_trait;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use ostler_actors::model::MachineName;
use ostler_actors::ports::{MachineAuth, MachineRef, MachineToken, TokenReview};
use uuid::Uuid;

use super::files::{Home, create_private};
use super::state::{LocalProcess, ProviderState};

/// Parts name, id and secret; no name and no token of a cluster holds it.
const PART: char = ':';

/// Writes the ticket of a machine that is being laid out.
pub(super) fn write(home: &Home, name: &MachineName, uid: &str) -> io::Result<()> {
    let secret = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    create_private(&home.ticket())?.write_all(format!("{name}{PART}{uid}{PART}{secret}").as_bytes())
}

/// Tears it up; one that is gone is fine.
pub(super) fn tear_up(home: &Home) -> io::Result<()> {
    match fs::remove_file(home.ticket()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[async_trait]
impl MachineAuth for LocalProcess {
    async fn review(&self, token: &MachineToken) -> TokenReview {
        let (state, token) = (self.state(), token.clone());
        let reviewed = self.state().disk.brief(move || state.review(&token)).await;
        reviewed.unwrap_or_else(TokenReview::Unknown)
    }
}

impl ProviderState {
    fn review(&self, token: &MachineToken) -> TokenReview {
        let shown = token.reveal();
        let mut parts = shown.split(PART);
        let (Some(name), Some(uid), Some(_), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return TokenReview::Refused("this is no ticket of a local machine".into());
        };
        if let Err(why) = self.check() {
            return TokenReview::Unknown(why);
        }
        let machine = MachineRef { name: MachineName::new(name), uid: Some(uid.to_owned()) };
        let ticket = self.find(&machine).and_then(|found| match found {
            Some(found) => fs::read(found.home.ticket()).map(Some),
            None => Ok(None),
        });
        match ticket {
            Ok(Some(ticket)) if verify_slices_are_equal(&ticket, shown.as_bytes()).is_ok() => {
                TokenReview::Belongs(machine.clone())
            }
            Ok(Some(_) | None) => refused(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => refused(),
            Err(error) => TokenReview::Unknown(format!("its ticket cannot be read: {error}")),
        }
    }
}

fn refused() -> TokenReview {
    TokenReview::Refused("no machine here waits with this ticket".into())
}
