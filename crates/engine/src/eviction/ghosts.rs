//! Ghosts: what the policy remembers of keys that are gone.
//!
//! Beside each bucket of the index is a row of fifteen ghosts, newest first, two bytes each: a
//! fingerprint of the key, the frequency it left with, and from which log it was dropped. A
//! ghost's age needs no stamp: in row position `j` it left about `(j + 1/2) x rows` evictions ago.

use crate::hash::KeyHash;
use crate::layout::{bucket_of, shard};
use crate::shard::Shard;

/// Ghosts in a row; the row's sixteenth part is the count of halvings when it was last touched.
const ROW_LEN: usize = 15;
const MAIN_MARK: u16 = 1 << 3;
const FREQUENCY_MASK: u16 = 0b111;

/// What is remembered of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ghost {
    /// Its frequency, halved since as often as all others.
    pub frequency: u64,
    /// Whether it was dropped from the main log.
    pub from_main: bool,
    /// About how many entries were evicted since.
    pub age: u64,
}

struct Row {
    at: u64,
    ghosts: [u16; ROW_LEN],
    halvings: u16,
}

impl Shard<'_> {
    fn ghost_row(&self, hash: KeyHash) -> Option<Row> {
        let bucket = bucket_of(hash.first(), self.index_state().buckets());
        let at = self.cache.ghosts_at(self.at, bucket)?;
        let mut words = [0u64; 4];
        self.region().copy_out(at, &mut words);
        let mut parts = [0u16; ROW_LEN + 1];
        for (index, part) in parts.iter_mut().enumerate() {
            *part = (words[index / 4] >> (index % 4 * 16)) as u16;
        }
        let mut ghosts = [0u16; ROW_LEN];
        ghosts.copy_from_slice(&parts[..ROW_LEN]);
        let halvings = self.word(shard::HALVINGS) as u16;
        let passed = halvings.wrapping_sub(parts[ROW_LEN]).min(7);
        if passed > 0 {
            for ghost in &mut ghosts {
                let frequency = (*ghost & FREQUENCY_MASK) >> passed;
                *ghost = *ghost & !FREQUENCY_MASK | frequency;
            }
        }
        Some(Row { at, ghosts, halvings })
    }

    fn store_row(&self, row: &Row) {
        let mut words = [0u64; 4];
        for (index, part) in row.ghosts.iter().chain([&row.halvings]).enumerate() {
            words[index / 4] |= u64::from(*part) << (index % 4 * 16);
        }
        self.region().copy_in(row.at, &words);
    }

    /// Takes the ghost of a key out, if there is one.
    pub fn take_ghost(&self, hash: KeyHash) -> Option<Ghost> {
        let mut row = self.ghost_row(hash)?;
        let place = row.ghosts.iter().position(|ghost| ghost >> 4 == hash.fingerprint())?;
        let ghost = row.ghosts[place];
        row.ghosts.copy_within(place + 1.., place);
        row.ghosts[ROW_LEN - 1] = 0;
        self.store_row(&row);
        let rows = u64::from(self.index_state().buckets());
        Some(Ghost {
            frequency: u64::from(ghost & FREQUENCY_MASK),
            from_main: ghost & MAIN_MARK != 0,
            age: (2 * place as u64 + 1) * rows / 2,
        })
    }

    /// Remembers a key that is dropped. In a full row it replaces the ghost of the lowest
    /// frequency, the oldest among equals.
    pub fn put_ghost(&self, hash: KeyHash, frequency: u64, from_main: bool) {
        let Some(mut row) = self.ghost_row(hash) else { return };
        let frequency_of = |ghost: u16| if ghost == 0 { 0 } else { 1 + (ghost & FREQUENCY_MASK) };
        let (out, _) = row
            .ghosts
            .iter()
            .enumerate()
            .rev()
            .min_by_key(|(_, ghost)| frequency_of(**ghost))
            .expect("a row is not empty");
        row.ghosts.copy_within(0..out, 1);
        let mark = if from_main { MAIN_MARK } else { 0 };
        row.ghosts[0] = hash.fingerprint() << 4 | mark | frequency.min(7) as u16;
        self.store_row(&row);
    }
}
