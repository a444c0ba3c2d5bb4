//! The end of a log, made safe to keep and to show.
//!
//! What a runner prints is written by strangers. It is cut to a size a record can carry, and
//! every character that could steer a terminal, forge a log line or reverse a reader's eye is
//! shown as its escape instead.

/// How many lines of a log are kept.
pub const TAIL_LINES: usize = 200;
/// How many bytes of a log are kept.
pub const TAIL_BYTES: usize = 64 * 1024;

/// Returns the last lines of a log: at most 200 lines and 64 KiB, control characters escaped.
///
/// A first line cut by size is dropped, unless it is all there is. The work is bounded by
/// what is kept, not by what came.
pub fn clip(raw: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut room = TAIL_BYTES;
    // Blank lines at the very end say nothing and would cost room.
    for line in raw.lines().rev().skip_while(|line| line.is_empty()).take(TAIL_LINES) {
        let fits = suffix_that_fits(line, room);
        if fits < line.len() && !kept.is_empty() {
            break;
        }
        let whole = fits == line.len();
        let line = escaped(&line[line.len() - fits..]);
        room = room.saturating_sub(line.len() + 1);
        kept.push(line);
        if !whole || room == 0 {
            break;
        }
    }
    kept.reverse();
    kept.join("\n")
}

/// Returns how many bytes at the end of `line` fit into `room` once escaped.
fn suffix_that_fits(line: &str, room: usize) -> usize {
    let mut spent = 0;
    let mut start = line.len();
    for (at, character) in line.char_indices().rev() {
        spent += cost(character);
        if spent > room {
            break;
        }
        start = at;
    }
    line.len() - start
}

fn escaped(line: &str) -> String {
    let mut safe = String::with_capacity(line.len());
    for character in line.chars() {
        if steers(character) {
            safe.extend(escape(character));
        } else {
            safe.push(character);
        }
    }
    safe
}

fn cost(character: char) -> usize {
    if steers(character) { escape(character).count() } else { character.len_utf8() }
}

/// Returns the escape people know: `\r`, `\t`, `\0`, else `\u{…}`.
fn escape(character: char) -> impl Iterator<Item = char> {
    let known = match character {
        '\r' => Some('r'),
        '\t' => Some('t'),
        '\0' => Some('0'),
        _ => None,
    };
    let unicode = known.is_none().then(|| character.escape_unicode());
    known.into_iter().flat_map(|message| ['\\', message]).chain(unicode.into_iter().flatten())
}

/// Returns whether a character does something to its reader instead of being read.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}'   // marks without width
            | '\u{2028}'..='\u{202e}'                           // line ends, bidi overrides
            | '\u{2066}'..='\u{2069}'                           // bidi isolates
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}'              // byte order, annotations
            | '\u{e0000}'..='\u{e007f}'                         // invisible tags
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_log_is_kept_as_it_is() {
        assert_eq!(clip("one\ntwo\n"), "one\ntwo");
        assert_eq!(clip("one\r\ntwo"), "one\ntwo", "line ends of Windows are line ends");
        assert_eq!(clip("a\n\nb"), "a\n\nb");
        assert_eq!(clip(""), "");
        assert_eq!(clip("the end\n\n\n"), "the end");
        assert_eq!(clip("naïve 日本 👍"), "naïve 日本 👍");
    }

    #[test]
    fn only_the_last_two_hundred_lines_are_kept() {
        let raw = (0..1000).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n");
        let tail = clip(&raw);
        assert_eq!(tail.lines().count(), 200);
        assert!(tail.starts_with("line 800\n") && tail.ends_with("line 999"));
    }

    #[test]
    fn a_first_line_cut_by_size_is_dropped() {
        let line = "x".repeat(1000);
        let raw = (0..100).map(|at| format!("{at:02}{line}")).collect::<Vec<_>>().join("\n");
        let tail = clip(&raw);
        assert!(tail.len() <= TAIL_BYTES);
        assert!(tail.lines().all(|line| line.len() == 1002), "no part of a line is left");
        assert!(tail.lines().next().unwrap().starts_with("35"));
    }

    #[test]
    fn a_log_of_one_endless_line_keeps_its_end() {
        let raw = format!("{}the end", "é".repeat(TAIL_BYTES));
        let tail = clip(&raw);
        assert!(tail.len() <= TAIL_BYTES && tail.len() > TAIL_BYTES - 4);
        assert!(tail.ends_with("éthe end"));
    }

    #[test]
    fn a_runner_cannot_steer_the_readers_terminal() {
        assert_eq!(clip("\u{1b}[2J\u{1b}]0;owned\u{7}"), r"\u{1b}[2J\u{1b}]0;owned\u{7}");
        assert_eq!(clip("50 %\r100 %"), r"50 %\r100 %");
        assert_eq!(clip("a\0b\tc\u{7f}\u{9b}"), r"a\0b\tc\u{7f}\u{9b}");
        assert_eq!(clip("\u{202e}gnp.exe\u{2066}"), r"\u{202e}gnp.exe\u{2066}");
        assert_eq!(clip("one\u{2028}two\u{85}three"), r"one\u{2028}two\u{85}three");
    }

    #[test]
    fn escapes_count_against_the_size_and_are_never_cut_in_half() {
        let raw = "\u{1b}".repeat(TAIL_BYTES);
        let tail = clip(&raw);
        assert!(tail.len() <= TAIL_BYTES);
        assert_eq!(tail.len() % r"\u{1b}".len(), 0);
    }

    proptest! {
        #[test]
        fn whatever_comes_the_tail_is_bounded_and_harmless(raw in ".{0,400}(\n.{0,40}){0,300}") {
            let tail = clip(&raw);
            prop_assert!(tail.len() <= TAIL_BYTES);
            prop_assert!(tail.lines().count() <= TAIL_LINES);
            prop_assert!(!tail.chars().any(|c| c != '\n' && steers(c)));
            prop_assert_eq!(clip(&tail), tail.clone(), "clipping twice changes nothing");
        }
    }
}
