//! The declaration of a key: name, type, default, text and check, once.
//!
//! ```ignore
//! table! {
//!     /// The sweep for machines that should not exist.
//!     pub struct Process {
//!         /// How far the jobs step back behind everything else.
//!         pub nice: i32 = 0 => 5, kind = whole(0, 19);
//!     }
//! }
//! ```
//!
//! The doc comment is the text, the type gives the [`ValueKind`]. After `=` stands the default and
//! after `=>` the value for `config/example.toml`, both as TOML; what follows are fields of [`Key`]. From
//! this [`table!`] creates the struct, its reader and its page for `/config`; the check for unknown
//! keys and wrong types, the error texts, the JSON Schema, the example and `ostler plan` read the same
//! `Key`s. `impl TYPE, from VALUE { … }` declares the keys of a struct of the core, whose own defaults
//! hold; `and { … }` adds fields that are no keys.

use serde_json::{Map, Value};

use super::document::Node;
use super::mask::cover;
use super::section::Section;

/// Lists the keys of a table.
pub(crate) type Keys = &'static [Key];

/// Looks at a value that fits its kind, and reports what is wrong with it all the same.
pub(crate) type Check = fn(&Section<'_>, &'static Key, &Node);

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: ValueKind,
    /// Says what it is for, in a sentence.
    pub(crate) about: &'static str,
    pub(crate) fallback: Fallback,
    /// The value in `config/example.toml`, as TOML; the default where it is empty.
    pub(crate) example: &'static str,
    pub(crate) need: Requirement,
    pub(crate) effect: Effect,
    pub(crate) shown: Exposure,
    /// Whether it is a key of a pool that `[defaults]` does not take.
    pub(crate) own: bool,
    pub(crate) check: Option<Check>,
}

/// Says what holds when a key is left out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fallback {
    None,
    /// A value as TOML; `STATE_DIR` stands for `daemon.state_dir`.
    Toml(&'static str),
    /// The core's own default, as TOML.
    Core(fn() -> String),
    /// Something that the code of the section finds out, in words.
    Described(&'static str),
}

/// Says who must write a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    Optional,
    Required,
    /// The pool, or `[defaults]` for all pools.
    PoolOrDefaults,
    /// An alternative to other keys: the example shows it behind `#`.
    Alternative,
}

/// Says what a change of the key does to machines that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// New machines look different, so old ones are replaced.
    Shapes,
    /// New machines are somewhere else, and old ones would be out of sight.
    Moves,
}

/// Says how `/config` shows the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exposure {
    Whole,
    /// Covers what is under a name that sounds like a secret.
    Covered,
    /// Not at all: another field has what it was read for.
    Hidden,
}

/// Says what a key takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueKind {
    Text,
    Texts,
    /// A list of some of these texts.
    Choices(&'static [&'static str]),
    /// A name that goes into host names and labels.
    Name,
    Whole {
        least: i64,
        most: i64,
    },
    Number {
        least: f64,
        most: f64,
    },
    Flag,
    /// `"90s"`, not below so many seconds.
    Duration {
        least: u64,
    },
    /// A duration, or `"off"`.
    DurationOrOff,
    /// `"4GiB"`.
    Size,
    Choice(&'static [&'static str]),
    /// `{ env = "NAME" }` or `{ file = "path" }`.
    Secret,
    /// One secret, or a list of two while one replaces the other.
    Secrets,
    /// Text, or a secret where the text would hold a password.
    TextOrSecret,
    Address,
    Url,
    /// A URL that paths are added to; a slash at its end is dropped.
    BaseUrl,
    /// A path that Ostler reads; relative to the file.
    Path,
    /// A path that Ostler writes; relative to the working directory.
    OwnPath,
    /// A table of texts.
    TextMap,
    /// A table that is passed on unread.
    Free,
    Table(Keys),
    /// The keys of a pool that are not its own.
    Shared(Keys),
    Tables(Keys),
    /// Keys that stand in the table around them.
    Flat(Keys),
    /// Tables under names of the operator's choice; `kind` says which keys each may have.
    Kinds(&'static [(&'static str, Keys)]),
}

impl Key {
    /// Describes a key that may be left out.
    pub(crate) const fn new(name: &'static str, kind: ValueKind, about: &'static str) -> Self {
        Self {
            name,
            kind,
            about: about.trim_ascii(),
            fallback: Fallback::None,
            example: "",
            need: Requirement::Optional,
            effect: Effect::None,
            shown: Exposure::Whole,
            own: false,
            check: None,
        }
    }

    /// Adds a default and a value for the example.
    pub(crate) const fn with(self, fallback: Fallback, example: &'static str) -> Self {
        Self { fallback, example, ..self }
    }

    /// Returns how the key is written, with `…` for a text that only the operator can know.
    pub(crate) fn sketch(&self) -> String {
        let text = self.example.starts_with('"') || self.example.is_empty();
        let known = !text || matches!(self.kind, ValueKind::Choice(_));
        let value = if known { self.example } else { "\"…\"" };
        format!("{} = {value}", self.name)
    }

    /// Returns the default as TOML; `None` where it is not a plain value.
    pub(crate) fn default_toml(&self) -> Option<String> {
        match self.fallback {
            Fallback::Toml(text) => Some(text.to_owned()),
            Fallback::Core(text) => Some(text()),
            Fallback::None | Fallback::Described(_) => None,
        }
    }
}

/// Takes durations of at least so many seconds.
pub(crate) const fn at_least(least: u64) -> ValueKind {
    ValueKind::Duration { least }
}

/// Takes whole numbers in these bounds.
pub(crate) const fn whole(least: i64, most: i64) -> ValueKind {
    ValueKind::Whole { least, most }
}

/// Lists the keys that may stand in a table, those of flat groups among them.
pub(crate) fn all(keys: Keys) -> Vec<&'static Key> {
    let mut found = Vec::new();
    for key in keys {
        if let ValueKind::Flat(inner) = key.kind {
            found.extend(all(inner));
        } else {
            found.push(key);
        }
    }
    found
}

/// Is a struct whose fields are the keys of a table.
pub(crate) trait Declared: Sized {
    /// Says what the table is for, in a sentence.
    const ABOUT: &'static str;
    const KEYS: Keys;

    /// Reads every key; `None` when one that is needed is missing or does not fit.
    fn read_table(section: &Section<'_>) -> Option<Self>;

    /// Returns the values under the names of their fields, without any secret.
    fn page(&self) -> Value;
}

/// Builds the page of a table for `/config`.
pub(crate) fn page(keys: Keys, names: &[&str], values: Vec<Value>) -> Value {
    let mut shown = Map::new();
    for ((key, name), mut value) in keys.iter().zip(names).zip(values) {
        match (key.shown, key.kind, &value) {
            (Exposure::Hidden, _, _) => continue,
            (Exposure::Covered, _, _) => cover(&mut value),
            (Exposure::Whole, ValueKind::DurationOrOff, Value::Null) => value = "off".into(),
            (Exposure::Whole, _, _) => {}
        }
        shown.insert((*name).to_owned(), value);
    }
    Value::Object(shown)
}

/// Reads a table whose keys all have a default.
pub(crate) fn read_complete<T: Declared>(section: &Section<'_>) -> T {
    T::read_table(section)
        .expect("every key of this table may be left out; a test reads an empty file")
}

/// Declares a table of the configuration; the module says how.
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        $vis:vis struct $Name:ident $(, check = $check:path)? {
            $( $(#[doc = $text:literal])+
               $field_vis:vis $field:ident $(as $key:literal)? : $ty:ty
               $(= $default:tt)? $(=> $example:tt)? $(, $part:ident = $value:expr)* ; )*
        }
        $(and { $( $(#[doc = $more_text:literal])+
                   $more_vis:vis $more:ident : $more_ty:ty = $more_default:expr ; )* })?
    ) => {
        $(#[doc = $about])+
        #[allow(clippy::doc_markdown, rustdoc::bare_urls, reason = "these texts are for the example")]
        #[derive(Clone, PartialEq)]
        $vis struct $Name {
            $( $(#[doc = $text])+ $field_vis $field: $ty, )*
            $($( $(#[doc = $more_text])+ $more_vis $more: $more_ty, )*)?
        }

        impl std::fmt::Debug for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let page = $crate::config::declare::Declared::page(self);
                write!(f, concat!(stringify!($Name), " {}"), page)
            }
        }

        table! {
            @declared $Name, ($($about),+), section => {
                let read = Self { $($field: $field?,)* $($( $more: $more_default, )*)? };
                $( $check(&read, section); )?
                Some(read)
            },
            $( ($($text),+) $field $ty, table!(@name $field $($key)?),
               table!(@fallback $($default)?), table!(@example $($example)?),
               ($($part = $value),*); )*
        }
    };

    (
        $(#[doc = $about:literal])+
        impl $Name:ident, from $defaults:expr, {
            $( $(#[doc = $text:literal])+
               $field:ident : $ty:ty $(=> $example:tt)? $(, $part:ident = $value:expr)* ; )*
        }
    ) => {
        table! {
            @declared $Name, ($($about),+), section => {
                #[allow(clippy::needless_update, reason = "not every such struct has more fields")]
                Some(Self { $($field: $field?,)* ..$defaults })
            },
            $( ($($text),+) $field $ty, stringify!($field),
               $crate::config::declare::Fallback::Core(|| {
                   $crate::config::values::Field::toml(&$defaults.$field)
               }),
               table!(@example $($example)?), ($($part = $value),*); )*
        }
    };

    (
        @declared $Name:ident, ($($about:literal),+), $section:ident => $read:block,
        $( ($($text:literal),+) $field:ident $ty:ty, $key:expr, $fallback:expr, $example:expr,
           ($($part:ident = $value:expr),*); )*
    ) => {
        impl $crate::config::declare::Declared for $Name {
            const ABOUT: &'static str = concat!($($about),+).trim_ascii();
            const KEYS: $crate::config::declare::Keys = &[ $(
                $crate::config::declare::Key {
                    $($part: $value,)*
                    ..$crate::config::declare::Key::new(
                        $key, <$ty as $crate::config::values::Field>::KIND, concat!($($text),+),
                    ).with($fallback, $example)
                }
            ),* ];

            fn read_table($section: &$crate::config::section::Section<'_>) -> Option<Self> {
                let mut keys = Self::KEYS.iter();
                // All of them are read before the first `?`: each may have a problem of its own.
                $( let $field = $section.field::<$ty>(keys.next()?); )*
                $read
            }

            fn page(&self) -> serde_json::Value {
                let names = &[ $(stringify!($field)),* ];
                let values = vec![ $($crate::config::values::Field::show(&self.$field)),* ];
                $crate::config::declare::page(Self::KEYS, names, values)
            }
        }
    };

    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $key:literal) => { $key };
    (@fallback) => { $crate::config::declare::Fallback::None };
    (@fallback $default:tt) => { $crate::config::declare::Fallback::Toml(stringify!($default)) };
    (@example) => { "" };
    (@example $example:tt) => { stringify!($example) };
}
pub(crate) use table;
