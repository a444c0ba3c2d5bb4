//! Durations and sizes as people write them: `"90s"`, `"1h30m"`, `"4GiB"`.

use std::time::Duration;

/// Units of time in milliseconds, longest first.
const TIME_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Units of size in bytes.
const SIZE_UNITS: [(&str, u64); 8] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// Reads a duration; `None` when it is not one.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = 0_u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit());
        let (unit, after) = split(after, |c| c.is_ascii_alphabetic());
        let (_, millis) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*millis)?)?;
        rest = after.trim_start();
    }
    // A hundred years is a typing mistake, and sums with it must not overflow.
    (total <= 36_525 * 86_400_000).then(|| Duration::from_millis(total))
}

/// Writes a duration as it would be read.
pub(crate) fn written(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, millis) in TIME_UNITS {
        if rest >= millis {
            text.push_str(&(rest / millis).to_string());
            text.push_str(unit);
            rest %= millis;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

/// Reads a size in bytes; `None` when it is not one.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text.trim(), |c| c.is_ascii_digit());
    let (_, bytes) = SIZE_UNITS.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*bytes)
}

fn split(text: &str, of_first: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !of_first(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_they_are_written() {
        for (text, seconds) in
            [("90s", 90), ("5m", 300), ("30d", 2_592_000), ("1h30m", 5_400), ("0s", 0)]
        {
            assert_eq!(duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("1500ms"), Some(Duration::from_millis(1500)));
        for text in ["", "5", "m", "5 minutes", "-5s", "1.5h", "99999999999999999999s", "9999999d"]
        {
            assert_eq!(duration(text), None, "{text}");
        }
        for text in ["1m30s", "5m", "30d", "1s500ms", "0s"] {
            assert_eq!(written(duration(text).unwrap()), text);
        }
    }

    #[test]
    fn sizes_know_both_families_of_units() {
        assert_eq!(size("4GiB"), Some(4 << 30));
        assert_eq!(size("500 MB"), Some(500_000_000));
        assert_eq!(size("4G"), None);
        assert_eq!(size("99999999999999GiB"), None);
    }
}
