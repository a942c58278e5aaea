//! Where a read copies an entry to. Must not know how the entry was found.

use std::any::Any;
use std::fmt;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::Waiter;

use super::steps::FoundAt;
use crate::error::{lengthen, would_block, Error, Result};
use crate::format::{expiry, flag, KeyHash, RecordHeader, Shape};
use crate::invalidation::{rows, State};
use crate::storage::Context;
use crate::value::{Entry, FullEntry, Tags, Value};

/// Where reads copy entries to. Reuse it: it grows to the largest record read and never shrinks.
#[derive(Default)]
pub struct Buffer {
    pub(crate) header: RecordHeader,
    /// When the entry's time to live ends, [`expiry::NEVER_US`] if never. 0 if it is missing for all
    /// who do not ask for stale entries.
    pub(crate) expiry_us: u64,
    /// The sum of the record's content.
    pub(crate) content: u64,
    pub(crate) record: Vec<u64>,
    /// The value, if it is longer than a segment and not in the output buffer.
    pub(crate) value: Vec<u8>,
    /// The error of the last read. Stored here because errors are large, and boxing one would
    /// allocate.
    pub(crate) refusal: Option<Error>,
    /// Where a read that proves its entry has found it.
    pub(super) found_at: Option<FoundAt>,
    output: Option<Box<dyn OutputBuffer>>,
    is_in_output: bool,
}

/// A buffer supplied by the caller for values longer than a segment, which saves a second copy.
pub trait OutputBuffer: Send {
    /// Whether it accepts values with this tag.
    fn accepts(&self, tag: u8) -> bool;

    /// Allocates memory for a value of `len_bytes` and has it filled by one call of `fill`; whether
    /// that succeeded. Discards the previous value.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    fn receive(
        &mut self,
        len_bytes: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<bool>;

    /// The last value.
    fn bytes(&self) -> &[u8];

    /// For downcasts by [`Buffer::output`].
    fn as_any(&mut self) -> &mut dyn Any;
}

impl Buffer {
    /// An empty buffer.
    pub fn new() -> Buffer {
        Buffer::default()
    }

    /// An empty buffer with the caller's memory for large values. Lock-free reads of a key use it;
    /// reads under a lock and scans copy into the buffer.
    pub fn with_output(output: Box<dyn OutputBuffer>) -> Buffer {
        Buffer { output: Some(output), ..Buffer::default() }
    }

    /// The output buffer, if it has this type.
    pub fn output<T: OutputBuffer + 'static>(&mut self) -> Option<&mut T> {
        self.output.as_mut()?.as_any().downcast_mut()
    }

    /// The length of the value of the last entry.
    pub fn value_bytes(&self) -> usize {
        self.header.value_bytes as usize
    }

    /// The error of the last read.
    #[cold]
    pub(crate) fn take_refusal(&mut self) -> Error {
        self.refusal.take().expect("a read that is refused says why")
    }

    /// Makes sure that the buffer can hold a large value.
    fn reserve_value(&mut self, header: &RecordHeader, waiter: &dyn Waiter) -> Result<()> {
        self.is_in_output = false;
        let (value, len_bytes) = (&mut self.value, header.value_bytes as usize);
        let mut reserved = Ok(());
        // It also clears the memory, which takes half a millisecond for each MiB.
        waiter.finish(&mut || reserved = lengthen(value, len_bytes));
        reserved
    }

    /// Has a large value filled in by a function that gets the record and the memory; whether that
    /// succeeded.
    pub(crate) fn fill_value(
        &mut self,
        waiter: &dyn Waiter,
        mut fill: impl FnMut(&[u64], &mut [u8]) -> bool,
    ) -> Result<bool> {
        let header = self.header;
        let len_bytes = header.value_bytes as usize;
        if let Some(output) = self.output.as_mut().filter(|output| output.accepts(header.tag)) {
            self.is_in_output = true;
            return output.receive(len_bytes, &mut |memory| fill(&self.record, memory));
        }
        self.reserve_value(&header, waiter)?;
        Ok(fill(&self.record, &mut self.value))
    }

    /// Copies what the record in the buffer has in segments of its own, if anything. False if it is
    /// no longer there.
    pub(crate) fn load_large_value(&mut self, cx: &Context) -> Result<bool> {
        let header = self.header;
        if header.body_count == 0 {
            return Ok(true);
        }
        // Checked before memory is allocated: a damaged list may name more segments than there are.
        if !cx.has_bodies(&header, &self.record) {
            return Ok(false);
        }
        if cx.is_too_long_now(&header) {
            return Err(would_block());
        }
        self.reserve_value(&header, cx.arena.waiter())?;
        Ok(cx.load_bodies(&header, &self.record, &mut self.value))
    }

    /// Sets the end of the time to live of a long record whose expiry is set. False if its attributes
    /// are damaged.
    #[inline(never)]
    pub(crate) fn judge(&mut self, cx: &Context) -> bool {
        match self.header.attributes(&self.record) {
            Ok(None) => {}
            Ok(Some(attributes)) => {
                hooks::reach(Point::RecordVerified);
                let (state, fresh_end_us) = rows(cx).judge(&attributes, self.expiry_us);
                self.expiry_us = if state == State::Fresh { fresh_end_us } else { 0 };
            }
            Err(_) => return false,
        }
        true
    }

    /// Judges the record in the buffer again. Whether it is stale; none if it is missing. Sets the end of
    /// the time to live also if that has passed.
    pub(crate) fn judge_full(&mut self, cx: &Context, hash: KeyHash) -> Option<bool> {
        let expiry_us = self.header.expiry_us(&self.record, hash)?;
        if cx.is_expired(expiry_us) {
            return None;
        }
        self.expiry_us = expiry_us;
        let Some(attributes) = self.header.attributes(&self.record).ok()? else {
            return Some(false);
        };
        let (state, fresh_end_us) = rows(cx).judge(&attributes, expiry_us);
        self.expiry_us = fresh_end_us;
        match state {
            State::Fresh => Some(false),
            State::Stale => Some(true),
            State::Missing | State::Damaged => None,
        }
    }

    /// The entry that was read, with its attributes.
    pub(crate) fn full_entry(&self, shape: &Shape, is_stale: bool) -> FullEntry<'_> {
        let attributes = self.header.attributes(&self.record).ok().flatten();
        FullEntry {
            entry: self.entry(shape),
            tags: attributes.map_or(Tags::default(), |attributes| attributes.tags),
            is_stale,
            made_us: attributes.and_then(|attributes| attributes.made_us),
            is_pinned: attributes.is_some_and(|attributes| attributes.is_pinned),
        }
    }

    /// For how many microseconds after its time to live the entry that was read is kept as a stale one.
    pub(crate) fn stale_us(&self) -> u64 {
        let attributes = self.header.attributes(&self.record).ok().flatten();
        attributes.map_or(0, |attributes| attributes.stale_us)
    }

    /// The position of the entry that was read; 0 if it has none.
    pub(super) fn inserted_at(&self) -> u64 {
        let attributes = self.header.attributes(&self.record).ok().flatten();
        attributes.and_then(|attributes| attributes.position).unwrap_or(0)
    }

    /// The bytes of a large value, and whether they are in the output buffer.
    pub(crate) fn large_value(&self) -> (&[u8], bool) {
        match &self.output {
            Some(output) if self.is_in_output => (output.bytes(), true),
            _ => (&self.value[..self.header.value_bytes as usize], false),
        }
    }

    /// Space for a record of this many words; none if there is no memory for it.
    #[inline(always)]
    pub(super) fn record_space(&mut self, word_count: usize) -> Option<&mut [u64]> {
        if self.record.len() < word_count {
            lengthen(&mut self.record, word_count).ok()?;
        }
        self.record.get_mut(..word_count)
    }

    /// The entry that was read.
    #[inline(always)]
    pub(crate) fn entry(&self, shape: &Shape) -> Entry<'_> {
        let header = &self.header;
        let mut is_in_output = false;
        let value = if header.has(flag::NUMBER) {
            Value::Int(header.number(&self.record))
        } else if header.body_count != 0 {
            let (bytes, is_output) = self.large_value();
            is_in_output = is_output;
            Value::Bytes { tag: header.tag, bytes }
        } else {
            Value::Bytes { tag: header.tag, bytes: header.tail(&self.record, shape) }
        };
        let expiry_us = (self.expiry_us != expiry::NEVER_US).then_some(self.expiry_us);
        Entry { value, expiry_us, version: header.version(self.content), is_in_output }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Buffer").field("header", &self.header).finish_non_exhaustive()
    }
}
