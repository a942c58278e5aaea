//! The places of records that an open file remembers, outside of the shared memory. Must not know what
//! they are for.

use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

/// Lengths are in classes, four to each power of two. Every sixteenth is the same one here.
const CLASSES: usize = 16;
/// Places for each class.
const WAYS: usize = 4;

/// The place of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RememberedPlace {
    /// Where the record begins.
    pub offset: u64,
    /// Its word 0.
    pub first: u64,
    /// The generation of its segment.
    pub generation: u64,
    /// Its length; below 2^32, not 0.
    pub log_bytes: u64,
}

/// What may be done with a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It can be used.
    Good,
    /// Not by this record.
    NotHere,
    /// Never: something else has happened to it.
    Never,
}

#[derive(Default)]
struct Class {
    /// The lengths, 0 for no place. Apart from the rest, because a search reads all of them.
    lengths: [AtomicU32; WAYS],
    /// Which of them the next one replaces.
    next: AtomicU32,
    others: [[AtomicU64; 3]; WAYS],
}

impl Class {
    /// The first place from this rank on that is at least this long, the shortest first; its rank.
    fn shortest(&self, least_bytes: u32, from: u64) -> u64 {
        let rank = |(way, length): (usize, &AtomicU32)| {
            // A shorter one wraps around.
            let more = length.load(Ordering::Relaxed).wrapping_sub(least_bytes);
            let rank = u64::from(more) << 32 | way as u64;
            if rank < from {
                u64::MAX
            } else {
                rank
            }
        };
        self.lengths.iter().enumerate().map(rank).fold(u64::MAX, u64::min)
    }
}

/// Places by shard and class. One thread at a time may use those of a shard: it has the shard's lock.
pub struct Places(Box<[[Class; CLASSES]]>);

impl Places {
    /// Remembers nothing yet.
    pub fn new(shard_count: u64) -> Places {
        Places((0..shard_count).map(|_| Default::default()).collect())
    }

    /// The number of a length's class.
    fn class_of(log_bytes: u32) -> u32 {
        let exponent = (log_bytes | 4).ilog2();
        exponent << 2 | (log_bytes >> (exponent - 2) & 3)
    }

    fn class(&self, shard: u64, class: u32) -> &Class {
        &self.0[shard as usize][class as usize % CLASSES]
    }

    /// Remembers a place, if need be instead of another one of its class: of each in turn.
    pub fn remember(&self, shard: u64, place: RememberedPlace) {
        let RememberedPlace { offset, first, generation, log_bytes } = place;
        let class = self.class(shard, Places::class_of(log_bytes as u32));
        let is_empty = |length: &AtomicU32| length.load(Ordering::Relaxed) == 0;
        let way = class.lengths.iter().position(is_empty).unwrap_or_else(|| {
            let way = class.next.load(Ordering::Relaxed) as usize % WAYS;
            class.next.store(way as u32 + 1, Ordering::Relaxed);
            way
        });
        // A child that is forked in between knows no place, not half of one.
        class.lengths[way].store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, value) in class.others[way].iter().zip([offset, first, generation]) {
            word.store(value, Ordering::Relaxed);
        }
        class.lengths[way].store(log_bytes as u32, Ordering::Release);
    }

    /// Returns a good place with a length in this range, and forgets it: of the shortest class, the
    /// shortest. Also forgets those that never will be good.
    pub fn recall(
        &self,
        shard: u64,
        least_bytes: u64,
        most_bytes: u64,
        fit: impl Fn(&RememberedPlace) -> Fit,
    ) -> Option<RememberedPlace> {
        let (least, range) = (least_bytes as u32, most_bytes - least_bytes);
        for number in Places::class_of(least)..=Places::class_of(most_bytes as u32) {
            let class = self.class(shard, number);
            let mut from = 0;
            loop {
                let rank = class.shortest(least, from);
                if rank >> 32 > range {
                    break;
                }
                let way = rank as u32 as usize;
                let [offset, first, generation] =
                    std::array::from_fn(|word| class.others[way][word].load(Ordering::Relaxed));
                let log_bytes = least_bytes + (rank >> 32);
                let place = RememberedPlace { offset, first, generation, log_bytes };
                let fit = fit(&place);
                if fit != Fit::NotHere {
                    class.lengths[way].store(0, Ordering::Relaxed);
                }
                if fit == Fit::Good {
                    return Some(place);
                }
                from = rank + 1;
            }
        }
        None
    }

    /// Knows what another one knows, as a forked child does.
    #[cfg(test)]
    pub fn copy_from(&self, other: &Places) {
        assert_eq!(self.0.len(), other.0.len());
        for (to, from) in self.0.iter().flatten().zip(other.0.iter().flatten()) {
            for (to, from) in to.lengths.iter().zip(&from.lengths) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            for (to, from) in to.others.iter().flatten().zip(from.others.iter().flatten()) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn place(offset: u64, log_bytes: u64) -> RememberedPlace {
        RememberedPlace { offset, first: 1, generation: 2, log_bytes }
    }

    #[test]
    fn the_shortest_good_place_is_recalled_once() {
        let places = Places::new(2);
        for (offset, log_bytes) in [(8, 64), (16, 48), (24, 40), (32, 48)] {
            places.remember(1, place(offset, log_bytes));
        }
        let recall = |least, most| places.recall(1, least, most, |_| Fit::Good);
        assert_eq!(places.recall(0, 8, 100, |_| Fit::Good), None);
        assert_eq!(recall(65, 100), None);
        assert_eq!(recall(44, 56), Some(place(16, 48)));
        assert_eq!(recall(44, 64), Some(place(32, 48)));
        assert_eq!(recall(44, 64), Some(place(8, 64)));
        assert_eq!(recall(44, 64), None);
        assert_eq!(recall(8, 64), Some(place(24, 40)));
    }

    #[test]
    fn only_what_never_fits_is_forgotten() {
        let places = Places::new(1);
        (1..=3).for_each(|at| places.remember(0, place(at * 8, 48)));
        let fit =
            |fits: [Fit; 3]| move |place: &RememberedPlace| fits[(place.offset / 8) as usize - 1];
        let refused = fit([Fit::Never, Fit::NotHere, Fit::NotHere]);
        assert_eq!(places.recall(0, 48, 48, refused), None);
        let good = fit([Fit::Good, Fit::NotHere, Fit::Good]);
        assert_eq!(places.recall(0, 48, 48, good), Some(place(24, 48)));
        assert_eq!(places.recall(0, 48, 48, good), None);
        assert_eq!(places.recall(0, 48, 48, |_| Fit::Good), Some(place(16, 48)));
    }

    #[test]
    fn the_oldest_places_are_forgotten_first() {
        let places = Places::new(1);
        // All of one class.
        let nth = |at: u64| place(at * 8, 1024 + at * 8);
        (1..=WAYS as u64 + 2).for_each(|at| places.remember(0, nth(at)));
        let recall = |at| places.recall(0, nth(at).log_bytes, nth(at).log_bytes, |_| Fit::Good);
        assert_eq!((recall(1), recall(2)), (None, None));
        (3..=WAYS as u64 + 2).for_each(|at| assert_eq!(recall(at), Some(nth(at))));
    }
}
