//! Tables for people: aligned columns without rules, colours for states.

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table};

use super::{Tone, plain, tone};

/// Whether colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Paint {
    /// On a terminal that wants them.
    Colours,
    /// In a file, a pipe, or where `NO_COLOR` is set.
    Plain,
}

/// A table that is being built.
pub(in crate::cli) struct Sheet {
    table: Table,
    rows: usize,
}

impl Sheet {
    /// Creates a table with these columns.
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

    /// Adds a row; states and verdicts are coloured.
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

    /// Returns the text of the table, or `nothing` when it has no rows.
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

    /// Returns a heading.
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
        Tone::Offered => Color::Cyan,
        Tone::Starting => Color::Blue,
        Tone::Terminating => Color::Yellow,
        Tone::Bad => Color::Red,
        Tone::Done => Color::DarkGrey,
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
    fn states_are_coloured_on_a_terminal_and_names_are_not() {
        let mut sheet = Sheet::new(Paint::Colours, &["name", "state"]);
        sheet.row(["linux-1".into(), "busy".into()]);
        let text = sheet.or("nothing");
        assert!(text.contains("\x1b["), "{text:?}");
        assert!(!text.lines().nth(1).unwrap().starts_with('\x1b'), "{text:?}");
    }

    #[test]
    fn an_empty_table_says_so() {
        assert_eq!(Sheet::new(Paint::Plain, &["name"]).or("No instances."), "No instances.\n");
    }
}
