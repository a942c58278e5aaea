//! What proves that an entry that was read is still what a read would find, for callers that keep
//! what they made of it. Must not know what that is.
//!
//! The evidence is the words that the read found: the slot, the shard's epoch and the record's word 0.
//! If all have the same values when they are loaded again, the entry was present when the slot was
//! loaded. Then the shard's count of changes is noted: as long as it is the same, nobody has locked the
//! shard, so nothing in it has changed. Its expiry, and the rows of its tags and namespaces, are
//! compared each time. Why, and which write changes which word: `docs/explanation/concurrency.md`,
//! "The kept proof".

use std::sync::atomic::Ordering;

use tuckbox_arena::region::{View, WORD};
use tuckbox_arena::{mutants, Counter, OwnerId};

use super::buffer::Buffer;
use super::read::Reader;
use super::steps::{FoundAt, Seen};
use crate::format::{expiry, flag, shard, KeyHash, Slot};
use crate::index::ReadersLine;
use crate::invalidation::{rows, Watched};

/// Proves that an entry is current, together with its [`Evidence`]: see [`crate::Cache::is_current`].
/// Six words, because callers keep one for each object, and look for it among many.
#[derive(Debug)]
pub struct Proof {
    /// The shard's count of changes when the evidence was last found to hold; 0 if that was never
    /// noted.
    changes: u64,
    /// Where that count is.
    changes_at: u64,
    /// When the time to live ends, `NEVER_US` if never.
    expiry_us: u64,
    /// The rows of tags and namespaces, and the expiry of a long record. Few entries have any.
    words: Option<Box<[Watched]>>,
    /// Of which open file.
    serial: u32,
    /// Eight bits of the caller's, 0 at first. The proof has room for them.
    pub bits: u8,
}

/// The words by which a read has found an entry. Needed only after a change in the entry's shard.
#[derive(Debug)]
pub struct Evidence {
    found: FoundAt,
    hash: KeyHash,
}

/// A proof and its evidence.
pub type Proved = (Proof, Evidence);

/// The eras of namespaces, and the words that change when one of them ends.
#[derive(Debug, Default)]
pub struct WatchedEras {
    pub(crate) serial: u64,
    pub(crate) words: Vec<Watched>,
    /// The eras, in the order of the namespaces.
    pub eras: Vec<u64>,
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
    ) -> Option<Proved> {
        let found = buffer.found_at.take()?;
        let mut words = match eras {
            None => Vec::new(),
            Some(eras) if eras.serial == self.serial => eras.words.clone(),
            Some(_) => return None,
        };
        // Files opened later than so many others have no proofs.
        let serial = u32::try_from(self.serial).ok()?;
        let header = buffer.header;
        if header.has(flag::LONG) {
            if header.has(flag::EXPIRY) {
                words.push((found.slot.offset() + WORD, buffer.record[1]));
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
        let proof = Proof {
            changes: 0,
            changes_at: self.shard_at(hash) + shard::CHANGES,
            expiry_us: buffer.expiry_us,
            words: (!words.is_empty()).then(|| words.into_boxed_slice()),
            serial,
            bits: 0,
        };
        Some((proof, Evidence { found, hash }))
    }

    /// Whether a read would find the entry that was proved. If so, this counts as a hit.
    ///
    /// The count of changes is loaded first. The other words are loaded later (acquire), so that a
    /// change of one of them that came before this read is seen.
    #[inline(always)]
    pub(crate) fn is_current(
        self,
        owner: Option<OwnerId>,
        proof: &mut Proof,
        evidence: &Evidence,
    ) -> bool {
        if u64::from(proof.serial) != self.serial {
            return false;
        }
        let changes = self.arena.region().load(proof.changes_at, Ordering::Acquire);
        let is_same = changes == proof.changes && changes != 0;
        if !is_same && !self.prove_again(owner, changes, proof, evidence) {
            return false;
        }
        if proof.expiry_us != expiry::NEVER_US && !self.is_in_time(proof.expiry_us) {
            return false;
        }
        if let Some(words) = &proof.words {
            if !self.are_unchanged(words) {
                return false;
            }
        }
        if let Some(owner) = owner {
            self.arena.count_read(owner, Counter::Hits);
        }
        true
    }

    /// Whether the evidence holds, after a change in the shard. If so, notes in the proof that it did
    /// at this count of changes, and a hit for the policy. So the policy sees one hit between two
    /// changes of a shard, of each process that keeps the entry.
    #[inline(never)]
    fn prove_again(
        self,
        owner: Option<OwnerId>,
        changes: u64,
        proof: &mut Proof,
        evidence: &Evidence,
    ) -> bool {
        let Evidence { found, hash } = evidence;
        let region = self.arena.region();
        let word: View<'_, 1> = region.view(found.slot_at);
        let slot = Slot(word.load(0, Ordering::Acquire));
        let shard: ReadersLine<'_> = region.view(self.shard_at(*hash) + shard::STATE);
        let epoch = shard.load(shard::readers_word(shard::EPOCH), Ordering::Acquire);
        let first = region.load(found.slot.offset(), Ordering::Acquire);
        let differences = difference(slot.place(), found.slot.place(), "proof-without-slot")
            | difference(epoch, found.epoch, "proof-without-epoch")
            | difference(first, found.first, "proof-without-sequence");
        if differences != 0 {
            return false;
        }
        if first & (flag::EXPIRY | flag::LONG) == flag::EXPIRY {
            // Setting it again changes nothing else.
            let expiry = region.load(found.slot.offset() + WORD, Ordering::Acquire);
            let Some(moment_us) = expiry::moment_us(expiry, *hash) else { return false };
            proof.expiry_us = moment_us;
        }
        // Whoever held the lock then may change more before the count does.
        let is_held = changes & 1 != 0 && !mutants::is_on("proof-while-held");
        proof.changes = if is_held { 0 } else { changes };
        if owner.is_some() {
            self.note_hit(Seen { shard, epoch, word, slot }, *hash);
        }
        true
    }

    /// Whether a time to live that ends at this moment has not ended.
    #[inline(never)]
    fn is_in_time(self, expiry_us: u64) -> bool {
        mutants::is_on("proof-without-clock") || !self.is_expired(expiry_us)
    }

    /// Whether words have the same values.
    #[inline(never)]
    fn are_unchanged(self, words: &[Watched]) -> bool {
        let load = |at| self.arena.region().load(at, Ordering::Acquire);
        mutants::is_on("proof-without-rows")
            || words.iter().all(|(at, proved)| load(*at) == *proved)
    }
}
