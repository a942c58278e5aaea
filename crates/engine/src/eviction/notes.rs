//! Notes of the hits of sampled keys, which readers leave without a lock. Must not know what the
//! sample is for: see [`super::replay`].

use crate::format::{policy_selection, shard, KeyHash, RecordHeader, Shape};
use crate::index::ReadersLine;
use crate::storage::Context;

/// The highest size of a request, in units of eight bytes.
pub(super) const SIZE_MAX: u64 = u32::MAX as u64;

/// The size of an entry as a request has it.
pub(super) fn size_of(header: &RecordHeader, shape: &Shape) -> u64 {
    (header.total_bytes(shape) / 8).min(SIZE_MAX)
}

/// Notes a hit if its key is sampled. Takes no lock. The size is that of the record at `offset`, which
/// may be another one by now: that makes no difference to a sample.
#[inline(always)]
pub fn sample_hit(cx: &Context, shard: ReadersLine<'_>, hash: KeyHash, offset: u64) {
    let below = shard.get(shard::readers_word(shard::SAMPLED_BELOW));
    if u64::from(hash.first()) < below {
        note_hit(cx, hash, offset);
    }
}

#[cold]
fn note_hit(cx: &Context, hash: KeyHash, offset: u64) {
    let Some(record) = cx.record_at(offset) else { return };
    let start = record.view();
    let Some(header) = cx.parse_header(&start, start.get(0)) else { return };
    let size = size_of(&header, &cx.shape);
    let region = cx.arena.region();
    let at = cx.shape.policy_selection_at(cx.shard_at(hash));
    let count = region.get(at + policy_selection::NOTED_COUNT);
    let place = count % policy_selection::NOTED_LEN;
    let word = hash.0 >> 32 << 32 | size;
    region.set(at + policy_selection::NOTED + place * 8, word);
    region.set(at + policy_selection::NOTED_COUNT, count.wrapping_add(1));
}
