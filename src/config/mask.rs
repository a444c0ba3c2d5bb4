//! Covers what may be a secret in a line that is about to be shown.
//!
//! Secrets do not belong in the files, but an operator's first try is often a literal, and the
//! message that says so must not carry it into a log. Covered text keeps its length, so carets
//! stay where they belong.

use serde_json::Value;

/// Words that make a key look like the name of a secret.
const PRIVATE_NAMES: [&str; 8] =
    ["secret", "token", "password", "passwd", "private_key", "seal_key", "credential", "api_key"];

/// A run of this many characters of a key's alphabet is taken for a key.
const MIN_KEY_RUN: usize = 32;

/// Returns whether a key's name says that its value is private.
pub(crate) fn sounds_private(key: &str) -> bool {
    let key = key.to_lowercase().replace('-', "_");
    PRIVATE_NAMES.iter().any(|word| key.contains(word)) || key == "key" || key.ends_with("_key")
}

/// Returns the line with everything that may be a secret covered.
pub(crate) fn masked(line: &str) -> String {
    let mut chars: Vec<char> = line.chars().collect();
    cover_values(&mut chars);
    cover_passwords(&mut chars);
    cover_runs(&mut chars);
    chars.into_iter().collect()
}

/// Covers values of keys with a telling name: `secret = "…"` and also `secret = oops`. A value that
/// is a reference (`{ env = … }`) is shown.
fn cover_values(chars: &mut [char]) {
    let mut at = 0;
    while at < chars.len() {
        if chars[at] != '=' {
            at += 1;
            continue;
        }
        let private = sounds_private(&token_before(chars, at));
        let value = (at + 1..chars.len()).find(|at| !chars[*at].is_whitespace());
        at += 1;
        let Some(value) = value else { return };
        if !private {
            continue;
        }
        match chars[value] {
            '{' | '[' => cover_group(chars, value),
            _ => cover_value(chars, value),
        }
    }
}

/// Covers a text to its end, or a bare word.
fn cover_value(chars: &mut [char], from: usize) {
    let mut inside = false;
    for (at, c) in chars.iter_mut().enumerate().skip(from) {
        if !inside && at > from && matches!(c, ',' | '}' | ']') {
            return;
        }
        if *c == '"' || *c == '\'' {
            inside = !inside;
        } else if inside || !c.is_whitespace() {
            *c = '*';
        }
    }
}

/// Covers the values in brackets or braces, but for the places a secret may be kept in.
fn cover_group(chars: &mut [char], from: usize) {
    let mut depth = 0_usize;
    let mut at = from;
    while at < chars.len() {
        match chars[at] {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' | '=' | ' ' | '\t' => {}
            c => {
                let (end, is_key) = token_end(chars, at, c);
                let place = matches!(key_before_equals(chars, at).as_str(), "env" | "file");
                if !is_key && !place {
                    chars[at..end]
                        .iter_mut()
                        .filter(|c| !matches!(**c, '"' | '\''))
                        .for_each(|c| *c = '*');
                }
                at = end - 1;
            }
        }
        if depth == 0 {
            return;
        }
        at += 1;
    }
}

/// Returns where a word or a quoted text ends, and whether it is a key.
fn token_end(chars: &[char], from: usize, first: char) -> (usize, bool) {
    let quoted = first == '"' || first == '\'';
    let over = |c: &char| if quoted { *c == first } else { " \t=,{}[]".contains(*c) };
    let length = chars[from + 1..].iter().position(over).unwrap_or(chars.len() - from - 1);
    let end = (from + 1 + length + usize::from(quoted)).min(chars.len());
    let is_key = chars[end..].iter().find(|c| !c.is_whitespace()) == Some(&'=');
    (end, is_key)
}

/// Returns the key of a value: the word before the equals sign before it.
fn key_before_equals(chars: &[char], at: usize) -> String {
    let before = chars[..at].iter().rposition(|c| !c.is_whitespace());
    before
        .filter(|before| chars[*before] == '=')
        .map_or_else(String::new, |equals| token_before(chars, equals))
}

/// Covers the password of `scheme://user:password@host`.
fn cover_passwords(chars: &mut [char]) {
    let Some(scheme) = chars.windows(3).position(|three| three == [':', '/', '/']) else { return };
    let from = scheme + 3;
    let over = |c: &char| c.is_whitespace() || *c == '"' || *c == '\'';
    let to = chars[from..].iter().position(over).map_or(chars.len(), |length| from + length);
    let Some(host) = chars[from..to].iter().rposition(|c| *c == '@') else { return };
    let user = chars[from..from + host].iter().position(|c| *c == ':').map_or(0, |colon| colon + 1);
    chars[from + user..from + host].fill('*');
}

/// Covers runs that look like a key or a token whatever stands before them.
fn cover_runs(chars: &mut [char]) {
    let of_key = |c: char| c.is_ascii_alphanumeric() || "+/=_-*".contains(c);
    let mut from = 0;
    while from < chars.len() {
        let length = chars[from..].iter().position(|c| !of_key(*c)).unwrap_or(chars.len() - from);
        let mixed =
            chars[from..from + length].iter().any(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
        if length >= MIN_KEY_RUN && mixed {
            chars[from..from + length].fill('*');
        }
        from += length + 1;
    }
}

fn token_before(chars: &[char], at: usize) -> String {
    let text: String = chars[..at].iter().collect();
    let of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.trim_end_matches([' ', '\t', '"', '\''])
        .rsplit(|c| !of_word(c))
        .next()
        .unwrap_or("")
        .to_owned()
}

/// Covers every value under a key that sounds like a secret.
pub(crate) fn cover(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if sounds_private(key) {
                    *value = "***".into();
                } else {
                    cover(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(cover),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_covered_and_its_reference_is_not() {
        assert_eq!(masked(r#"secret = "hunter2""#), r#"secret = "*******""#);
        assert_eq!(masked("token = hunter2"), "token = *******");
        assert_eq!(masked(r#"secret = { env = "NAME" }"#), r#"secret = { env = "NAME" }"#);
        assert_eq!(
            masked(r#"app = { client_id = "Iv23", private_key = "pem" }"#),
            r#"app = { client_id = "Iv23", private_key = "***" }"#
        );
        assert_eq!(
            masked(r#"webhook_secret = ["one", "two"]"#),
            r#"webhook_secret = ["***", "***"]"#
        );
        assert_eq!(masked(r#"secret = "open"#), r#"secret = "****"#);
        assert_eq!(masked(r#"secret = { value = "x" }"#), r#"secret = { value = "*" }"#);
        assert_eq!(
            masked(r#"webhook_secret = [{ env = "A" }, "two", { env = "B", text = three }]"#),
            r#"webhook_secret = [{ env = "A" }, "***", { env = "B", text = ***** }]"#
        );
        assert_eq!(
            masked(r#"app = { private_key = { file = "a.pem" }, client_id = "Iv23" }"#),
            r#"app = { private_key = { file = "a.pem" }, client_id = "Iv23" }"#
        );
    }

    #[test]
    fn a_password_in_an_address_is_covered() {
        assert_eq!(masked(r#"url = "postgres://me:pw@db/x""#), r#"url = "postgres://me:**@db/x""#);
        assert_eq!(masked(r#"url = "https://example.com/a""#), r#"url = "https://example.com/a""#);
    }

    #[test]
    fn a_long_run_of_key_characters_is_covered_wherever_it_stands() {
        let line = "x = 'ghp_0123456789abcdefghijABCDEFGHIJ0123'";
        assert!(!masked(line).contains("abcdefghij"));
        assert_eq!(masked(line).len(), line.len());
    }
}
