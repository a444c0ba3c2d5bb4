//! Looking at machines: `GetInstance`, `ListInstances`, and what the two prove together.

use futures_util::future::join_all;
use ostler_actors::model::{
    ExitReport, MachineName, MachineView, Observation, PoolId, Sighting, Stamp, Tail,
};
use ostler_actors::ports::MachineRef;
use serde_json::Value;
use tracing::{debug, warn};

use super::call::{End, Spoken};
use super::environ::Command;
use super::state::ProviderState;
use super::wire::{self, Element, Listing, Reading, Status};

/// The exit code for "there is no such machine".
pub(super) const NOT_FOUND: i32 = 30;
/// How many seconds a look at one machine may take; a listing may have to follow within the minute.
const ONE: u64 = 28;
/// How many seconds a whole listing may take.
const ALL: u64 = 55;

/// Tells what `GetInstance` brought.
#[derive(Debug, PartialEq, Eq)]
enum Got {
    Seen(Element),
    /// It is not there; the provider's code for it says so.
    Absent,
    /// Perhaps it is not there: a complete listing decides.
    Perhaps(String),
    /// No word about the machine; only a listing that names it says more.
    Nothing(String),
}

impl ProviderState {
    /// Lists the machines of all pools that may have some.
    pub(super) async fn list(&self) -> Observation<Vec<MachineView>> {
        match self.list_all().await {
            Ok(views) => Observation::Complete(views),
            Err(why) => Observation::Unusable(why),
        }
    }

    async fn list_all(&self) -> Result<Vec<MachineView>, String> {
        let (pools, controller) = (self.all_pools().await?, self.controller().await?);
        let listings = join_all(pools.iter().map(|pool| self.list_pool(Some(pool), ALL))).await;
        let mut found: Vec<(MachineName, Element, PoolId)> = Vec::new();
        let mut listed: Vec<(PoolId, Listing)> = Vec::new();
        for (pool, listing) in pools.into_iter().zip(listings) {
            listed.push((pool, listing?));
        }
        for pool in self.forgotten_pools().await? {
            // Nothing depends on these: what cannot be listed now is looked for later.
            match self.list_pool(Some(&pool), ALL).await {
                Ok(listing) => {
                    // A listing is believed only when two in a row agree.
                    if !listing.elements.is_empty() {
                        self.record_pool(&pool, &Value::Null);
                    }
                    listed.push((pool, listing));
                }
                Err(why) => debug!(pool.id = %pool, "a pool that has gone cannot be listed: {why}"),
            }
        }
        for (pool, listing) in listed {
            if listing.unreadable > 0 {
                let many = listing.unreadable;
                warn!(pool.id = %pool, "{many} machine(s) listed without name and id are left out");
            }
            for element in listing.elements {
                let name = own_name(&element);
                // Some providers show every machine whichever pool is asked for.
                let known = found.iter().any(|(_, other, _)| other.id == element.id);
                let known = known && element.id.is_some();
                if element.status != Status::Gone && !known {
                    found.push((name, element, pool.clone()));
                }
            }
        }
        let names: Vec<MachineName> = found.iter().map(|(name, ..)| name.clone()).collect();
        let stamps = self.records.stamps(&names).await?;
        let view = |(name, element, pool): (MachineName, Element, PoolId)| {
            let recorded = stamps.get(&name).cloned();
            let stamp = self.stamp_of(&name, recorded, &controller, Some(&pool));
            element.view(name, stamp)
        };
        let mut views: Vec<MachineView> = found.into_iter().map(view).collect();
        views.sort_by(|one, other| (&one.name, &one.uid).cmp(&(&other.name, &other.uid)));
        Ok(views)
    }

    async fn list_pool(&self, pool: Option<&PoolId>, seconds: u64) -> Result<Listing, String> {
        let berth = self.berth(pool).await?;
        let timeout = self.look_timeout(seconds);
        let spoken = self.call(Command::List, &berth, "", None, timeout).await;
        if spoken.end != End::Code(0) {
            return Err(spoken.story());
        }
        wire::many(&spoken.stdout).map_err(|why| format!("ListInstances succeeded and {why}"))
    }

    pub(super) async fn read(&self, machine: &MachineRef) -> Sighting<MachineView> {
        match self.find(machine).await {
            Ok(Some((element, stamp))) => Sighting::Seen(element.view(machine.name.clone(), stamp)),
            Ok(None) => Sighting::Absent,
            Err(why) => Sighting::Unknown(why),
        }
    }

    /// Gathers what is known of a machine's end; a provider of this kind keeps no log, and its
    /// fault is the best there is.
    pub(super) async fn exit_report(&self, machine: &MachineRef, want_tail: bool) -> ExitReport {
        let element = match self.find(machine).await {
            Ok(Some((element, _))) => element,
            Ok(None) => return ExitReport::unavailable("the machine is gone"),
            Err(why) => return ExitReport::unavailable(why),
        };
        let exit = (element.status == Status::Stopped).then(wire::end);
        let tail = match element.fault {
            _ if !want_tail => Tail::NotNeeded,
            Some(fault) => Tail::Captured(fault),
            None => Tail::Unavailable("an external provider keeps no log".into()),
        };
        ExitReport { exit, tail, remarks: Vec::new() }
    }

    /// Finds a machine by its id, or by its name where that is all there is.
    async fn find(&self, machine: &MachineRef) -> Result<Option<(Element, Stamp)>, String> {
        let controller = self.controller().await?;
        let recorded = self.records.stamps(std::slice::from_ref(&machine.name)).await?;
        let recorded = recorded.get(&machine.name).cloned();
        let pool = recorded.as_ref().and_then(|stamp| stamp.pool.clone());
        let berth = self.berth(pool.as_ref()).await?;
        let whom = machine.uid.as_deref().unwrap_or(machine.name.as_str());
        let timeout = self.look_timeout(ONE);
        let spoken = self.call(Command::Get, &berth, whom, None, timeout).await;
        let element = match got(&spoken, machine) {
            Got::Seen(element) => Some(element),
            Got::Absent => None,
            Got::Perhaps(why) => {
                let (found, complete) = self.listed(machine, pool.as_ref()).await?;
                if found.is_none() && !complete {
                    return Err(why);
                }
                found
            }
            Got::Nothing(why) => match self.listed(machine, pool.as_ref()).await {
                Ok((Some(element), _)) => Some(element),
                Ok((None, _)) | Err(_) => return Err(why),
            },
        };
        let stamp = self.stamp_of(&machine.name, recorded, &controller, pool.as_ref());
        Ok(element.filter(|it| it.status != Status::Gone).map(|element| (element, stamp)))
    }

    /// Looks for a machine in the listing of its pool, or of all if that is not known. Returns
    /// with it whether the listing would prove an absence.
    async fn listed(
        &self,
        machine: &MachineRef,
        pool: Option<&PoolId>,
    ) -> Result<(Option<Element>, bool), String> {
        let pools = match pool {
            Some(pool) => vec![pool.clone()],
            None => self.all_pools().await?,
        };
        let listings = join_all(pools.iter().map(|pool| self.list_pool(Some(pool), ONE))).await;
        let mut complete = true;
        let mut found: Vec<Element> = Vec::new();
        for listing in listings {
            let listing = listing?;
            complete &= listing.unreadable == 0;
            let uid = machine.uid.as_deref();
            found.extend(listing.elements.into_iter().filter(|it| it.is(&machine.name, uid)));
        }
        // Two of one name: the same one each time; the other is found by the reaper.
        found.sort_by(|one, other| one.id.cmp(&other.id));
        Ok((found.into_iter().next(), complete))
    }

    /// Returns the pool of a machine that is on record.
    pub(super) async fn pool_of(&self, machine: &MachineName) -> Result<Option<PoolId>, String> {
        let stamps = self.records.stamps(std::slice::from_ref(machine)).await?;
        Ok(stamps.get(machine).and_then(|stamp| stamp.pool.clone()))
    }
}

/// Returns what a listing calls a machine.
fn own_name(element: &Element) -> MachineName {
    MachineName::new(element.name.as_deref().or(element.id.as_deref()).unwrap_or_default())
}

/// Decides what an answer to `GetInstance` says about the machine that was meant.
fn got(spoken: &Spoken, machine: &MachineRef) -> Got {
    match spoken.end {
        End::Code(0) => match wire::one(&spoken.stdout) {
            Reading::One(element) if element.is(&machine.name, machine.uid.as_deref()) => {
                Got::Seen(element)
            }
            Reading::One(_) => Got::Perhaps("GetInstance showed another machine".into()),
            Reading::Nothing => Got::Perhaps("GetInstance succeeded and named no machine".into()),
            Reading::Garbage => {
                Got::Nothing("GetInstance succeeded and its answer is no JSON".into())
            }
        },
        End::Code(NOT_FOUND) => Got::Absent,
        End::Code(_) => Got::Perhaps(spoken.story()),
        End::Signal(_)
        | End::Late(_)
        | End::Flood
        | End::NotStarted(_)
        | End::NoPlace(_)
        | End::Lost => Got::Nothing(spoken.story()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn got_of(code: i32, stdout: &str, uid: Option<&str>) -> Got {
        let stdout = stdout.as_bytes().to_vec();
        let fault = String::new();
        let spoken = Spoken { command: Command::Get, end: End::Code(code), stdout, fault };
        got(&spoken, &MachineRef { name: "m1".into(), uid: uid.map(Into::into) })
    }

    #[test]
    fn only_the_code_for_it_says_that_a_machine_is_not_there() {
        assert_eq!(got_of(30, "", None), Got::Absent);
        for code in [1, 2, 31, 255] {
            assert!(matches!(got_of(code, "", None), Got::Perhaps(_)), "{code}");
        }
        for text in ["{}", "null", ""] {
            assert!(matches!(got_of(0, text, None), Got::Perhaps(_)), "{text}");
        }
        assert!(matches!(got_of(0, "not found", None), Got::Nothing(_)));
    }

    #[test]
    fn an_answer_about_another_machine_is_no_sighting() {
        let text = r#"{"provider_id":"i-1","name":"m1","status":"running"}"#;
        assert!(matches!(got_of(0, text, Some("i-1")), Got::Seen(_)));
        assert!(matches!(got_of(0, text, Some("i-2")), Got::Perhaps(_)));
        assert!(matches!(got_of(0, text, None), Got::Seen(_)));
    }
}
