//! Names for new instances: never used again, fit for any provider.

use crate::model::InstanceId;

/// What host names and label values allow everywhere.
const ALPHABET: [u8; 32] = *b"abcdefghijklmnopqrstuvwxyz234567";
/// 60 bits: a collision is refused by the store and costs one wish.
const LENGTH: usize = 12;

/// Returns a name made of a prefix and a random word.
pub(crate) fn fresh_name(prefix: &str, word: u64) -> InstanceId {
    let mut rest = word;
    let mut name = prefix.to_lowercase();
    name.push('-');
    for _ in 0..LENGTH {
        let [low, ..] = rest.to_le_bytes();
        name.push(char::from(ALPHABET[usize::from(low & 31)]));
        rest >>= 5;
    }
    InstanceId::new(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_its_prefix_and_twelve_small_letters_or_digits() {
        assert_eq!(fresh_name("Linux", 0).as_str(), "linux-aaaaaaaaaaaa");
        assert_eq!(fresh_name("linux", u64::MAX).as_str(), "linux-777777777777");
        assert_ne!(fresh_name("linux", 1), fresh_name("linux", 2));
    }
}
