//! What a provider answers, read with patience: fields may be missing, of another type, or new.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_actors::model::{
    Began, ExitFacts, MachineName, MachinePhase, MachineView, Stamp, Worker, clip,
};
use serde_json::Value;

/// One machine as a provider shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) status: Status,
    /// What the provider says is wrong.
    pub(super) fault: Option<String>,
}

/// Names how a machine is, in the provider's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// `running`.
    Running,
    /// `stopped`.
    Stopped,
    /// `error`.
    Error,
    /// `unknown`.
    Unknown,
    /// `pending_delete`, `pending_force_delete`, `deleting`.
    Leaving,
    /// `deleted`.
    Gone,
    /// Anything else, on the way from one to another.
    Between,
}

impl Status {
    fn named(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "running" => Self::Running,
            "stopped" => Self::Stopped,
            "error" => Self::Error,
            "unknown" => Self::Unknown,
            "pending_delete" | "pending_force_delete" | "deleting" => Self::Leaving,
            "deleted" => Self::Gone,
            _ => Self::Between,
        }
    }
}

/// Tells what an answer about one machine says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    One(Element),
    /// Nothing: no text, `null`, or an object without a name.
    Nothing,
    Garbage,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// What could be read.
    pub(super) elements: Vec<Element>,
    /// How many elements could not be: with them the listing proves no absence.
    pub(super) unreadable: usize,
}

/// Reads an answer about one machine.
pub(super) fn one(stdout: &[u8]) -> Reading {
    if stdout.trim_ascii().is_empty() {
        return Reading::Nothing;
    }
    match serde_json::from_slice::<Value>(stdout) {
        Ok(Value::Null) => Reading::Nothing,
        Ok(value @ Value::Object(_)) => element(&value).map_or(Reading::Nothing, Reading::One),
        Ok(_) | Err(_) => Reading::Garbage,
    }
}

/// Reads a listing; a provider that says nothing at all has not listed.
pub(super) fn many(stdout: &[u8]) -> Result<Listing, &'static str> {
    if stdout.trim_ascii().is_empty() {
        return Err("it said nothing");
    }
    let all = match serde_json::from_slice::<Value>(stdout) {
        // A Go list without elements is written like this.
        Ok(Value::Null) => return Ok(Listing::default()),
        Ok(Value::Array(all)) => all,
        Ok(_) => return Err("its answer is no list"),
        Err(_) => return Err("its answer is no JSON"),
    };
    let elements: Vec<Element> = all.iter().filter_map(element).collect();
    let unreadable = all.len() - elements.len();
    Ok(Listing { elements, unreadable })
}

/// Reads one element; nothing if it has no name.
fn element(value: &Value) -> Option<Element> {
    let text = |key: &str| {
        let found = value.get(key)?;
        let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
        (!text.is_empty() && !found.is_null()).then_some(text)
    };
    let (id, name) = (text("provider_id"), text("name"));
    if id.is_none() && name.is_none() {
        return None;
    }
    let status = Status::named(value.get("status").and_then(Value::as_str).unwrap_or_default());
    let fault = text("provider_fault").map(|fault| clip(&unpacked(&fault)));
    Some(Element { id, name, status, fault: fault.filter(|fault| !fault.is_empty()) })
}

/// Returns a fault as text: Go writes bytes as base64, others write what they mean.
fn unpacked(fault: &str) -> String {
    match STANDARD.decode(fault) {
        Ok(bytes) => String::from_utf8(bytes).unwrap_or_else(|_| fault.to_owned()),
        Err(_) => fault.to_owned(),
    }
}

impl Element {
    /// Returns whether this is the machine of that id, or of that name where no id is known.
    pub(super) fn is(&self, name: &MachineName, uid: Option<&str>) -> bool {
        match (uid, &self.id) {
            (Some(uid), Some(id)) => uid == id,
            (Some(_), None) | (None, _) => {
                self.name.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name.as_str()))
            }
        }
    }

    /// Returns the machine as its owner sees it.
    pub(super) fn view(&self, name: MachineName, stamp: Stamp) -> MachineView {
        let phase = match self.status {
            Status::Running | Status::Leaving => MachinePhase::Running,
            Status::Between => MachinePhase::Booting,
            Status::Stopped | Status::Gone => MachinePhase::Over(end()),
            Status::Error => MachinePhase::Doubt(self.trouble("the provider calls it broken")),
            Status::Unknown => MachinePhase::Doubt(self.trouble("the provider does not know it")),
        };
        MachineView {
            name,
            uid: self.id.clone(),
            stamp,
            phase,
            worker: Worker::NoWitness,
            began: Began::Unknown,
            ready: false,
            leaving: self.status == Status::Leaving,
            host: None,
        }
    }

    fn trouble(&self, otherwise: &str) -> String {
        self.fault.clone().unwrap_or_else(|| otherwise.to_owned())
    }
}

/// Returns what is known of an end: that it is one.
pub(super) fn end() -> ExitFacts {
    ExitFacts { machine_reason: Some("stopped".into()), ..ExitFacts::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Listing {
        many(text.as_bytes()).unwrap()
    }

    #[test]
    fn null_is_a_list_without_elements_and_silence_is_none() {
        assert_eq!(listed("null\n"), Listing::default());
        assert_eq!(listed("[]"), Listing::default());
        assert!(many(b"").is_err() && many(b" \n").is_err());
        assert!(many(b"{}").is_err() && many(b"[{").is_err() && many(b"ok").is_err());
    }

    #[test]
    fn one_bad_element_fails_no_list() {
        let all = listed(
            r#"[{"provider_id":"i-1","name":"m1","status":"running"}, {}, null, 7,
                {"provider_id":"i-2","status":"creating"}, {"name":"m3","status":5}]"#,
        );
        assert_eq!((all.elements.len(), all.unreadable), (3, 3));
        assert_eq!(all.elements[1].status, Status::Between);
        assert_eq!(all.elements[2].status, Status::Between);
    }

    #[test]
    fn every_status_a_provider_uses_is_understood() {
        let phase = |word: &str| {
            let text = format!(r#"{{"provider_id":"i-1","name":"m1","status":"{word}"}}"#);
            let Reading::One(element) = one(text.as_bytes()) else { panic!("{word}") };
            let view = element.view("m1".into(), Stamp::default());
            (view.phase, view.leaving)
        };
        assert_eq!(phase("running"), (MachinePhase::Running, false));
        for word in ["pending_create", "creating", "", "Rebuilding"] {
            assert_eq!(phase(word), (MachinePhase::Booting, false), "{word}");
        }
        for word in ["pending_delete", "deleting", "pending_force_delete"] {
            assert_eq!(phase(word), (MachinePhase::Running, true), "{word}");
        }
        assert!(matches!(phase("stopped").0, MachinePhase::Over(_)));
        for word in ["error", "unknown"] {
            assert!(matches!(phase(word).0, MachinePhase::Doubt(_)), "{word}: it may still work");
        }
    }

    #[test]
    fn a_fault_is_reported_in_its_own_text() {
        let text = r#"{"provider_id":"i-1","status":"error","provider_fault":"bm8gcXVvdGE="}"#;
        let Reading::One(element) = one(text.as_bytes()) else { panic!() };
        let view = element.view("m1".into(), Stamp::default());
        assert_eq!(view.phase, MachinePhase::Doubt("no quota".into()));
    }

    #[test]
    fn an_answer_without_a_name_says_nothing() {
        for text in ["", "null", "{}", r#"{"status":"running"}"#, r#"{"name":"","provider_id":""}"#]
        {
            assert_eq!(one(text.as_bytes()), Reading::Nothing, "{text}");
        }
        for text in ["[]", "\"m1\"", "{\"name\":", "created m1"] {
            assert_eq!(one(text.as_bytes()), Reading::Garbage, "{text}");
        }
    }

    #[test]
    fn a_machine_of_the_same_name_and_another_id_is_another() {
        let Reading::One(element) = one(br#"{"provider_id":"i-1","name":"M1"}"#) else { panic!() };
        assert!(element.is(&"m1".into(), Some("i-1")) && element.is(&"m1".into(), None));
        assert!(!element.is(&"m1".into(), Some("i-2")));
    }
}
