//! Values, states and times as text on a terminal.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

/// Returns a text that cannot move the cursor, change colours or turn the reading direction:
/// names, labels and logs come from strangers.
pub(in crate::cli) fn plain(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| {
        if harmful(c) { c.escape_default().to_string() } else { c.to_string() }
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Returns a value for people: null is a dash, lists are joined, text is escaped.
pub(in crate::cli) fn text(value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        Value::String(text) if text.is_empty() => "–".into(),
        Value::String(text) => plain(text).into_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.into(),
        Value::Number(number) => number.to_string(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        Value::Object(_) => plain(&value.to_string()).into_owned(),
    }
}

/// What a state or verdict means at first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Tone {
    Working,
    Good,
    Offered,
    Starting,
    Terminating,
    /// Needs attention.
    Bad,
    Done,
}

/// Returns the tone of a state or verdict; None for any other text.
pub(in crate::cli) fn tone(word: &str) -> Option<Tone> {
    Some(match word {
        "busy" | "running" => Tone::Working,
        "idle" | "clean" | "success" | "ok" => Tone::Good,
        "reserved" | "offered" => Tone::Offered,
        "pending_create" | "creating" | "starting" | "queued" | "waiting" | "settling" => {
            Tone::Starting
        }
        "retiring" | "pending_delete" | "deleting" | "draining" | "cancelled" => Tone::Terminating,
        "stuck" | "failure" | "failing" | "breaker open" | "crashed" | "aborted" | "host_oom"
        | "guest_killed" | "vanished" | "zombie" | "terminated" | "forced" | "runner_error"
        | "create_failed" | "boot_failed" | "node_lost" | "evicted" => Tone::Bad,
        "deleted" | "ended" | "completed" | "closed" | "removed" | "–" => Tone::Done,
        _ => return None,
    })
}

/// Returns the time since `at` in one or two units, or a dash.
pub(in crate::cli) fn age(at: &Value, now: Timestamp) -> String {
    let Some(at) = time(at) else { return "–".into() };
    let seconds = now.as_second().saturating_sub(at.as_second()).max(0);
    match seconds {
        0..90 => format!("{seconds}s"),
        90..5_400 => format!("{}m", seconds / 60),
        5_400..172_800 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns a time of the API.
pub(in crate::cli) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Returns a count of the API; what is missing is zero.
pub(in crate::cli) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Returns a text of at most so many characters.
pub(in crate::cli) fn clip(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_strangers_text_cannot_act_on_the_terminal() {
        assert_eq!(plain("a\x1b[31mb\r\nc\u{202e}d"), r"a\u{1b}[31mb\r\nc\u{202e}d");
        assert_eq!(plain("schön → 漢字"), "schön → 漢字");
        assert_eq!(text(&json!(["a\x07", "b"])), r"a\u{7}, b");
    }

    #[test]
    fn durations_are_short() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        for (at, shown) in [
            ("2026-01-01T23:59:57Z", "3s"),
            ("2026-01-01T23:50:00Z", "10m"),
            ("2026-01-01T20:55:00Z", "3h05m"),
            ("2025-12-20T00:00:00Z", "13d"),
            ("2026-01-02T00:00:09Z", "0s"),
        ] {
            assert_eq!(age(&json!(at), now), shown);
        }
        assert_eq!(age(&Value::Null, now), "–");
    }
}
