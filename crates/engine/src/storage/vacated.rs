//! Segments whose last record leaves: they are freed at once, also from the middle of their log. Must
//! not know why a record leaves.

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::mutants;

use super::shard::Shard;
use crate::format::{log, note, segment_of, Position};

impl Shard<'_> {
    /// Counts a record to which no slot leads any more out of its segments, and frees those that are
    /// dead then. Nothing may read the record or its segments' notes afterwards.
    ///
    /// Its length may be damaged. Then what follows belongs to the record that begins where the
    /// trailer says.
    pub fn vacate(&self, at: Position, log_bytes: u64) {
        let mut rest_bytes = log_bytes.saturating_sub(self.cx.shape.log_bytes - at.byte);
        let Position { mut segment, mut byte } = at;
        loop {
            // Loaded first: the segment's next owner writes a trailer of its own there.
            let crosses = rest_bytes > 0 && self.cx.crossing_byte(segment) == byte;
            let next = if crosses { self.cx.trailer(segment) } else { None };
            self.count_dead(segment);
            let Some((next, generation)) = next else { return };
            if self.arena().generation(next) != generation {
                return;
            }
            rest_bytes = rest_bytes.saturating_sub(self.cx.shape.log_bytes);
            (segment, byte) = (next, 0);
        }
    }

    #[inline(always)]
    fn count_dead(&self, segment: u32) {
        let live = self.arena().note(segment, note::LIVE);
        // A damaged slot or trailer may lead to another shard's segment.
        if live & note::LIVE_RECORDS == 0 || !self.owns(segment) {
            return;
        }
        self.arena().set_note(segment, note::LIVE, live - 1);
        if live & note::LIVE_RECORDS == 1 {
            self.free_dead_segment(segment, segment_of(live >> 32));
        }
    }

    /// Frees a segment in the middle of its log. Not the first one: the tail is there, and leaves it.
    /// Not the last one, where the next record goes.
    ///
    /// A death before the segment is freed: it is the shard's, and no log leads there. The audit
    /// frees it, and writes all links to previous segments again.
    fn free_dead_segment(&self, segment: u32, before: Option<u32>) {
        let kind = self.log_of(segment);
        let (Some(tail), Some(head)) = (self.tail_cursor(kind), self.head_cursor(kind)) else {
            return;
        };
        let (Some(before), Some(next)) = (before, self.next_in_log(segment)) else { return };
        let is_at_end = segment == tail.segment || segment == head.segment;
        if is_at_end || mutants::is_on("dead-segments-stay") {
            return;
        }
        // With damaged links, the segment stays until it is at the tail.
        let is_linked =
            [before, next].iter().all(|one| self.owns(*one) && self.log_of(*one) == kind)
                && self.next_in_log(before) == Some(segment)
                && next != segment
                && next != before;
        if !is_linked {
            return;
        }
        let arena = self.arena();
        arena.set_note(before, note::NEXT, u64::from(next) + 1);
        arena.set_note(before, note::LIVE, arena.note(before, note::LIVE) | note::LIVE_GAP);
        let live = arena.note(next, note::LIVE) & (note::LIVE_RECORDS | note::LIVE_GAP);
        arena.set_note(next, note::LIVE, (u64::from(before) + 1) << 32 | live);
        hooks::reach(Point::SegmentUnlinked);
        self.subtract_word(kind.at() + log::SEGMENTS, 1);
        self.end_and_put_back(segment);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Buffer, Cache, Config, Place, Ttl, Value};

    /// A damaged length claims that a record crosses the end of its segment, where another one does.
    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn a_damaged_length_costs_no_other_entry() {
        let mut cases = 0;
        for (victim, bit) in (10..30u64).flat_map(|key| (0..64).map(move |bit| (key, bit))) {
            let config = Config { size_bytes: 1 << 20, ..Config::default() };
            let cache = Cache::open(&Place::Private, &config).unwrap();
            let keys = 0..145u64;
            for key in keys.clone() {
                cache.set(&key.to_le_bytes(), Value::bytes(&[7; 1_000]), Ttl::Never).unwrap();
            }
            let place_of = |key: u64| {
                let hash = cache.cx.hasher.key(&key.to_le_bytes());
                let live = cache.writes().lock(0).unwrap().find_kept(&key.to_le_bytes(), hash);
                live.map(|live| (live.position, live.header.log_bytes))
            };
            let (at, _) = place_of(victim).unwrap();
            let lengths_at = cache.cx.offset_of(at) + 8;
            let region = cache.cx.arena.region();
            region.set(lengths_at, region.get(lengths_at) ^ 1 << bit);
            let segment_bytes = cache.cx.shape.log_bytes;
            if place_of(victim).is_none_or(|(_, bytes)| at.byte + bytes <= segment_bytes) {
                continue;
            }
            let Some((next, _)) = cache.cx.trailer(at.segment) else { continue };
            cases += 1;
            cache.set(&victim.to_le_bytes(), Value::bytes(b"new"), Ttl::Never).unwrap();
            // All but one with a part in the next segment leave.
            let has_part = |key: &u64| {
                place_of(*key).is_some_and(|(place, bytes)| {
                    let crosses = place.byte + bytes > segment_bytes;
                    place.segment == next || place.segment == at.segment && crosses
                })
            };
            let last: Vec<u64> =
                keys.clone().filter(|key| *key != victim).filter(has_part).collect();
            for key in &last[..last.len() - 1] {
                assert!(cache.delete(&key.to_le_bytes()).unwrap());
            }
            let mut buffer = Buffer::new();
            for key in keys.filter(|key| *key != victim && !last[..last.len() - 1].contains(key)) {
                let entry = cache.get(&key.to_le_bytes(), &mut buffer).unwrap();
                assert!(entry.is_some(), "{key} was lost with {victim}, bit {bit}");
            }
        }
        assert!(cases > 5, "{cases}");
    }
}
