//! `[[pool.schedule]]`: more idle runners at certain hours.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::cron::Cron;
use super::keys::{Key, Keys, Kind};
use super::nearest::nearest;
use super::section::Section;

/// The key of a pool that holds its schedule.
pub(crate) const OF_POOL: &[Key] = &[Key::new(
    "schedule",
    Kind::Tables(KEYS),
    "Raises min_idle while its cron holds; the highest entry that holds counts.",
)];

const KEYS: Keys = &[&[
    Key::new(
        "cron",
        Kind::Text,
        "The minutes during which it holds, in cron's five fields: `* 8-17 * * mon-fri`.",
    )
    .required(),
    Key::new("timezone", Kind::Text, "Whose clock the cron follows, such as Europe/Berlin.")
        .or("\"UTC\""),
    Key::new(
        "min_idle",
        Kind::Whole { least: 0, most: 100_000 },
        "How many idle runners are kept while it holds.",
    )
    .required(),
]];

/// Holds one `[[pool.schedule]]`.
#[derive(Clone, Debug, Serialize)]
pub struct Schedule {
    /// The cron as written.
    pub cron: String,
    /// Whose clock it follows: `"UTC"`.
    pub timezone: String,
    /// How many idle runners are kept while it holds.
    pub min_idle: u32,
    #[serde(skip)]
    minutes: Cron,
    #[serde(skip)]
    zone: TimeZone,
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        (&self.cron, &self.timezone, self.min_idle)
            == (&other.cron, &other.timezone, other.min_idle)
    }
}

impl Schedule {
    /// Returns whether it holds.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.minutes.holds(now.to_zoned(self.zone.clone()).datetime())
    }

    pub(crate) fn read(section: &Section<'_>, max: u32) -> Option<Self> {
        let (text, timezone) = (section.text("cron")?, section.text("timezone").unwrap_or("UTC"));
        let minutes = match Cron::parse(text) {
            Ok(minutes) => Some(minutes),
            Err(why) => {
                section.note(
                    section
                        .error("cron", format!("`{}` {why}", section.key("cron")))
                        .help("office hours are `* 8-17 * * mon-fri`"),
                );
                None
            }
        };
        if minutes.is_some_and(|minutes| minutes.is_momentary()) {
            let what = format!(
                "`{}` holds for single minutes only; runners would hardly have started \
                        when it is over",
                section.key("cron")
            );
            section.note(section.warning("cron", what).help(
                "a schedule holds while its cron matches: begin with `*` for all minutes \
                    of the hours",
            ));
        }
        let zone = zone(section, timezone);
        let min_idle = section.whole("min_idle")?;
        if min_idle > max {
            let what = format!(
                "`{}` is {min_idle}, but the pool's `max` is {max}",
                section.key("min_idle")
            );
            section.note(section.error("min_idle", what).help("raise max or lower min_idle"));
        }
        let (minutes, zone) = (minutes?, zone?);
        Some(Self { cron: text.to_owned(), timezone: timezone.to_owned(), min_idle, minutes, zone })
    }
}

fn zone(section: &Section<'_>, name: &str) -> Option<TimeZone> {
    if let Ok(zone) = TimeZone::get(name) {
        return Some(zone);
    }
    let known: Vec<String> = jiff::tz::db().available().map(|zone| zone.to_string()).collect();
    // People write the city alone.
    let city = |zone: &&String| {
        zone.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(name))
    };
    let guess = known
        .iter()
        .find(city)
        .map(String::as_str)
        .or_else(|| nearest(name, known.iter().map(String::as_str)));
    let help = guess.map_or_else(
        || "write a name such as Europe/Berlin or UTC".into(),
        |zone| format!("did you mean \"{zone}\"?"),
    );
    section.note(section.error("timezone", format!("there is no time zone `{name}`")).help(help));
    None
}
