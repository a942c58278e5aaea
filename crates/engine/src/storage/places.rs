//! The places of records that an open file remembers, outside of the shared memory. Must not know what
//! they are for, nor whether they are still good.

use std::sync::atomic::{fence, AtomicU64, Ordering};

/// Places for each shard, each for some of the lengths.
const PLACES: usize = 8;

/// The place of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RememberedPlace {
    /// Where the record begins; not 0.
    pub offset: u64,
    /// Its word 0.
    pub first: u64,
    /// The generation of its segment.
    pub generation: u64,
    /// Its length.
    pub log_bytes: u64,
}

/// Places by shard and length. One thread at a time may use those of a shard: it has the shard's lock.
pub struct Places(Box<[[[AtomicU64; 4]; PLACES]]>);

impl Places {
    /// Remembers nothing yet.
    pub fn new(shard_count: u64) -> Places {
        Places((0..shard_count).map(|_| Default::default()).collect())
    }

    fn words(&self, shard: u64, log_bytes: u64) -> &[AtomicU64; 4] {
        &self.0[shard as usize][(log_bytes / 8) as usize % PLACES]
    }

    /// Remembers a place, perhaps instead of another one.
    #[inline]
    pub fn remember(&self, shard: u64, place: RememberedPlace) {
        let RememberedPlace { offset, first, generation, log_bytes } = place;
        let [offset_word, rest @ ..] = self.words(shard, log_bytes);
        // A child that is forked in between knows no place, not half of one.
        offset_word.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, value) in rest.iter().zip([first, generation, log_bytes]) {
            word.store(value, Ordering::Relaxed);
        }
        offset_word.store(offset, Ordering::Release);
    }

    /// Returns a place for a record of this length, and forgets it.
    #[inline]
    pub fn recall(&self, shard: u64, wanted_bytes: u64) -> Option<RememberedPlace> {
        let words = self.words(shard, wanted_bytes);
        let [offset, first, generation, log_bytes] =
            std::array::from_fn(|index| words[index].load(Ordering::Relaxed));
        if offset == 0 || log_bytes != wanted_bytes {
            return None;
        }
        words[0].store(0, Ordering::Relaxed);
        Some(RememberedPlace { offset, first, generation, log_bytes })
    }

    /// Knows what another one knows, as a forked child does.
    #[cfg(test)]
    pub fn copy_from(&self, other: &Places) {
        let words = |places: &Places| places.0.iter().flatten().flatten().count();
        assert_eq!(words(self), words(other));
        let all = self.0.iter().flatten().flatten().zip(other.0.iter().flatten().flatten());
        all.for_each(|(to, from)| to.store(from.load(Ordering::Relaxed), Ordering::Relaxed));
    }
}
