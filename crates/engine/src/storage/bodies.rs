//! The bodies of large values: whole segments outside of the logs, which a record lists. Must not
//! know how they are built.

use std::sync::atomic::Ordering;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::region::fence;
use tuckbox_arena::segments::Owner;
use tuckbox_arena::BRIEF_BYTES;

use super::context::Context;
use super::scratch::with_scratch;
use super::shard::Shard;
use crate::format::{shard, Body, KeyHash, RecordHeader};

impl Context {
    /// The segment of a body; none if it does not exist or is in another use by now.
    pub(crate) fn body_segment(&self, body: Body) -> Option<u32> {
        let segment = u32::try_from(body.segment).ok().filter(|one| self.is_usable(*one))?;
        (self.arena.generation(segment) == body.generation).then_some(segment)
    }

    /// Whether all bodies that a record names exist.
    pub(crate) fn has_bodies(&self, header: &RecordHeader, record: &[u64]) -> bool {
        header.bodies(record).all(|body| self.body_segment(body).is_some())
            && header.body_count <= u64::from(self.arena.segments_present())
    }

    /// Whether a value is too long for the present operation of this thread, which must be brief.
    pub fn is_too_long_now(&self, header: &RecordHeader) -> bool {
        header.value_bytes > BRIEF_BYTES as u64 && self.arena.waiter().brief().is_some()
    }

    /// Copies a large value into the first bytes of `value`, from its bodies and from the rest in
    /// its record. False if a body is no longer what the record says.
    pub fn load_bodies(&self, header: &RecordHeader, record: &[u64], value: &mut [u8]) -> bool {
        let segment_bytes = self.shape.segment_bytes as usize;
        let (bodies, rest) = value.split_at_mut(segment_bytes * header.body_count as usize);
        let load = |(body, target): (Body, &mut [u8])| {
            let segment = body.segment as u32;
            let segment_at = self.arena.geometry().segment_at(segment);
            self.arena.region().copy_out_bytes(segment_at, target);
            fence(Ordering::Acquire);
            self.arena.generation(segment) == body.generation
                && self.hasher.bytes(target) == body.hash
        };
        let mut parts = header.bodies(record).zip(bodies.chunks_exact_mut(segment_bytes));
        let mut is_whole = false;
        self.arena.waiter().finish(&mut || is_whole = parts.all(load));
        if is_whole {
            let tail = header.tail(record, &self.shape);
            rest[..tail.len()].copy_from_slice(tail);
        }
        is_whole
    }
}

impl Shard<'_> {
    /// Frees the bodies of a record to which no slot leads any more. `words` is a copy of the
    /// record.
    pub fn free_bodies(&self, header: &RecordHeader, words: &[u64]) {
        for segment in header.bodies(words).filter_map(|body| self.cx.body_segment(body)) {
            if self.owns(segment) {
                self.end_and_put_back(segment);
                self.subtract_word(shard::BODY_SEGMENTS, 1);
            }
        }
    }

    /// Gives bodies that this process built to the shard, before a slot leads to them.
    pub fn adopt_bodies(&self, bodies: &[Body]) {
        for body in bodies {
            self.arena().transfer_segment(body.segment as u32, Owner::Shard(self.index as u32));
        }
        self.add_word(shard::BODY_SEGMENTS, bodies.len() as u64);
        if !bodies.is_empty() {
            hooks::reach(Point::BodyAdopted);
        }
    }

    /// Frees the bodies of a record to which no slot leads any more. The bodies of a damaged record
    /// may be another entry's: they are left for `check`.
    pub fn free_bodies_at(&self, offset: u64, header: &RecordHeader, hash: KeyHash) {
        if header.body_count == 0 {
            return;
        }
        with_scratch(|words| {
            if self.load_valid(offset, header, words, hash).is_some() {
                self.free_bodies(header, words);
            }
        });
    }
}
