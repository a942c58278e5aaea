//! The map of free segments: one bit for each segment, set while it is taken, and above these one
//! bit for each full word. Finding a free segment, or that there is none, takes the same few steps
//! in any file. Must not know who owns a segment: the owner word decides ([`crate::segments`]).
//!
//! The map is a hint that never hides a free segment. A segment's bit is cleared before its owner
//! word says free, and set after the owner word names an owner. So a death in between leaves a
//! clear bit, which costs one look.
//!
//! The race: a taker fills a word and sets the bit above while another process frees a segment of
//! that word. The taker therefore checks after setting the upper bit that the word is still full,
//! and clears the bit otherwise; a later freer clears it itself. If the taker dies before that
//! check, a word of segments stays hidden until a repair ([`crate::Arena::reveal_free_segments`]).

use crate::region::Region;

/// Bits of a word.
const FAN: u64 = 64;
/// Words of the last level are searched one by one; a file of 256 GiB has one.
const LEVELS: usize = 3;

/// Position of the map and the length of its levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeMap {
    at: [u64; LEVELS],
    words: [u64; LEVELS],
}

impl FreeMap {
    /// Lays out a map that begins at an offset.
    pub fn new(at: u64, segment_count: u64) -> FreeMap {
        let mut map = FreeMap { at: [at; LEVELS], words: [0; LEVELS] };
        let mut bits = segment_count;
        for level in 0..LEVELS {
            map.at[level] = at + 8 * map.words.iter().sum::<u64>();
            map.words[level] = bits.div_ceil(FAN);
            bits = map.words[level];
        }
        map
    }

    /// Length of the map.
    pub fn len_bytes(&self) -> u64 {
        8 * self.words.iter().sum::<u64>()
    }

    fn place(&self, level: usize, index: u64) -> (u64, u64) {
        (self.at[level] + index / FAN * 8, 1 << (index % FAN))
    }

    /// The first segment from `from` on that may be free.
    pub fn next(&self, region: &Region, from: u32) -> Option<u32> {
        self.next_clear(region, 0, u64::from(from)).and_then(|segment| u32::try_from(segment).ok())
    }

    /// The first clear bit of a level from `from` on.
    fn next_clear(&self, region: &Region, level: usize, from: u64) -> Option<u64> {
        let mut word = from / FAN;
        let mut wanted = !0 << (from % FAN);
        while word < self.words[level] {
            let clear = !region.get(self.at[level] + word * 8) & wanted;
            if clear != 0 {
                return Some(word * FAN + u64::from(clear.trailing_zeros()));
            }
            wanted = !0;
            word = match level + 1 {
                LEVELS => word + 1,
                above => self.next_clear(region, above, word + 1)?,
            };
        }
        None
    }

    /// Marks a segment as taken. The caller has just set its owner word.
    pub fn set_taken(&self, region: &Region, segment: u32) {
        let mut index = u64::from(segment);
        let mut below = None;
        for level in 0..LEVELS {
            let (at, bit) = self.place(level, index);
            let word = region.set_bits(at, bit) | bit;
            // A segment of the word may have become free before the bit above said that it is full.
            let is_full = below.is_none_or(|below| region.get(below) == !0);
            if !is_full && !crate::mutants::is_on("no-second-look") {
                return self.clear_from(region, level, index);
            }
            if word != !0 {
                return;
            }
            below = Some(at);
            index /= FAN;
        }
    }

    /// Marks a segment as possibly free. The caller is about to clear its owner word.
    pub fn set_free(&self, region: &Region, segment: u32) {
        self.clear_from(region, 0, u64::from(segment));
    }

    fn clear_from(&self, region: &Region, level: usize, mut index: u64) {
        for level in level..LEVELS {
            let (at, bit) = self.place(level, index);
            region.clear_bits(at, bit);
            index /= FAN;
        }
    }

    /// Whether the segment's own bit is set.
    pub fn says_taken(&self, region: &Region, segment: u32) -> bool {
        let (at, bit) = self.place(0, u64::from(segment));
        region.get(at) & bit != 0
    }

    /// Whether a search skips the segment, because of its own bit or one above.
    pub fn hides(&self, region: &Region, segment: u32) -> bool {
        let mut index = u64::from(segment);
        (0..LEVELS).any(|level| {
            let (at, bit) = self.place(level, index);
            index /= FAN;
            region.get(at) & bit != 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(segment_count: u64) -> (Region, FreeMap) {
        let map = FreeMap::new(64, segment_count);
        (Region::heap(64 + map.len_bytes()), map)
    }

    /// The segments that a search finds, from the first on.
    fn found(region: &Region, map: &FreeMap, count: u32) -> Vec<u32> {
        let next = |from| map.next(region, from).filter(|segment| *segment < count);
        std::iter::successors(next(0), |segment| next(segment + 1)).collect()
    }

    #[test]
    fn a_search_finds_exactly_the_free_segments() {
        for count in [1u32, 63, 64, 65, 4_096, 300_000] {
            let (region, map) = map(u64::from(count));
            assert_eq!(map.next(&region, 0), Some(0));
            (0..count).for_each(|segment| map.set_taken(&region, segment));
            assert_eq!(found(&region, &map, count), [], "of {count}");
            let mut free: Vec<u32> =
                (0..20u32).map(|n| n.wrapping_mul(2_654_435_761) % count).collect();
            free.sort_unstable();
            free.dedup();
            free.iter().for_each(|segment| map.set_free(&region, *segment));
            assert_eq!(found(&region, &map, count), free, "of {count}");
            assert!(free.iter().all(|segment| !map.hides(&region, *segment)));
            free.iter().for_each(|segment| map.set_taken(&region, *segment));
            assert!((0..count).all(|segment| map.hides(&region, segment)));
        }
    }
}
