//! What `top` shows, what is selected, and which key does what; no terminal here.

use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use serde_json::Value;

use crate::cli::remote::{encode, text};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Pools,
    Instances,
    Jobs,
    Deaths,
}

impl Tab {
    pub(super) const ALL: [Self; 4] = [Self::Pools, Self::Instances, Self::Jobs, Self::Deaths];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Pools => "Pools",
            Self::Instances => "Instances",
            Self::Jobs => "Jobs",
            Self::Deaths => "Deaths",
        }
    }

    fn index(self) -> usize {
        Self::ALL.iter().position(|tab| *tab == self).unwrap_or_default()
    }
}

/// A request to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TopQuery {
    Fleet,
    Instances,
    Jobs,
    Deaths,
    /// The path of an explanation.
    Explain(String),
}

/// What the loop does after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyEffect {
    Stay,
    Quit,
}

/// What is drawn over the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Overlay {
    Nothing,
    Help,
    /// An explanation: the name of its subject, and the path of the request.
    Why(String, String),
}

/// Everything that `top` shows.
pub(super) struct TopBoard {
    pub(super) server: String,
    pub(super) fleet: Value,
    pub(super) rows: [Value; 3],
    pub(super) tab: Tab,
    pub(super) selected: [usize; 4],
    pub(super) filter: String,
    pub(super) typing: bool,
    pub(super) overlay: Overlay,
    pub(super) why: Option<Value>,
    pub(super) trouble: Option<String>,
}

impl TopBoard {
    pub(super) fn new(server: String) -> Self {
        Self {
            server,
            fleet: Value::Null,
            rows: [Value::Null, Value::Null, Value::Null],
            tab: Tab::Pools,
            selected: [0; 4],
            filter: String::new(),
            typing: false,
            overlay: Overlay::Nothing,
            why: None,
            trouble: None,
        }
    }

    /// Returns the request that the open list needs in addition to the fleet.
    pub(super) fn query(&self) -> TopQuery {
        match (&self.overlay, self.tab) {
            (Overlay::Why(_, path), _) => TopQuery::Explain(path.clone()),
            (Overlay::Nothing | Overlay::Help, Tab::Pools) => TopQuery::Fleet,
            (Overlay::Nothing | Overlay::Help, Tab::Instances) => TopQuery::Instances,
            (Overlay::Nothing | Overlay::Help, Tab::Jobs) => TopQuery::Jobs,
            (Overlay::Nothing | Overlay::Help, Tab::Deaths) => TopQuery::Deaths,
        }
    }

    /// Takes an answer; after a failure the old rows stay.
    pub(super) fn apply(&mut self, query: TopQuery, answer: Result<Value, String>) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => {
                self.trouble = Some(why);
                return;
            }
        };
        self.trouble = None;
        match query {
            TopQuery::Fleet => self.fleet = answer,
            TopQuery::Instances => self.rows[0] = answer,
            TopQuery::Jobs => self.rows[1] = answer,
            TopQuery::Deaths => self.rows[2] = answer,
            TopQuery::Explain(path) => {
                if matches!(&self.overlay, Overlay::Why(_, asked) if *asked == path) {
                    self.why = Some(answer);
                }
            }
        }
        self.stay_inside();
    }

    /// Returns the rows of the open list that pass the filter.
    pub(super) fn visible(&self) -> Vec<&Value> {
        let rows = match self.tab {
            Tab::Pools => &self.fleet["pools"],
            Tab::Instances => &self.rows[0]["items"],
            Tab::Jobs => &self.rows[1]["items"],
            Tab::Deaths => &self.rows[2]["items"],
        };
        let needle = self.filter.to_lowercase();
        let keys = ["name", "instance", "pool", "state", "verdict", "repository", "host", "id"];
        let fits = |row: &&Value| {
            needle.is_empty()
                || keys.iter().any(|key| {
                    row[*key].as_str().is_some_and(|text| text.to_lowercase().contains(&needle))
                })
        };
        rows.as_array().into_iter().flatten().filter(fits).collect()
    }

    /// Returns the index of the selected row.
    pub(super) fn cursor(&self) -> usize {
        self.selected[self.tab.index()]
    }

    /// Handles a key.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a keyboard has more keys than we have uses"
    )]
    pub(super) fn press(&mut self, key: KeyCode, with: KeyModifiers) -> KeyEffect {
        if with.contains(KeyModifiers::CONTROL) && key == KeyCode::Char('c') {
            return KeyEffect::Quit;
        }
        if self.typing {
            self.type_key(key);
            return KeyEffect::Stay;
        }
        if self.overlay != Overlay::Nothing {
            if matches!(key, KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q' | '?')) {
                self.overlay = Overlay::Nothing;
                self.why = None;
            }
            return KeyEffect::Stay;
        }
        match key {
            KeyCode::Char('q') => return KeyEffect::Quit,
            KeyCode::Char('?' | 'h') => self.overlay = Overlay::Help,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('1') => self.tab = Tab::Pools,
            KeyCode::Char('2') => self.tab = Tab::Instances,
            KeyCode::Char('3') => self.tab = Tab::Jobs,
            KeyCode::Char('4') => self.tab = Tab::Deaths,
            KeyCode::Tab | KeyCode::Right => self.select(1),
            KeyCode::BackTab | KeyCode::Left => self.select(Tab::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::PageDown => self.step(10),
            KeyCode::PageUp => self.step(-10),
            KeyCode::Home | KeyCode::Char('g') => self.step(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.step(isize::MAX),
            KeyCode::Enter => self.explain(),
            _ => {}
        }
        self.stay_inside();
        KeyEffect::Stay
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a keyboard has more keys than we have uses"
    )]
    fn type_key(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.chars().count() < 60 => self.filter.push(c),
            _ => {}
        }
        self.stay_inside();
    }

    fn select(&mut self, by: usize) {
        self.tab = Tab::ALL[(self.tab.index() + by) % Tab::ALL.len()];
    }

    fn step(&mut self, by: isize) {
        let cursor = &mut self.selected[self.tab.index()];
        *cursor = cursor.saturating_add_signed(by);
    }

    fn stay_inside(&mut self) {
        let last = self.visible().len().saturating_sub(1);
        let cursor = &mut self.selected[self.tab.index()];
        *cursor = (*cursor).min(last);
    }

    fn explain(&mut self) {
        let Some(row) = self.visible().get(self.cursor()).copied() else { return };
        let (kind, name) = match self.tab {
            Tab::Pools => ("pools", &row["name"]),
            Tab::Instances => ("instances", &row["name"]),
            Tab::Jobs => ("jobs", &row["id"]),
            Tab::Deaths => ("instances", &row["instance"]),
        };
        let name = name.as_str().unwrap_or_default();
        let path = format!("/{kind}/{}/explain", encode(name));
        self.overlay = Overlay::Why(text(&Value::String(name.to_owned())), path);
        self.why = None;
    }
}
