//! The age of an entry, derived from its place: no entry has a time stamp. Must not know what the
//! age is used for.
//!
//! A segment keeps the clock and the halvings of when it was opened. If segments are a small part
//! of the cache, its entries were appended about then. Records in the places of replaced ones were
//! written later. If one segment holds the whole cache many times over (few entries, large limit), the place
//! within the segment tells; for the halvings, two bits in the slot select the number near that
//! estimate.

use super::Eviction;
use crate::format::{note, shard, LogKind, PolicyBits, Position, Slot, HALVINGS_MODULUS};
use crate::policy::halves;

const CLOCK_MASK: u64 = (1 << 48) - 1;

/// The share of what passed between opening and closing a segment that belongs to the part behind
/// `byte`.
fn part_after(passed: u64, byte: u64, end: u64) -> u64 {
    passed.saturating_mul(end.saturating_sub(byte)) / end.max(1)
}

/// The number of halvings nearest to an estimate that has the given remainder.
fn nearest_with_rest(guess: u64, rest: u64, most: u64) -> u64 {
    let nearest = rest
        + (guess + HALVINGS_MODULUS / 2).saturating_sub(rest) / HALVINGS_MODULUS * HALVINGS_MODULUS;
    if nearest > most {
        nearest.saturating_sub(HALVINGS_MODULUS).max(rest)
    } else {
        nearest
    }
}

impl Eviction<'_> {
    /// The policy bits of an entry that is examined now.
    pub(super) fn bits(&self, hits: u64, frequency: u64, is_admitted: bool) -> PolicyBits {
        PolicyBits::new(hits, frequency, is_admitted, self.word(shard::HALVINGS))
    }

    /// The [`note::OPENED`] of the next segment, and where this segment ends. At the log head, what
    /// the note would be now. Before a gap, this segment's own: nobody knows when the segment behind
    /// it was opened, and a segment is soon full.
    fn closed(&self, segment: u32) -> Option<(u64, u64)> {
        let head = self.head_cursor(self.log_of(segment))?;
        if segment == head.segment {
            let now = self.word(shard::CLOCK) & CLOCK_MASK | self.word(shard::HALVINGS) << 48;
            return Some((now, head.byte));
        }
        let next = match self.arena().note(segment, note::LIVE) & note::LIVE_GAP {
            0 => self.next_in_log(segment)?,
            _ => segment,
        };
        Some((self.arena().note(next, note::OPENED), self.cx.shape.log_bytes))
    }

    /// Counts frequency increments, and halves all frequencies from time to time.
    pub(super) fn count_increments(&self, amount: u64) {
        let increments = self.word(shard::INCREMENTS).saturating_add(amount);
        if halves(increments, self.entries(), self.word(shard::CLOCK)) {
            self.set_word(shard::INCREMENTS, 0);
            self.add_word(shard::HALVINGS, 1);
        } else {
            self.set_word(shard::INCREMENTS, increments);
        }
    }

    /// The frequency in a slot, halved as often as all others since it was written.
    pub(super) fn halved(&self, slot: Slot, at: Position) -> u64 {
        let bits = slot.policy();
        let now = self.word(shard::HALVINGS) as u16;
        let since = |opened: u64| u64::from(now.wrapping_sub((opened >> 48) as u16));
        let most = since(self.arena().note(at.segment, note::OPENED));
        if most == 0 {
            return bits.frequency();
        }
        let (closed, end) = self.closed(at.segment).unwrap_or_default();
        let least = since(closed).min(most);
        let guess = least + part_after(most - least, at.byte, end);
        let rest = u64::from(now).wrapping_sub(bits.halvings()) % HALVINGS_MODULUS;
        bits.frequency() >> nearest_with_rest(guess, rest, most).min(7)
    }

    /// How many entries were evicted since the main log's oldest entry was appended.
    pub(super) fn idle_at_main_tail(&self) -> Option<u64> {
        let tail = self.tail(LogKind::Main)?;
        let (closed, end) = self.closed(tail.segment)?;
        let closed = closed & CLOCK_MASK;
        let opened = self.arena().note(tail.segment, note::OPENED) & CLOCK_MASK;
        let within = part_after(closed.saturating_sub(opened), tail.byte, end);
        Some((self.word(shard::CLOCK).saturating_sub(closed)).saturating_add(within))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halvings_are_the_nearest_number_with_the_rest() {
        for passed in 0..40u64 {
            for error in -1i64..=1 {
                let guess = passed.saturating_add_signed(error);
                assert_eq!(nearest_with_rest(guess, passed % HALVINGS_MODULUS, 100), passed);
            }
        }
        assert_eq!(nearest_with_rest(3, 3, 3), 3);
        assert_eq!(nearest_with_rest(7, 1, 7), 5);
    }

    #[test]
    fn a_part_of_a_segment_is_a_part_of_its_time() {
        assert_eq!(part_after(100, 0, 4000), 100);
        assert_eq!(part_after(100, 3000, 4000), 25);
        assert_eq!(part_after(u64::MAX, 5, 0), 0);
    }
}
