//! What proves that an entry that was read is still what a read would find, for callers that keep
//! what they made of it. Must not know what that is.
//!
//! The proof is the words that the read found: the slot, the shard's epoch, the record's word 0, and,
//! if the entry has them, its expiry and the rows of its tags and namespaces. If all have the same
//! values when they are loaded again, the entry was present when the slot was loaded. Why, and which
//! write changes which word: `docs/explanation/concurrency.md`, "The kept proof".

use std::sync::atomic::Ordering;

use tuckbox_arena::region::{View, WORD};
use tuckbox_arena::{mutants, Counter, OwnerId};

use super::buffer::Buffer;
use super::read::Reader;
use super::steps::FoundAt;
use crate::eviction::sample_hit;
use crate::format::{expiry, flag, shard, KeyHash, Slot};
use crate::index::ReadersLine;
use crate::invalidation::{rows, Watched};

/// Proves that an entry is current: see [`crate::Cache::is_current`]. Six words, because callers keep
/// one for each object, and look for it among many.
#[derive(Debug)]
pub struct Proof {
    /// Where the slot is, in words, and from bit [`SERIAL_SHIFT`] on in which open file.
    slot_at: u64,
    /// The slot, with the caller's bits in place of the policy's.
    slot: Slot,
    epoch: u64,
    /// Word 0 of the record; not busy.
    first: u64,
    hash: KeyHash,
    /// What few entries have.
    further: Option<Box<Further>>,
}

/// What a long record and a key of a namespace need.
#[derive(Debug)]
struct Further {
    /// When the time to live ends, `NEVER_US` if never. That of other records is taken from the file.
    expiry_us: u64,
    words: Vec<Watched>,
}

/// An offset in words has fewer bits.
const SERIAL_SHIFT: u32 = 40;
/// Files opened later than this many others have no proofs.
const SERIALS: u64 = 1 << (u64::BITS - SERIAL_SHIFT);

/// The eras of namespaces, and the words that change when one of them ends.
#[derive(Debug, Default)]
pub struct WatchedEras {
    pub(crate) serial: u64,
    pub(crate) words: Vec<Watched>,
    /// The eras, in the order of the namespaces.
    pub eras: Vec<u64>,
}

impl Proof {
    /// Eight bits that the caller has set with [`Proof::set_bits`], 0 at first.
    #[inline(always)]
    pub fn bits(&self) -> u8 {
        self.slot.0 as u8
    }

    /// Sets eight bits that mean nothing here. The proof has room for them.
    #[inline(always)]
    pub fn set_bits(&mut self, bits: u8) {
        self.slot = Slot(self.slot.place() | u64::from(bits));
    }
}

/// The bits in which a word differs from the proof's; none if the rule with this name is broken.
#[inline(always)]
fn difference(found: u64, proved: u64, mutant: &str) -> u64 {
    if mutants::is_on(mutant) {
        return 0;
    }
    found ^ proved
}

impl Reader<'_> {
    /// Proves the entry that was just read into the buffer, whose key contains these eras. None if
    /// it was read under the lock, or is no longer current.
    #[inline(never)]
    pub(crate) fn prove(
        self,
        hash: KeyHash,
        eras: Option<&WatchedEras>,
        buffer: &mut Buffer,
    ) -> Option<Proof> {
        let FoundAt { slot_at, slot, epoch, first } = buffer.found_at.take()?;
        let mut words = match eras {
            None => Vec::new(),
            Some(eras) if eras.serial == self.serial => eras.words.clone(),
            Some(_) => return None,
        };
        if self.serial >= SERIALS {
            return None;
        }
        let header = buffer.header;
        if header.has(flag::LONG) {
            if header.has(flag::EXPIRY) {
                words.push((slot.offset() + 8, buffer.record[1]));
            }
            if let Some(attributes) = header.attributes(&buffer.record).ok()? {
                rows(&self).watch_tags(attributes.tags, &mut words);
                // Judged after the rows were loaded: an earlier invalidation shows here, a later one
                // changes what is watched.
                if buffer.judge_full(&self, hash) != Some(false) {
                    return None;
                }
            }
        }
        let expiry_us = buffer.expiry_us;
        let needs_more = header.has(flag::LONG) || !words.is_empty();
        let further = needs_more.then(|| Box::new(Further { expiry_us, words }));
        let slot_at = (self.serial << SERIAL_SHIFT) | (slot_at / WORD);
        Some(Proof { slot_at, slot: Slot(slot.place()), epoch, first, hash, further })
    }

    /// Whether a read would find the entry that was proved. If so, this counts as a hit.
    ///
    /// The slot is loaded first. The other words are loaded later (acquire), so that a change of one
    /// of them that came before this read is seen.
    #[inline(always)]
    pub(crate) fn is_current(self, owner: Option<OwnerId>, proof: &Proof) -> bool {
        if proof.slot_at >> SERIAL_SHIFT != self.serial {
            return false;
        }
        let region = self.arena.region();
        let slot_at = (proof.slot_at & ((1 << SERIAL_SHIFT) - 1)) * WORD;
        let word: View<'_, 1> = region.view(slot_at);
        let slot = Slot(word.load(0, Ordering::Acquire));
        let shard: ReadersLine<'_> = region.view(self.shard_at(proof.hash) + shard::STATE);
        let epoch = shard.load(shard::readers_word(shard::EPOCH), Ordering::Acquire);
        let first = region.load(proof.slot.offset(), Ordering::Acquire);
        let differences = difference(slot.place(), proof.slot.place(), "proof-without-slot")
            | difference(epoch, proof.epoch, "proof-without-epoch")
            | difference(first, proof.first, "proof-without-sequence");
        if differences != 0 {
            return false;
        }
        if proof.first & flag::EXPIRY != 0 && !self.is_in_time(proof) {
            return false;
        }
        if let Some(further) = &proof.further {
            if !self.are_unchanged(&further.words) {
                return false;
            }
        }
        if let Some(owner) = owner {
            self.note_proved_hit(owner, proof, word, slot, shard);
        }
        true
    }

    /// Counts a hit as a read does.
    #[inline(always)]
    fn note_proved_hit(
        self,
        owner: OwnerId,
        proof: &Proof,
        word: View<'_, 1>,
        slot: Slot,
        shard: ReadersLine<'_>,
    ) {
        if let Some(hit) = slot.with_hit() {
            // The race: as in a read, a hit may be lost.
            word.replace(0, slot.0, hit.0);
        }
        let below = shard.get(shard::readers_word(shard::SAMPLED_BELOW));
        if u64::from(proof.hash.first()) < below {
            self.sample_proved_hit(proof, shard);
        }
        self.arena.count_read(owner, Counter::Hits);
    }

    /// Whether the time to live of an entry that has one has not ended.
    #[inline(never)]
    fn is_in_time(self, proof: &Proof) -> bool {
        let moment_us = if proof.first & flag::LONG == 0 {
            // That of the file: if it was set again, that holds.
            let word = self.arena.region().load(proof.slot.offset() + WORD, Ordering::Acquire);
            expiry::moment_us(word, proof.hash)
        } else {
            proof.further.as_ref().map(|further| further.expiry_us)
        };
        mutants::is_on("proof-without-clock")
            || moment_us.is_some_and(|moment_us| !self.is_expired(moment_us))
    }

    /// Whether words have the same values.
    #[inline(never)]
    fn are_unchanged(self, words: &[Watched]) -> bool {
        let load = |at| self.arena.region().load(at, Ordering::Acquire);
        mutants::is_on("proof-without-rows")
            || words.iter().all(|(at, proved)| load(*at) == *proved)
    }

    /// Notes a hit of a sampled key. Its record may be another one by now, which makes no difference
    /// to a sample.
    #[inline(never)]
    fn sample_proved_hit(self, proof: &Proof, shard: ReadersLine<'_>) {
        let Some(record) = self.record_at(proof.slot.offset()) else { return };
        if let Some(header) = self.parse_header(&record.view(), proof.first) {
            sample_hit(&self, shard, proof.hash, &header);
        }
    }
}
