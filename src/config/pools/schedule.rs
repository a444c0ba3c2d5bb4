//! `[[pool.schedule]]`: more idle runners at certain hours. The five fields of cron are read as "while
//! this holds" and not as "start now".

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value as Json;

use super::MACHINES;
use crate::config::declare::{Key, Requirement::Required, ValueKind, table};
use crate::config::document::Node;
use crate::config::section::Section;
use crate::config::values::{Field, nearest};

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

table! {
    /// Raises `min_idle` at certain hours.
    pub struct Schedule {
        /// The minutes during which it holds, in cron's five fields: minute hour day month weekday.
        pub cron: Cron => "* 8-17 * * mon-fri", need = Required;
        /// Whose clock the cron follows.
        pub timezone: Zone = "UTC" => "Europe/Berlin";
        /// How many idle runners are kept while it holds.
        pub min_idle: u32 => 8, kind = MACHINES, need = Required;
    }
}

impl Schedule {
    /// Returns whether it holds.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.cron.holds(now.to_zoned(self.timezone.zone.clone()).datetime())
    }
}

/// Names a time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

impl Field for Zone {
    const KIND: ValueKind = ValueKind::Text;

    fn read(section: &Section<'_>, _: &Key, node: &Node) -> Option<Self> {
        let name = node.value.text()?.to_owned();
        if let Ok(zone) = TimeZone::get(&name) {
            return Some(Self { name, zone });
        }
        let known: Vec<String> = jiff::tz::db().available().map(|zone| zone.to_string()).collect();
        // People write the city alone.
        let city = |zone: &&str| {
            zone.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(&name))
        };
        let names = || known.iter().map(String::as_str);
        let help = names().find(city).or_else(|| nearest(&name, names())).map_or_else(
            || "write a name such as Europe/Berlin or UTC".into(),
            |zone| format!("did you mean \"{zone}\"?"),
        );
        section.error("timezone", format!("there is no time zone `{name}`"), help);
        None
    }

    fn show(&self) -> Json {
        self.name.as_str().into()
    }
}

/// Holds a set of minutes: minute, hour, day of month, month, day of week.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    /// The cron as written.
    text: String,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether both day fields are restricted: then either is enough, as cron has always done it.
    either_day: bool,
}

impl Field for Cron {
    const KIND: ValueKind = ValueKind::Text;

    fn read(section: &Section<'_>, _: &Key, node: &Node) -> Option<Self> {
        let key = section.key("cron");
        let cron = match Self::parse(node.value.text()?) {
            Ok(cron) => cron,
            Err(why) => {
                let help = "office hours are `* 8-17 * * mon-fri`";
                section.error("cron", format!("`{key}` {why}"), help);
                return None;
            }
        };
        if cron.is_momentary() {
            section.warn(
                "cron",
                format!(
                    "`{key}` holds for single minutes only; runners would hardly have started when \
                     it is over"
                ),
                "a schedule holds while its cron matches: begin with `*` for all minutes of the \
                 hours",
            );
        }
        Some(cron)
    }

    fn show(&self) -> Json {
        self.text.as_str().into()
    }
}

impl Cron {
    /// Reads five fields; the error completes "`key` …".
    fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(format!(
                "is `{text}`; cron has five fields: minute hour day month weekday"
            ));
        };
        let weekdays = field(weekday, "weekday", 0, 7, &DAYS)?;
        Ok(Self {
            text: text.to_owned(),
            minutes: field(minute, "minute", 0, 59, &[])?,
            hours: field(hour, "hour", 0, 23, &[])?,
            days: field(day, "day", 1, 31, &[])?,
            months: field(month, "month", 1, 12, &MONTHS)?,
            // Sunday is 0 and 7.
            weekdays: weekdays | (weekdays >> 7),
            either_day: !day.starts_with('*') && !weekday.starts_with('*'),
        })
    }

    /// Returns whether a local time lies in the set.
    fn holds(&self, at: DateTime) -> bool {
        let has =
            |set: u64, number: i8| u32::try_from(number).is_ok_and(|number| set >> number & 1 == 1);
        let day = has(self.days, at.day());
        let weekday = has(self.weekdays, at.weekday().to_sunday_zero_offset());
        let on_day = if self.either_day { day || weekday } else { day && weekday };
        has(self.minutes, at.minute())
            && has(self.hours, at.hour())
            && has(self.months, at.month())
            && on_day
    }

    /// Returns whether it never holds for longer than a minute at a time.
    fn is_momentary(&self) -> bool {
        self.minutes & (self.minutes >> 1) == 0
    }
}

fn field(text: &str, what: &str, least: u32, most: u32, names: &[&str]) -> Result<u64, String> {
    let bad = || {
        format!(
            "has `{text}` for the {what}, which can be {least} to {most}, `*`, ranges \
                    `a-b`, lists `a,b` and steps `*/n`"
        )
    };
    let number = |text: &str| {
        let word = text.to_lowercase();
        let by_name =
            names.iter().position(|name| *name == word).and_then(|at| u32::try_from(at).ok());
        // Months are counted from 1, weekdays from 0.
        let read = by_name.map(|at| at + least.min(1)).or_else(|| word.parse().ok());
        read.filter(|number| (least..=most).contains(number))
    };
    let mut set = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                (range, step.parse().ok().filter(|step| *step > 0).ok_or_else(bad)?)
            }
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (least, most),
            Some((from, to)) => (number(from).ok_or_else(bad)?, number(to).ok_or_else(bad)?),
            None => {
                let from = number(range).ok_or_else(bad)?;
                (from, if part.contains('/') { most } else { from })
            }
        };
        if from > to {
            return Err(bad());
        }
        set |= (from..=to).step_by(step).fold(0, |set, number| set | 1 << number);
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn working_hours_match_between_eight_and_six_on_weekdays() {
        let cron = Cron::parse("* 8-17 * * mon-fri").unwrap();
        assert!(cron.holds(date(2026, 11, 17).at(8, 0, 0, 0)));
        assert!(cron.holds(date(2026, 11, 17).at(17, 59, 59, 0)));
        assert!(!cron.holds(date(2026, 11, 17).at(18, 0, 0, 0)));
        assert!(!cron.holds(date(2026, 11, 15).at(9, 0, 0, 0)), "a Sunday");
    }

    #[test]
    fn sunday_has_two_numbers_and_a_name() {
        let sunday = date(2026, 11, 15).at(0, 0, 0, 0);
        for text in ["* * * * 0", "* * * * 7", "* * * * SUN", "* * * * 5-7", "*/30 * * nov *"] {
            assert!(Cron::parse(text).unwrap().holds(sunday), "{text}");
        }
        assert!(!Cron::parse("* * * jan *").unwrap().holds(sunday));
    }

    #[test]
    fn two_day_fields_are_alternatives() {
        let cron = Cron::parse("* * 1 * mon").unwrap();
        assert!(cron.holds(date(2026, 11, 1).at(0, 0, 0, 0)), "the first, a Sunday");
        assert!(cron.holds(date(2026, 11, 2).at(0, 0, 0, 0)), "a Monday");
        assert!(!cron.holds(date(2026, 11, 3).at(0, 0, 0, 0)));
    }

    #[test]
    fn what_is_not_cron_is_refused() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "5-1 * * * *",
            "*/0 * * * *",
            "a * * * *",
            "@daily",
            "1- * * * *",
        ] {
            assert!(Cron::parse(text).is_err(), "{text}");
        }
        assert!(Cron::parse("0 8 * * *").unwrap().is_momentary());
        assert!(!Cron::parse("* 8 * * *").unwrap().is_momentary());
    }
}
