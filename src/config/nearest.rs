//! Guesses what a mistyped word was meant to be.

/// Returns the candidate a person most likely meant, if any is near enough to be worth saying.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = plain(word);
    let allowed = word.chars().count().div_ceil(3).min(3);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &plain(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the words as a list for people: `a`, `b` or `c`.
pub(crate) fn listed<S: AsRef<str>>(words: &[S]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{}`", word.as_ref())).collect();
    match quoted.as_slice() {
        [] => "nothing".into(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Drops what people spell differently without meaning anything by it.
fn plain(word: &str) -> String {
    word.to_lowercase().replace(['-', '_', ' '], "")
}

/// Counts the edits between two words; swapping two neighbours is one edit.
fn distance(one: &str, two: &str) -> usize {
    let (one, two): (Vec<char>, Vec<char>) =
        (one.chars().take(64).collect(), two.chars().collect());
    let mut rows = vec![(0..=two.len()).collect::<Vec<_>>()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=two.len() {
            let same = one[i - 1] == two[j - 1];
            let mut best = (rows[i - 1][j] + 1)
                .min(row[j - 1] + 1)
                .min(rows[i - 1][j - 1] + usize::from(!same));
            if i > 1 && j > 1 && one[i - 1] == two[j - 2] && one[i - 2] == two[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_different_word_is_not() {
        let keys = ["min_idle", "max", "labels", "boot_timeout"];
        assert_eq!(nearest("min-idle", keys), Some("min_idle"));
        assert_eq!(nearest("lables", keys), Some("labels"));
        assert_eq!(nearest("boot_timout", keys), Some("boot_timeout"));
        assert_eq!(nearest("colour", keys), None);
    }
}
