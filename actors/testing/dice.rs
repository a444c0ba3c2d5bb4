//! Seeded dice. The same seed throws the same numbers, on every machine, for ever.

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// How often something goes wrong, in ten-thousandths.
pub type Rate = u16;

/// Throws numbers from a seed.
pub struct Dice(Pcg64Mcg);

impl Dice {
    /// Makes dice from a seed; `lane` keeps several dice of one seed apart.
    pub fn new(seed: u64, lane: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed ^ lane.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `end`; zero if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of the product: no division, and a bias too small to measure here.
        let wide = u128::from(self.bits()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Returns a number from `low` to `high` that is usually small.
    pub fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low) + 1;
        let inner = self.below(span) + 1;
        low + self.below(inner)
    }

    /// Returns whether something of this rate happens now; a rate of zero costs no throw.
    pub fn hits(&mut self, rate: Rate) -> bool {
        rate > 0 && self.below(10_000) < u64::from(rate)
    }

    /// Returns an index into something of this length.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Returns one of the choices.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.index(choices.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_throws_the_same_numbers_for_ever() {
        let mut dice = Dice::new(7, 1);
        let first: Vec<u64> = (0..4).map(|_| dice.below(1000)).collect();
        let mut again = Dice::new(7, 1);
        assert_eq!(first, (0..4).map(|_| again.below(1000)).collect::<Vec<_>>());
        // Pinned: another platform or version of the generator must not change the corpus.
        assert_eq!(first, [540, 358, 469, 887]);
    }

    #[test]
    fn throws_stay_inside_their_bounds() {
        let mut dice = Dice::new(1, 0);
        for _ in 0..1000 {
            assert!((3..=5).contains(&dice.between(3, 5)));
            assert!((3..=50).contains(&dice.skewed(3, 50)));
            assert!(!dice.hits(0));
            assert!(dice.hits(10_000));
        }
        assert_eq!(dice.below(0), 0);
    }
}
