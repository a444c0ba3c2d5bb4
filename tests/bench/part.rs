//! One bench's share of the report: figures with their floors and goals, as text and as JSON.
//!
//! Each bench writes `target/bench/parts/NAME.json`; `report.rs` puts the parts together.

use std::path::PathBuf;

use serde_json::{Value, json};

/// Holds the figures of one bench.
pub(crate) struct Part {
    name: &'static str,
    conditions: Vec<String>,
    figures: Vec<Figure>,
}

#[derive(Clone, Debug)]
pub(crate) struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
    goal: Option<f64>,
    floor: Option<(String, f64)>,
    remark: String,
}

impl Figure {
    pub(crate) fn new(what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        let (goal, floor, remark) = (None, None, String::new());
        Self { what: what.into(), value, unit, goal, floor, remark }
    }

    /// Says that it should not be larger than this.
    pub(crate) fn at_most(mut self, goal: f64) -> Self {
        self.goal = Some(goal);
        self
    }

    /// Says what the same machine can do at best, in the same unit and the same run.
    pub(crate) fn floor(mut self, what: impl Into<String>, value: f64) -> Self {
        self.floor = Some((what.into(), value));
        self
    }

    /// Says under which conditions.
    pub(crate) fn remark(mut self, remark: impl Into<String>) -> Self {
        self.remark = remark.into();
        self
    }

    fn is_met(&self) -> Option<bool> {
        self.goal.map(|goal| self.value <= goal)
    }

    fn ratio(&self) -> Option<f64> {
        self.floor.as_ref().filter(|(_, floor)| *floor > 0.0).map(|(_, floor)| self.value / floor)
    }

    fn json(&self) -> Value {
        json!({
            "what": self.what, "value": round(self.value), "unit": self.unit, "goal": self.goal,
            "met": self.is_met(), "ratio": self.ratio().map(round), "note": self.remark,
            "floor": self.floor.as_ref().map(|(what, value)| json!({"what": what, "value": round(*value)})),
        })
    }
}

impl Part {
    pub(crate) fn new(name: &'static str) -> Self {
        println!("== {name}");
        Self { name, conditions: Vec::new(), figures: Vec::new() }
    }

    /// Says what all its figures were measured with.
    pub(crate) fn condition(&mut self, text: impl Into<String>) {
        let text = text.into();
        println!("   {text}");
        self.conditions.push(text);
    }

    /// Takes a figure, shows it, and saves what there is so far.
    pub(crate) fn take(&mut self, figure: Figure) {
        let met = match figure.is_met() {
            Some(true) => "  met",
            Some(false) => "  MISSED",
            None => "",
        };
        let goal = figure.goal.map(|goal| format!("  goal {goal}")).unwrap_or_default();
        let ratio = figure.ratio().map(|ratio| format!("  {ratio:.2}x floor")).unwrap_or_default();
        println!(
            "  {:<58} {:>12.3} {:<12}{ratio}{goal}{met}  {}",
            figure.what, figure.value, figure.unit, figure.remark
        );
        self.figures.push(figure);
        self.save();
    }

    fn save(&self) {
        let folder = folder().join("parts");
        std::fs::create_dir_all(&folder).expect("the target folder");
        let figures: Vec<Value> = self.figures.iter().map(Figure::json).collect();
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let part = json!({
            "name": self.name, "conditions": self.conditions, "figures": figures,
            "load": load.split(' ').take(3).collect::<Vec<_>>().join(" "),
        });
        let text = serde_json::to_string_pretty(&part).expect("JSON");
        std::fs::write(folder.join(format!("{}.json", self.name)), text)
            .expect("the target folder");
    }
}

/// Returns where reports lie.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench")
}

fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}
