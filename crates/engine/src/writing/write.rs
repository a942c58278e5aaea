//! What a write does under its shard's lock. Must not know when a write is tried again or gives up.
//!
//! The order ensures that a death loses at most the entry being written: the record is complete,
//! then the log head moves behind it, then one store of the slot publishes it. A value of the same
//! size, or of slightly less in a full cache, is rewritten in place, under the record's sequence lock (seqlock) and the shard's intent,
//! so that a hot key does not evict others.

use std::sync::atomic::Ordering;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::mutants;
use tuckbox_arena::region::fence;

use crate::error::{Error, Result};
use crate::eviction::Eviction;
use crate::format::{
    expiry, flag, shard, Body, Draft, KeyHash, LogKind, PolicyBits, Position, RecordHeader,
    RecordPlace, Sequence, Slot,
};
use crate::index::Index;
use crate::reading::{Entries, Live};
use crate::storage::{uncleared, with_scratch, Need, Reservation, RECORD_BYTES};
use crate::value::{Basis, Condition};

/// The result of storing without a new record.
pub enum InPlace {
    /// Finished. Whether the condition held.
    Done(bool),
    /// Nothing was stored: a new record is needed. With the key's present entry, if any.
    NotEnough(Option<Live>),
}

layer! {
    /// A locked shard that is written to.
    Writer(Entries<'a>)
}

impl<'a> From<Index<'a>> for Writer<'a> {
    #[inline(always)]
    fn from(shard: Index<'a>) -> Writer<'a> {
        Writer(Entries(Eviction(shard)))
    }
}

impl Writer<'_> {
    /// Stores a draft if the condition holds and it fits into the existing record.
    #[inline(always)]
    pub fn put_in_place(
        &self,
        key: &[u8],
        draft: &mut Draft<'_>,
        condition: Condition<'_>,
    ) -> InPlace {
        match condition {
            // The old entry is replaced, whatever it holds.
            Condition::Always => self.put_over(self.find_kept(key, draft.hash), draft),
            _ => self.put_in_place_if(key, draft, condition),
        }
    }

    #[inline(never)]
    fn put_in_place_if(
        &self,
        key: &[u8],
        draft: &mut Draft<'_>,
        condition: Condition<'_>,
    ) -> InPlace {
        if let Condition::Unchanged(basis) = condition {
            if !self.is_unchanged(key, draft.hash, basis) {
                return InPlace::Done(false);
            }
        }
        let (live, version) = match self.find_valid(key, draft.hash) {
            Some((live, version)) => (Some(live), version),
            None => (None, 0),
        };
        let is_present = live.as_ref().is_some_and(|live| !live.is_stale);
        let holds = match condition {
            Condition::Always | Condition::Unchanged(_) => true,
            Condition::Absent => !is_present,
            Condition::Present => is_present,
            Condition::Version(wanted) => is_present && version == wanted,
        };
        match holds {
            true => self.put_over(live, draft),
            false => InPlace::Done(false),
        }
    }

    /// Stores a draft in the place of the key's present entry, if there is one and it fits.
    #[inline(always)]
    fn put_over(&self, live: Option<Live>, draft: &mut Draft<'_>) -> InPlace {
        if let Some(live) = &live {
            if draft.takes_over.is_any() {
                self.take_over(*live, draft);
            }
            self.sample_overwrite(draft.hash, draft.header());
            if self.can_rewrite(live, draft) {
                if draft.header().log_bytes != live.header.log_bytes {
                    draft.stretch(live.header.log_bytes);
                }
                self.rewrite(live, draft);
                self.add_word(shard::SETS, 1);
                return InPlace::Done(true);
            }
        }
        InPlace::NotEnough(live)
    }

    // By value: for a reference, every write would keep the entry in memory, not in registers.
    #[cold]
    #[inline(never)]
    pub(super) fn take_over(&self, live: Live, draft: &mut Draft<'_>) {
        if draft.takes_over.expiry {
            self.keep_expiry(&live, draft);
        }
        if draft.takes_over.position {
            self.keep_position(&live, draft);
        }
    }

    /// Gives a draft the expiry of the present entry, unless that is stale.
    fn keep_expiry(&self, live: &Live, draft: &mut Draft<'_>) {
        let expiry_us = self.expiry_us_at(live.offset(), &live.header, draft.hash);
        let Some(expiry_us) = expiry_us.filter(|_| !live.is_stale) else { return };
        let expiry_us = match expiry_us {
            expiry::NEVER_US => expiry_us,
            // Without the time for which the old one would be kept as a stale one, and with that of
            // the new one.
            expiry_us => expiry_us
                .saturating_sub(self.stale_us_at(live.offset(), &live.header))
                .saturating_add(draft.stale_us())
                .min(crate::EXPIRY_US_MAX),
        };
        draft.set_expiry(expiry_us);
    }

    /// Gives a draft the position of the present entry; the next one if that entry is damaged.
    fn keep_position(&self, live: &Live, draft: &mut Draft<'_>) {
        let position = with_scratch(|words| {
            self.load_valid(live.offset(), &live.header, words, draft.hash)?;
            live.header.attributes(words).ok().flatten()?.position
        });
        let position = position.filter(|_| !mutants::is_on("position-renewed"));
        draft.set_position(position.unwrap_or_else(|| self.cx.next_position()));
    }

    /// How long the entry at a place is kept as a stale one; 0 if not at all.
    pub(crate) fn stale_us_at(&self, offset: u64, header: &RecordHeader) -> u64 {
        if !header.has(flag::LONG) {
            return 0;
        }
        with_scratch(|words| {
            let is_loaded = self.load_part(offset, header.key_at, words);
            let attributes = if is_loaded { header.attributes(words).ok().flatten() } else { None };
            attributes.map_or(0, |attributes| attributes.stale_us)
        })
    }

    /// Whether a value that was made on this basis may be stored now. An entry that is missing may
    /// have been evicted or have expired: its removal on request would have moved the counter.
    #[cold]
    fn is_unchanged(&self, key: &[u8], hash: KeyHash, basis: &Basis) -> bool {
        // Before it is collected: an entry that was stored since may have expired already.
        let last = self.last_version(key, hash);
        (self.invalidations(hash) == basis.invalidations || mutants::is_on("no-lease-counter"))
            && (self.word(shard::EPOCH) == basis.epoch || mutants::is_on("no-lease-epoch"))
            && (last.is_none() || last == basis.version || mutants::is_on("no-lease-version"))
    }

    /// Stores a draft as a new record, replacing the key's present one if there is one. None if
    /// there is no space for it: entries have to be evicted first.
    pub(crate) fn put(
        &self,
        draft: &mut Draft<'_>,
        live: Option<&Live>,
        bodies: &[Body],
        need: Need,
    ) -> Option<()> {
        debug_assert_eq!(bodies.len() as u64, draft.header().body_count);
        let kind = self.log_for(draft, live);
        let old_kind = live.map(|live| self.log_of(live.position.segment));
        let mut header = *draft.header();
        if live.is_none() {
            self.ask_for_ghost(draft.hash);
            if draft.takes_over.position {
                draft.set_position(self.cx.next_position());
            }
        }
        let old_bytes = match live {
            Some(live) if old_kind == Some(LogKind::Pinned) => live.header.log_bytes,
            _ => 0,
        };
        if kind == LogKind::Pinned && !self.may_stay(header.log_bytes.saturating_sub(old_bytes)) {
            return None;
        }
        let kept = live.map(|live| {
            let bits = match self.cx.shape.evicts {
                true => self.kept_entry_bits(Slot(self.region().get(live.found.at))),
                false => live.found.slot.policy(),
            };
            (live, bits)
        });
        let replaced = match kept {
            Some((live, bits)) if kind == LogKind::Pinned || old_kind == Some(kind) => {
                self.replaced_place(kind, live.position, &header, bits)
            }
            _ => None,
        };
        let mut reservation = Reservation::new(kind, header.log_bytes);
        match &replaced {
            Some(place) if place.log_bytes > header.log_bytes => {
                draft.stretch(place.log_bytes);
                header = *draft.header();
            }
            Some(_) => {}
            None if !self.reserve(&mut reservation, need) => return None,
            None => {}
        }
        let position = replaced.as_ref().map_or(reservation.position, |place| place.position);
        let to = self.cx.offset_of(position);
        self.region().prefetch(to, header.log_bytes.min(RECORD_BYTES));
        let slot_at = match live {
            Some(live) => Some(live.found.at),
            None => self
                .make_slot(draft.hash, self.entries() + 1)
                .or_else(|| self.evict_from_bucket(draft.hash)),
        };
        let Some(slot_at) = slot_at else {
            // A key that is there has its slot, so this is no place of a replaced record.
            self.cancel(&mut reservation);
            return None;
        };
        let bits = match kept {
            Some((_, bits)) => bits,
            None if kind == LogKind::Pinned => PolicyBits::default(),
            None => self.new_entry_bits(draft.hash, &header),
        };
        let place = self.cx.record_place(position);
        if kind == LogKind::Pinned {
            self.note_expiry(draft.expiry_us());
        }
        let version = self.next_version();
        let slot = Slot::new(place.offset, draft.hash.tag(), bits);
        if mutants::is_on("early-publication") {
            self.store_slot(slot_at, slot);
        }
        let (content, present) = self.write_unsummed(position, draft);
        let words = draft.seal(content, version, place, &self.cx.hasher);
        match &replaced {
            Some(place) => self.write_over(place, words, present),
            None => self.append(&reservation, words, present),
        }
        self.adopt_bodies(bodies);
        self.store_slot(slot_at, slot);
        if let Some((old, old_kind)) = live.zip(old_kind) {
            hooks::reach(Point::EntryReplaced);
            let has_bodies = old.header.body_count + header.body_count > 0;
            // Otherwise the counts stay, and their line in other processors' caches.
            if old_kind != kind || old.header.log_bytes != header.log_bytes || has_bodies {
                self.count_out(old_kind, &old.header);
                self.count_in(kind, &header);
            }
            self.free_bodies_at(old.offset(), &old.header, draft.hash);
            self.retire(old.offset());
            self.vacate_replaced(old_kind, old.position, &old.header);
        } else {
            self.count_in(kind, &header);
        }
        Some(())
    }

    /// The log for a draft. Entries that are never evicted have one of their own.
    #[inline(always)]
    fn log_for(&self, draft: &Draft<'_>, live: Option<&Live>) -> LogKind {
        if draft.stays {
            return LogKind::Pinned;
        }
        match live.map(|live| self.log_of(live.position.segment)) {
            Some(LogKind::Main) => LogKind::Main,
            Some(LogKind::Small | LogKind::Pinned) | None => LogKind::Small,
        }
    }

    /// Whether a draft fits into the existing record: same form and length, or with slack, within one
    /// segment, of the log that is for it.
    #[inline(always)]
    fn can_rewrite(&self, live: &Live, draft: &Draft<'_>) -> bool {
        let (old, new) = (&live.header, draft.header());
        old.sequence.flags() == new.sequence.flags()
            && (old.body_count, new.body_count) == (0, 0)
            && (old.log_bytes == new.log_bytes || self.fits_with_slack(live, draft))
            && live.position.byte + old.log_bytes <= self.cx.shape.log_bytes
            && (!new.has(flag::LONG) || self.is_in_its_log(*live, draft))
    }

    /// Whether a draft fits into the existing record with slack. Not while all entries fit: then the log
    /// head is in memory that was used just before.
    #[inline(always)]
    fn fits_with_slack(&self, live: &Live, draft: &Draft<'_>) -> bool {
        let (old, new) = (&live.header, draft.header());
        new.log_bytes < old.log_bytes
            && old.log_bytes <= new.log_bytes_max()
            && self.word(shard::CLOCK) > 0
            && self.may_get_slack(*live, draft.hash)
    }

    /// Whether a record may be rewritten with slack. Not one that stays: whoever stores a shorter value
    /// there may need the space. Nor a damaged one, whose length may reach into others.
    // By value, as in `take_over`.
    #[inline(never)]
    fn may_get_slack(&self, live: Live, hash: KeyHash) -> bool {
        self.log_of(live.position.segment) != LogKind::Pinned
            && with_scratch(|words| {
                let words = uncleared(words, (live.header.log_bytes / 8) as usize);
                self.copy_valid(live.offset(), &live.header, words, hash).is_some()
            })
    }

    // By value, as in `take_over`.
    #[cold]
    #[inline(never)]
    fn is_in_its_log(&self, live: Live, draft: &Draft<'_>) -> bool {
        self.log_for(draft, Some(&live)) == self.log_of(live.position.segment)
    }

    /// Writes a draft into the existing record.
    #[inline(always)]
    fn rewrite(&self, live: &Live, draft: &mut Draft<'_>) {
        let offset = live.offset();
        if draft.stays {
            self.note_expiry(draft.expiry_us());
        }
        let version = self.next_version();
        let generation = self.arena().generation(live.position.segment);
        self.begin_rewrite(live.found.at, offset, draft.sequence(version).0);
        // First a half, if a test may stop there.
        if hooks::ARE_REACHED {
            let words = draft.words();
            self.region().copy_in(offset + 8, &words[1..words.len().div_ceil(2)]);
        }
        hooks::reach(Point::RewriteHalf);
        let (content, present) = self.write_unsummed(live.position, draft);
        let place = RecordPlace { offset, generation };
        let words = draft.seal(content, version, place, &self.cx.hasher);
        if present > 1 {
            self.region().copy_in(offset + 8, &words[1..present]);
        }
        self.end_rewrite(offset, words[0]);
    }

    /// Writes a draft but for its word 0 into its place, if it is not summed yet and lies in one segment.
    /// Returns the sum of its content, and from which word on the words are written.
    #[inline(always)]
    fn write_unsummed(&self, at: Position, draft: &Draft<'_>) -> (u64, usize) {
        let (header, words) = (draft.header(), draft.words());
        if let Some(content) = draft.content() {
            return (content, words.len());
        }
        if at.byte + header.log_bytes > self.cx.shape.log_bytes {
            return (header.content(words), words.len());
        }
        let (offset, from) = (self.cx.offset_of(at), header.content_from());
        // After word 0 became busy; see `Shard::write_over`.
        fence(Ordering::Release);
        if from == 2 {
            self.region().set(offset + 8, words[1]);
        }
        (self.region().copy_in_summed(offset + 8 * from as u64, &words[from..]), 1)
    }

    #[inline(always)]
    fn begin_rewrite(&self, intent: u64, offset: u64, sequence: u64) {
        self.set_word(shard::INTENT, intent);
        fence(Ordering::Release);
        if !mutants::is_on("no-busy") {
            self.region().store(offset, Sequence(sequence).with_busy().0, Ordering::Release);
        }
        fence(Ordering::Release);
        hooks::reach(Point::RewriteBegun);
    }

    #[inline(always)]
    fn end_rewrite(&self, offset: u64, sequence: u64) {
        self.region().store(offset, sequence, Ordering::Release);
        self.set_word(shard::INTENT, 0);
    }

    /// Adds to the number of an entry, in place. None if the entry is damaged; it is removed then.
    ///
    /// The race: a death between the two stores. The sum goes to the shard first, and word 0 holds
    /// the checksum of the finished record while it is busy, so the next owner of the lock can
    /// finish it.
    ///
    /// # Errors
    /// [`Error::NotAnInteger`], [`Error::Overflow`].
    pub fn add_to_number(&self, live: &Live, hash: KeyHash, delta: i64) -> Result<Option<i64>> {
        let offset = live.offset();
        with_scratch(|words| {
            let header = &live.header;
            if self.load_valid(offset, header, words, hash).is_none() {
                self.drop_damaged(hash, &live.found, header);
                return Ok(None);
            }
            if !header.has(flag::NUMBER) {
                return Err(Error::NotAnInteger);
            }
            let current = header.number(words);
            let sum = current.checked_add(delta).ok_or(Error::Overflow { current, delta })?;
            let number_at = header.number_at();
            words[number_at as usize / 8] = sum as u64;
            let after = Sequence::new(self.next_version(), header.sequence.flags());
            let place = self.cx.record_place(live.position);
            let content = header.content(words);
            header.with_sequence(after).seal(words, content, &self.cx.hasher, hash, place);
            self.set_word(shard::INTENT_SUM, sum as u64);
            self.begin_rewrite(live.found.at | shard::INTENT_NUMBER, offset, words[0]);
            hooks::reach(Point::RewriteHalf);
            self.region().store(offset + number_at, sum as u64, Ordering::Release);
            self.end_rewrite(offset, words[0]);
            Ok(Some(sum))
        })
    }

    /// Gives an entry another time to live. It is kept as a stale one as long as before. None if there was no space for a longer record, or the entry
    /// was damaged and was removed.
    pub fn set_expiry(&self, live: &Live, hash: KeyHash, expiry_us: Option<u64>) -> Option<()> {
        let stale_us = self.stale_us_at(live.offset(), &live.header);
        let expiry_us = expiry_us.map(|us| us.saturating_add(stale_us).min(crate::EXPIRY_US_MAX));
        if self.log_of(live.position.segment) == LogKind::Pinned {
            self.note_expiry(expiry_us.unwrap_or(expiry::NEVER_US));
        }
        if live.header.has(flag::EXPIRY) {
            // The race: a reader loads the expiry during this store, or the writer dies. It is one
            // word with its own check, so both see the old or the new expiry.
            let word = expiry::word(expiry_us.unwrap_or(expiry::NEVER_US), hash);
            self.region().store(live.offset() + 8, word, Ordering::Release);
            return Some(());
        }
        let Some(expiry_us) = expiry_us else { return Some(()) };
        with_scratch(|words| {
            let offset = live.offset();
            let Some(content) = self.load_valid(offset, &live.header, words, hash) else {
                // The caller looks again, and finds nothing.
                self.drop_damaged(hash, &live.found, &live.header);
                return None;
            };
            // Does not allocate: see `reserve_scratch`.
            words.insert(1, expiry::word(expiry_us, hash));
            words[0] |= flag::EXPIRY;
            let header = RecordHeader::from_copy(words, &self.cx.shape)?;
            words.truncate((header.log_bytes / 8) as usize);
            let kind = self.log_of(live.position.segment);
            if kind == LogKind::Pinned && !self.may_stay(8) {
                return None;
            }
            let mut reservation = Reservation::new(kind, header.log_bytes);
            if !self.reserve(&mut reservation, Need::NewRecord) {
                return None;
            }
            let bits = self.kept_entry_bits(Slot(self.region().get(live.found.at)));
            self.relocate(&live.found, &header, (words, content), hash, &reservation, bits);
            // Its bodies do not move.
            self.count_out(kind, &live.header);
            self.count_in(kind, &header);
            self.vacate(live.position, live.header.log_bytes);
            Some(())
        })
    }
}
