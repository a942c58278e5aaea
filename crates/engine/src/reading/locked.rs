//! Finding and copying an entry under its shard's lock. Must not know why it is wanted.

use super::buffer::Buffer;
use crate::error::{lengthen, Result};
use crate::eviction::Eviction;
use crate::format::{flag, shard, KeyHash, Position, RecordHeader, Slot};
use crate::index::Found;
use crate::invalidation::{state_at, State};
use crate::storage::{with_scratch, RECORD_BYTES};

layer! {
    /// A locked shard whose entries are looked up.
    Entries(Eviction<'a>)
}

/// An entry found under the lock.
#[derive(Clone, Copy)]
pub struct Live {
    /// Its slot.
    pub found: Found,
    /// Where its record begins.
    pub position: Position,
    /// Its record header.
    pub header: RecordHeader,
    /// Whether it is missing for all who do not ask for stale entries.
    pub is_stale: bool,
}

impl Live {
    /// Where its record begins in the file.
    pub fn offset(&self) -> u64 {
        self.found.slot.offset()
    }
}

impl Entries<'_> {
    /// Finds the entry of a key, also a stale one. Removes it and finds nothing if it is missing.
    #[inline(always)]
    pub fn find_kept(&self, key: &[u8], hash: KeyHash) -> Option<Live> {
        let mut live = self.find_any(key, hash)?;
        let state = state_at(self, live.offset(), &live.header, hash);
        if state != State::Fresh {
            if !self.keep_or_remove(live, hash, state) {
                return None;
            }
            live.is_stale = state == State::Stale;
        }
        Some(live)
    }

    /// Whether an entry that is not fresh is kept. A stale one is; others are removed.
    // By value: for a reference, every write would keep the entry in memory, not in registers.
    #[cold]
    #[inline(never)]
    fn keep_or_remove(&self, live: Live, hash: KeyHash, state: State) -> bool {
        match state {
            State::Fresh | State::Stale => return true,
            State::Missing => self.remove_live(hash, &live, shard::EXPIRATIONS),
            State::Damaged => self.drop_damaged(hash, &live.found, &live.header),
        }
        false
    }

    /// Finds the entry of a key, whatever its state.
    #[inline(always)]
    fn find_any(&self, key: &[u8], hash: KeyHash) -> Option<Live> {
        let mut slots = self.slots_of(hash)?;
        loop {
            let found = slots.next()?;
            // Its lines arrive in parallel then.
            self.region().prefetch(found.slot.offset(), RECORD_BYTES);
            self.cx.prefetch_later_records(found.slot.offset());
            if let Some((position, header)) = self.locate_header(found.slot.offset()) {
                if self.has_key(position, &header, key) {
                    return Some(Live { found, position, header, is_stale: false });
                }
            }
        }
    }

    /// The version of a key's entry, also of one that is missing. None if there is none, or it is
    /// damaged.
    #[cold]
    pub fn last_version(&self, key: &[u8], hash: KeyHash) -> Option<u64> {
        let live = self.find_any(key, hash)?;
        with_scratch(|words| {
            let content = self.load_valid(live.offset(), &live.header, words, hash)?;
            Some(live.header.version(content))
        })
    }

    /// Removes an entry that has expired or is not wanted any more; `counter` counts that.
    #[inline(never)]
    pub fn remove_live(&self, hash: KeyHash, live: &Live, counter: u64) {
        self.remember_removed(hash, &live.found, &live.header);
        self.remove(hash, &live.found, &live.header);
        self.add_word(counter, 1);
    }

    /// As [`Entries::find_kept`], for callers that need a readable entry or its version: removes it
    /// and finds nothing if it is damaged. Returns the version, too.
    #[inline(never)]
    pub fn find_valid(&self, key: &[u8], hash: KeyHash) -> Option<(Live, u64)> {
        let live = self.find_kept(key, hash)?;
        let version = with_scratch(|words| {
            let content = self.load_valid(live.offset(), &live.header, words, hash)?;
            Some(live.header.version(content))
        });
        if version.is_none() {
            self.drop_damaged(hash, &live.found, &live.header);
        }
        Some(live).zip(version)
    }

    /// Copies an entry and its bodies into a buffer. False if it is damaged; it is removed then.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    pub fn copy_entry(&self, live: &Live, hash: KeyHash, buffer: &mut Buffer) -> Result<bool> {
        let is_copied = self.copy_record(live.offset(), &live.header, hash, buffer)?;
        if !is_copied {
            self.drop_damaged(hash, &live.found, &live.header);
        }
        Ok(is_copied)
    }

    /// Copies the entry that a slot leads to, and its bodies, into a buffer. False if it is
    /// damaged.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    pub fn copy_slot(&self, slot: Slot, buffer: &mut Buffer) -> Result<bool> {
        let Some(header) = self.load_header(slot.offset()) else { return Ok(false) };
        let Some(hash) = self.key_hash_at(slot.offset(), &header) else { return Ok(false) };
        self.copy_record(slot.offset(), &header, hash, buffer)
    }

    fn copy_record(
        &self,
        offset: u64,
        header: &RecordHeader,
        hash: KeyHash,
        buffer: &mut Buffer,
    ) -> Result<bool> {
        lengthen(&mut buffer.record, (header.log_bytes / 8) as usize)?;
        let Some(content) = self.load_valid(offset, header, &mut buffer.record, hash) else {
            return Ok(false);
        };
        let expiry_us = header.expiry_us(&buffer.record, hash).unwrap_or_default();
        (buffer.header, buffer.content, buffer.expiry_us) = (*header, content, expiry_us);
        // Only a long record has attributes or bodies.
        Ok(!header.has(flag::LONG) || buffer.judge(self.cx) && buffer.load_large_value(self.cx)?)
    }
}
