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

use tuckbox_arena::region::{bytes_of, bytes_of_mut};

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

/// A row of ghosts; the last part is the number of halvings up to which it is halved.
pub struct Row([u16; ROW_LEN + 1]);

impl Row {
    /// The row in these words, with frequencies halved up to now.
    pub fn new(words: [u64; ROW_WORDS], halvings: u64) -> Row {
        let words = words.map(u64::to_le);
        let bytes = bytes_of(&words);
        let mut parts: [u16; ROW_LEN + 1] =
            std::array::from_fn(|part| u16::from_le_bytes([bytes[2 * part], bytes[2 * part + 1]]));
        let halvings = halvings as u16;
        let passed = halvings.wrapping_sub(parts[ROW_LEN]).min(7);
        if passed > 0 {
            for ghost in &mut parts[..ROW_LEN] {
                let frequency = (*ghost & FREQUENCY_MASK) >> passed;
                *ghost = *ghost & !FREQUENCY_MASK | frequency;
            }
            parts[ROW_LEN] = halvings;
        }
        Row(parts)
    }

    /// The words of the row.
    pub fn words(&self) -> [u64; ROW_WORDS] {
        let mut words = [0; ROW_WORDS];
        for (bytes, part) in bytes_of_mut(&mut words).chunks_exact_mut(2).zip(self.0) {
            bytes.copy_from_slice(&part.to_le_bytes());
        }
        words.map(u64::from_le)
    }

    /// Removes and returns a ghost, if it is in this row, one of `rows`.
    pub fn take(&mut self, fingerprint: u16, rows: u64) -> Option<Ghost> {
        // All are compared before a branch, so that the compiler can use vector instructions.
        let same = self.0.map(|ghost| u16::from(ghost >> 4 == fingerprint));
        if same[..ROW_LEN].iter().fold(0, |any, same| any | same) == 0 {
            return None;
        }
        let place = same.iter().position(|same| *same != 0)?;
        let ghost = self.0[place];
        self.0.copy_within(place + 1..ROW_LEN, place);
        self.0[ROW_LEN - 1] = 0;
        Some(Ghost {
            frequency: u64::from(ghost & FREQUENCY_MASK),
            from_main: ghost & MAIN_MARK != 0,
            age: (2 * place as u64 + 1) * rows / 2,
        })
    }

    /// Adds a ghost. In a full row it replaces the oldest of those with the lowest frequency.
    pub fn put(&mut self, fingerprint: u16, frequency: u64, from_main: bool) {
        // The frequency, and the place counted from the oldest. As vectors, too.
        let rank = |place: usize, ghost: u16| {
            let frequency = if ghost == 0 { 0 } else { 1 + (ghost & FREQUENCY_MASK) };
            frequency << 4 | (ROW_LEN - 1 - place) as u16
        };
        let mut ranks = [u16::MAX; ROW_LEN];
        for (place, (rank_here, ghost)) in ranks.iter_mut().zip(&self.0).enumerate() {
            *rank_here = rank(place, *ghost);
        }
        let least = ranks.iter().fold(u16::MAX, |least, rank| least.min(*rank));
        let out = ROW_LEN - 1 - usize::from(least & 0xf);
        self.0.copy_within(0..out, 1);
        let mark = if from_main { MAIN_MARK } else { 0 };
        self.0[0] = fingerprint << 4 | mark | frequency.min(7) as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row([0; ROW_LEN + 1])
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
