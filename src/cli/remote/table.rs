//! Tables for people: aligned columns without lines, colours where they mean something.

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table};

use super::{Tone, plain, tone};

/// Says whether colours are welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Paint {
    /// On a terminal that wants them.
    Colours,
    /// In a file, a pipe, or where `NO_COLOR` is set.
    Plain,
}

/// Is a table under construction.
pub(in crate::cli) struct Sheet {
    table: Table,
    rows: usize,
}

impl Sheet {
    /// Begins a table with these columns.
    pub(in crate::cli) fn new(paint: Paint, columns: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        match paint {
            Paint::Colours => table.enforce_styling(),
            Paint::Plain => table.force_no_tty(),
        };
        let header =
            columns.iter().map(|name| Cell::new(name.to_uppercase()).add_attribute(Attribute::Dim));
        table.set_header(header.collect::<Vec<_>>());
        Self { table, rows: 0 }
    }

    /// Adds a row. Words that mean something are coloured.
    pub(in crate::cli) fn row<const N: usize>(&mut self, cells: [String; N]) {
        let cells = cells.map(|text| {
            let text = plain(&text).into_owned();
            match tone(&text) {
                Some(tone) => Cell::new(text).fg(colour_of(tone)),
                None => Cell::new(text),
            }
        });
        self.table.add_row(cells.to_vec());
        self.rows += 1;
    }

    /// Returns the text, or what to say when there is no row.
    pub(in crate::cli) fn or(mut self, nothing: &str) -> String {
        if self.rows == 0 {
            return format!("{nothing}\n");
        }
        let last = self.table.column_count().saturating_sub(1);
        for (at, column) in self.table.column_iter_mut().enumerate() {
            column.set_padding((0, if at == last { 0 } else { 2 }));
        }
        let trimmed: Vec<String> =
            self.table.lines().map(|line| line.trim_end().to_owned()).collect();
        trimmed.join("\n") + "\n"
    }

    /// Returns the heading of a part.
    pub(in crate::cli) fn heading(paint: Paint, text: &str) -> String {
        match paint {
            Paint::Colours => format!("\x1b[1m{text}\x1b[0m\n"),
            Paint::Plain => format!("{text}\n"),
        }
    }
}

fn colour_of(tone: Tone) -> Color {
    match tone {
        Tone::Working => Color::Magenta,
        Tone::Good => Color::Green,
        Tone::Promised => Color::Cyan,
        Tone::Coming => Color::Blue,
        Tone::Leaving => Color::Yellow,
        Tone::Bad => Color::Red,
        Tone::Over => Color::DarkGrey,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_has_no_colours_in_a_pipe() {
        let mut sheet = Sheet::new(Paint::Plain, &["name", "state"]);
        sheet.row(["linux-1".into(), "busy".into()]);
        sheet.row(["x".into(), "a\x1b[2Jb".into()]);
        let text = sheet.or("nothing");
        assert_eq!(text, "NAME     STATE\nlinux-1  busy\nx        a\\u{1b}[2Jb\n");
    }

    #[test]
    fn colours_come_only_where_they_are_welcome_and_mean_something() {
        let mut sheet = Sheet::new(Paint::Colours, &["name", "state"]);
        sheet.row(["linux-1".into(), "busy".into()]);
        let text = sheet.or("nothing");
        assert!(text.contains("\x1b["), "{text:?}");
        assert!(!text.lines().nth(1).unwrap().starts_with('\x1b'), "{text:?}");
    }

    #[test]
    fn an_empty_table_says_so() {
        assert_eq!(Sheet::new(Paint::Plain, &["name"]).or("Nobody is here."), "Nobody is here.\n");
    }
}
