//! Machines that will not go, and providers that do not answer at all.

use std::future::pending;

use super::{Hand, SimProvider};
use crate::ports::Deletion;
use crate::testing::outside::Outside;
use crate::testing::script::Resists;

impl SimProvider {
    /// Never returns while the provider swallows every call.
    pub(super) async fn swallow(&self) {
        let index = self.index;
        let swallowed = self
            .shared
            .call(|outside| {
                let swallowed = outside.swallows(index);
                if swallowed {
                    outside.count("provider call swallowed");
                }
                swallowed
            })
            .await;
        if swallowed {
            pending::<()>().await;
        }
    }
}

impl Outside {
    /// Returns whether a provider swallows every call now.
    pub(super) fn swallows(&self, provider: usize) -> bool {
        let until = self
            .machines
            .providers
            .get(provider)
            .and_then(|(id, _)| self.script.swallowing.get(id));
        until.is_some_and(|until| *until > self.now())
    }

    /// Lets a machine outlive its deletion; returns nothing where no answer ever comes.
    pub(super) fn resist(&mut self, number: u64, hand: Hand, how: Resists) -> Option<Deletion> {
        self.count("deletion resisted");
        match how {
            Resists::Hangs => return None,
            Resists::Lies => {}
            Resists::Lingers => self.begin_leaving(number, hand),
        }
        Some(Deletion::Accepted)
    }
}
