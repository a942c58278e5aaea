//! The single steps of a lock-free read: each loads or checks one thing. Owns the order of the loads
//! within a step, and the points at which tests stop a read or break a step. Must not know how a read
//! continues; that is in [`super::read`].

use std::sync::atomic::Ordering;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::mutants;
use tuckbox_arena::region::{fence, SegmentSlice, View};

use crate::format::{
    flag, shard, Hasher, KeyHash, RecordHeader, RecordPlace, Sequence, Slot, TRAILER_BYTES,
};
use crate::index::{Lookup, ReadersLine, TaggedSlot};
use crate::storage::RECORD_START_WORDS;

/// A slot as a reader loaded it, and where.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// The readers' cache line of its shard.
    pub shard: ReadersLine<'a>,
    /// The shard's epoch when the bucket was searched.
    pub epoch: u64,
    /// The slot's word in the file.
    pub word: View<'a, 1>,
    /// The value of that word.
    pub slot: Slot,
}

impl<'a> Seen<'a> {
    /// A slot that was just loaded.
    #[inline(always)]
    pub fn new(found: TaggedSlot<'a>, shard: ReadersLine<'a>, epoch: u64) -> Seen<'a> {
        hooks::reach(Point::SlotLoaded);
        Seen { shard, epoch, word: found.word, slot: found.slot }
    }

    /// Whether the slot still leads to the same record.
    #[inline(always)]
    pub fn is_still(&self) -> bool {
        Slot(self.word.load(0, Ordering::Acquire)).is_same_place(self.slot)
    }
}

/// The words by which a read has found a record.
#[derive(Debug, Clone, Copy)]
pub struct FoundAt {
    /// Where its slot is.
    pub slot_at: u64,
    /// The value of that word.
    pub slot: Slot,
    /// The shard's epoch.
    pub epoch: u64,
    /// Word 0 of the record; not busy.
    pub first: u64,
}

/// A record that a slot led to at one moment, and what was loaded of it then.
#[derive(Clone, Copy)]
pub struct Located<'a> {
    /// The record and what follows it in its segment.
    pub record: SegmentSlice<'a>,
    /// The generation word of its segment.
    pub use_of_segment: View<'a, 1>,
    /// Its place, with the value of that word.
    pub place: RecordPlace,
    /// The record's first words, and the value of word 0.
    pub start: View<'a, RECORD_START_WORDS>,
    /// See above.
    pub first: u64,
}

impl Located<'_> {
    /// The same with known flags, for the compiler.
    #[inline(always)]
    pub fn with_flags(self, flags: u64) -> Self {
        debug_assert_eq!(Sequence(self.first).flags(), flags);
        Located { first: self.first & !flag::ALL | flags, ..self }
    }
}

/// A record in a buffer that stayed in its place until the copy was complete.
#[derive(Clone, Copy)]
pub struct Copied {
    /// The parsed record header.
    pub header: RecordHeader,
    /// The sum of its content.
    pub content: u64,
    /// Its place.
    pub place: RecordPlace,
}

/// Why a record was not copied.
pub enum CopyError {
    /// Something changed meanwhile.
    Changed,
    /// Nothing changed, but this is no valid record.
    Damaged,
    /// Not enough memory to copy this many bytes.
    NoMemory(usize),
}

/// The result of copying a record.
pub type CopyResult<T> = std::result::Result<T, CopyError>;

/// The shard's line for readers, with its index state and epoch.
#[inline(always)]
pub fn load_state(lookup: Lookup<'_>, shard_at: u64) -> (ReadersLine<'_>, u64, u64) {
    let loaded = lookup.readers_line(shard_at);
    hooks::reach(Point::StateLoaded);
    loaded
}

/// As [`load_state`], after a slot led to another key.
#[inline(always)]
pub fn load_state_again(lookup: Lookup<'_>, shard_at: u64) -> (ReadersLine<'_>, u64, u64) {
    hooks::reach(Point::OtherKeyFound);
    lookup.readers_line(shard_at)
}

/// Loads the slot again of a record that is not plain, or could not be read. None if it is empty by
/// now or has another tag.
#[inline(always)]
pub fn load_slot_again<'a>(
    lookup: Lookup<'a>,
    hash: KeyHash,
    word: View<'a, 1>,
    epoch: u64,
) -> Option<Seen<'a>> {
    hooks::reach(Point::RareRecordFound);
    let shard = lookup.0.arena.region().view(lookup.shard_at(hash) + shard::STATE);
    let slot = Slot(word.load(0, Ordering::Acquire));
    if slot.is_empty() || slot.tag() != hash.tag() {
        return None;
    }
    Some(Seen::new(TaggedSlot { word, slot }, shard, epoch))
}

/// Whether no entry changed its bucket since the state and the epoch were loaded.
#[inline(always)]
pub fn is_same_state(shard: ReadersLine<'_>, state: u64, epoch: u64) -> bool {
    hooks::reach(Point::ProbeMissed);
    fence(Ordering::Acquire);
    shard.get(shard::readers_word(shard::STATE)) == state
        && shard.get(shard::readers_word(shard::EPOCH)) == epoch
        || mutants::is_on("no-state-check")
}

/// Whether the slot still leads to the same record, in the same epoch: the second slot load.
#[inline(always)]
pub fn is_confirmed(seen: Seen<'_>) -> bool {
    let is_same = seen.is_still() || mutants::is_on("one-slot-load");
    let is_epoch = seen.shard.load(shard::readers_word(shard::EPOCH), Ordering::Acquire)
        == seen.epoch
        || mutants::is_on("no-epoch-check");
    if !is_same || !is_epoch {
        return false;
    }
    hooks::reach(Point::SlotConfirmed);
    true
}

/// Whether a record has this key. False also if its key continues in another segment. If the bytes
/// there are the key's by chance, the checksum fails.
#[inline(always)]
pub fn has_key(located: &Located<'_>, header: &RecordHeader, key: &[u8]) -> bool {
    header.key_bytes == key.len() as u64 && located.record.holds(header.key_at, key)
}

/// Copies a record that lies in one segment, and returns the sum of its content; none if it
/// continues in another segment.
#[inline(always)]
pub fn copy(located: &Located<'_>, header: &RecordHeader, words: &mut [u64]) -> Option<u64> {
    located.record.copy_out_summed(words, header.content_from(), TRAILER_BYTES)
}

/// Whether a record was in its place, unchanged, since it was located.
#[inline(always)]
pub fn is_still(located: &Located<'_>) -> bool {
    if !mutants::is_on("no-acquire-fence") {
        fence(Ordering::Acquire);
    }
    located.start.get(0) == located.first
        && located.use_of_segment.load(0, Ordering::Acquire) == located.place.generation
}

/// As [`is_still`], once the record is copied.
#[inline(always)]
pub fn is_still_after_copy(located: &Located<'_>) -> bool {
    hooks::reach(Point::RecordCopied);
    is_still(located)
}

/// Whether a copied record has the checksum of this place and a key with this hash.
#[inline(always)]
pub fn has_its_checksum(copied: &Copied, hasher: &Hasher, hash: KeyHash) -> bool {
    let Copied { header, content, place } = *copied;
    mutants::is_on("no-checksum")
        || header.sequence.checksum() == header.checksum(content, hasher, hash, place)
}
