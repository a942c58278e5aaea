//! Ghosts: what the policy remembers of keys that were evicted or removed. Must not decide what
//! follows from it.
//!
//! Each bucket of the index has a row of fifteen ghosts of two bytes, newest first: a fingerprint
//! of the key, its last frequency, and its last log. A ghost needs no time stamp: at position `j`
//! it was added about `(j + 1/2) x rows` evictions ago.
//!
//! Rows are in segments of their own, which are taken at the first eviction or when the pool is
//! nearly empty: while all entries fit, there is nothing to remember. A row without a segment
//! remembers nothing.

use crate::format::GHOST_ROW_BYTES;

/// Words of a row.
pub const ROW_WORDS: usize = (GHOST_ROW_BYTES / 8) as usize;
/// Ghosts in a row; its sixteenth part is the number of halvings when it was last used.
const ROW_LEN: usize = 15;
const MAIN_MARK: u16 = 1 << 3;
const FREQUENCY_MASK: u16 = 0b111;

/// What is remembered of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ghost {
    /// Its frequency, halved since then as often as all others.
    pub frequency: u64,
    /// Whether it was evicted from the main log.
    pub from_main: bool,
    /// About how many entries were evicted since.
    pub age: u64,
}

/// A row of ghosts.
pub struct Row {
    ghosts: [u16; ROW_LEN],
    halvings: u16,
}

impl Row {
    /// The row in these words, with frequencies halved up to now.
    pub fn new(words: [u64; ROW_WORDS], halvings: u64) -> Row {
        let mut parts = [0u16; ROW_LEN + 1];
        for (index, part) in parts.iter_mut().enumerate() {
            *part = (words[index / 4] >> (index % 4 * 16)) as u16;
        }
        let mut ghosts = [0u16; ROW_LEN];
        ghosts.copy_from_slice(&parts[..ROW_LEN]);
        let halvings = halvings as u16;
        let passed = halvings.wrapping_sub(parts[ROW_LEN]).min(7);
        if passed > 0 {
            for ghost in &mut ghosts {
                let frequency = (*ghost & FREQUENCY_MASK) >> passed;
                *ghost = *ghost & !FREQUENCY_MASK | frequency;
            }
        }
        Row { ghosts, halvings }
    }

    /// The words of the row.
    pub fn words(&self) -> [u64; ROW_WORDS] {
        let mut words = [0; ROW_WORDS];
        for (index, part) in self.ghosts.iter().chain([&self.halvings]).enumerate() {
            words[index / 4] |= u64::from(*part) << (index % 4 * 16);
        }
        words
    }

    /// Removes and returns a ghost, if it is in this row, one of `rows`.
    pub fn take(&mut self, fingerprint: u16, rows: u64) -> Option<Ghost> {
        let place = self.ghosts.iter().position(|ghost| ghost >> 4 == fingerprint)?;
        let ghost = self.ghosts[place];
        self.ghosts.copy_within(place + 1.., place);
        self.ghosts[ROW_LEN - 1] = 0;
        Some(Ghost {
            frequency: u64::from(ghost & FREQUENCY_MASK),
            from_main: ghost & MAIN_MARK != 0,
            age: (2 * place as u64 + 1) * rows / 2,
        })
    }

    /// Adds a ghost. In a full row it replaces the oldest of those with the lowest frequency.
    pub fn put(&mut self, fingerprint: u16, frequency: u64, from_main: bool) {
        let frequency_of = |ghost: u16| if ghost == 0 { 0 } else { 1 + (ghost & FREQUENCY_MASK) };
        let (out, _) = self
            .ghosts
            .iter()
            .enumerate()
            .rev()
            .min_by_key(|(_, ghost)| frequency_of(**ghost))
            .expect("a row is not empty");
        self.ghosts.copy_within(0..out, 1);
        let mark = if from_main { MAIN_MARK } else { 0 };
        self.ghosts[0] = fingerprint << 4 | mark | frequency.min(7) as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row { ghosts: [0; ROW_LEN], halvings: 0 }
    }

    #[test]
    fn a_ghost_comes_back_with_its_frequency_and_age() {
        let mut row = row();
        row.put(7, 5, true);
        row.put(8, 1, false);
        let ghost = row.take(7, 10).unwrap();
        assert_eq!((ghost.frequency, ghost.from_main, ghost.age), (5, true, 15));
        assert_eq!(row.take(7, 10), None);
        assert_eq!(row.take(8, 10).unwrap().age, 5);
    }

    #[test]
    fn a_full_row_forgets_the_oldest_of_the_lowest_frequency() {
        let mut row = row();
        row.put(100, 3, false);
        for fingerprint in 1..ROW_LEN as u16 {
            row.put(fingerprint, 1, false);
        }
        row.put(50, 1, false);
        assert_eq!(row.take(1, 1), None);
        assert_eq!(row.take(100, 1).unwrap().frequency, 3);
        assert!(row.take(2, 1).is_some());
    }

    #[test]
    fn frequencies_are_halved_as_often_as_all_others() {
        let mut row = row();
        row.put(9, 6, false);
        assert_eq!(Row::new(row.words(), 1).take(9, 1).unwrap().frequency, 3);
        assert_eq!(Row::new(row.words(), 60_000).take(9, 1).unwrap().frequency, 0);
    }
}
