//! Making a machine. What the call said is the answer; where it said nothing usable, the machine is
//! looked for by its name.

use std::time::Duration;

use ostler_actors::model::{InstanceId, MachineView, Sighting};
use ostler_actors::ports::{CreateError, CreateOrder, CreateSlot, MachineRef};

use super::bootstrap::Bootstrap;
use super::call::{End, Spoken};
use super::environ::Command;
use super::gate::Pass;
use super::state::ProviderState;
use super::wire::{self, Reading};

/// The exit code for "there is one of that name".
const DUPLICATE: i32 = 31;
/// What is kept of the time for looking, at most.
const FOR_A_LOOK: Duration = Duration::from_mins(1);

/// Tells whether a name was ordered before.
enum Noted {
    First,
    /// It was, for the same instance.
    Again,
    /// It was, for another.
    Taken,
}

impl ProviderState {
    /// Makes a machine, or finds the one that was made under this order before.
    pub(super) async fn create(&self, mut order: CreateOrder) -> Result<MachineView, CreateError> {
        match self.record_order(&order) {
            Noted::First => {}
            Noted::Again => return self.adopt(&order, "it was ordered before").await,
            Noted::Taken => {
                return Err(unanswered(&order, "a machine of that name was made for another"));
            }
        }
        let slot = std::mem::take(&mut order.slot);
        let spoken = match self.order(&order, slot).await {
            Ok(spoken) => spoken,
            Err(why) => return Err(self.refused(&order, why)),
        };
        match &spoken.end {
            End::Code(0) => match wire::one(&spoken.stdout) {
                Reading::One(element) if element.id.is_some() => {
                    Ok(element.view(order.name.clone(), order.stamp.clone()))
                }
                Reading::One(_) | Reading::Nothing => {
                    self.adopt(&order, "CreateInstance succeeded and named no machine").await
                }
                Reading::Garbage => {
                    self.adopt(&order, "CreateInstance succeeded and its answer is no JSON").await
                }
            },
            End::Code(DUPLICATE) | End::Late(_) => self.adopt(&order, &spoken.story()).await,
            // It refused by itself, and may have made something; its owner looks for it at once.
            End::Code(_) => {
                Err(CreateError::Failed { machine: order.name.clone(), why: spoken.story() })
            }
            End::Signal(_) | End::Flood | End::Lost => Err(unanswered(&order, &spoken.story())),
            End::NotStarted(_) | End::NoPlace(_) => Err(self.refused(&order, spoken.story())),
        }
    }

    /// Calls the provider; an error means that nothing was called.
    async fn order(&self, order: &CreateOrder, slot: CreateSlot) -> Result<Spoken, String> {
        let mut berth = self.berth(Some(&order.pool.id)).await?;
        let instance = order.stamp.instance.clone();
        let instance = instance.unwrap_or_else(|| InstanceId::new(order.name.as_str()));
        let token = self.tokens.create(&instance, order.attempt);
        let said = Bootstrap::of(order, &berth.pool, &token, &self.settings);
        berth.specs = Some(said.extra_specs.clone());
        let plain = order.machine.extra.get("extra_specs");
        self.record_pool(&order.pool.id, plain.unwrap_or(&serde_json::Value::Null));
        let text = serde_json::to_vec(&said).map_err(|error| error.to_string())?;
        // Its owner gives up after `timeout` as well, and wants to hear what was found.
        let timeout = self.settings.timeout;
        let timeout = timeout.saturating_sub((timeout / 5).min(FOR_A_LOOK));
        let said = Some((text, token));
        Ok(if slot.is_held() {
            let pass = Pass::Slot(slot);
            self.call_in(pass, Command::Create, &berth, "", said, timeout).await
        } else {
            self.call(Command::Create, &berth, "", said, timeout).await
        })
    }

    /// Looks for the machine of an order by its name.
    async fn adopt(&self, order: &CreateOrder, why: &str) -> Result<MachineView, CreateError> {
        let by_name = MachineRef { name: order.name.clone(), uid: None };
        match self.read(&by_name).await {
            Sighting::Seen(view) => Ok(MachineView { stamp: order.stamp.clone(), ..view }),
            Sighting::Absent => Err(unanswered(order, &format!("{why}; it is not there yet"))),
            Sighting::Unknown(then) => Err(unanswered(order, &format!("{why}; then {then}"))),
        }
    }

    /// Notes an order; no name is ordered twice.
    fn record_order(&self, order: &CreateOrder) -> Noted {
        let mut ordered = self.ordered();
        match ordered.get(&order.name) {
            Some(whose) if *whose == order.stamp.instance => Noted::Again,
            Some(_) => Noted::Taken,
            None => {
                ordered.insert(order.name.clone(), order.stamp.instance.clone());
                Noted::First
            }
        }
    }

    fn refused(&self, order: &CreateOrder, why: String) -> CreateError {
        self.ordered().remove(&order.name);
        CreateError::Refused { machine: order.name.clone(), why }
    }
}

fn unanswered(order: &CreateOrder, why: &str) -> CreateError {
    CreateError::Unanswered { machine: order.name.clone(), why: why.to_owned() }
}
