//! The index directory of a shard: the segments that hold its buckets and their ghosts. Must not know
//! what a bucket or a ghost is.
//!
//! Index segments stay index segments while the shard has entries. Ghosts get theirs when there is
//! something to remember.

use tuckbox_arena::region::Table;
use tuckbox_arena::segments::Owner;

use super::context::Context;
use super::shard::Shard;
use crate::format::{shard, IndexState};

/// Every segment is a multiple of this.
const PAGE_BYTES: u64 = 4096;
const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;

/// The index directory of a shard, for several entries with one check.
#[derive(Clone, Copy)]
pub struct Directory<'a>(Table<'a>);

impl Directory<'_> {
    /// The segment in an entry, which need not exist. None if `index` is past the end.
    #[inline(always)]
    pub fn segment(&self, index: u64) -> Option<u64> {
        Some(self.0.get(index)?.wrapping_sub(1))
    }
}

impl Context {
    /// The index directory of a shard.
    #[inline(always)]
    pub fn directory(&self, shard_at: u64) -> Directory<'_> {
        let words =
            self.arena.region().table(shard_at + shard::DIRECTORY, self.shape.directory_len);
        Directory(words)
    }

    /// The offset of a bucket's ghosts; none if they have no segment.
    pub(crate) fn ghosts_at(&self, shard_at: u64, bucket: u32) -> Option<u64> {
        let (index, at) = self.shape.ghosts_place(bucket);
        let segment = self.directory(shard_at).segment(index)?;
        self.is_usable(segment).then(|| self.arena.geometry().segment_at(segment as u32) + at)
    }
}

impl Shard<'_> {
    /// The state of the index.
    #[inline(always)]
    pub fn index_state(&self) -> IndexState {
        IndexState(self.word(shard::STATE))
    }

    /// Number of buckets to walk over, bounded in case the state is damaged.
    pub fn bucket_count(&self) -> u32 {
        self.index_state().buckets().min(self.cx.shape.buckets_max())
    }

    pub fn add_to_index(&self, at: u64, segment: u32) {
        debug_assert_eq!(self.arena().segment_owner(segment), Owner::Shard(self.index as u32));
        self.add_word(shard::INDEX_SEGMENTS, 1);
        self.set_word(at, u64::from(segment) + 1);
    }

    /// Whether the ghosts of a bucket have a segment.
    pub fn has_ghosts_of(&self, bucket: u32) -> bool {
        let (index, _) = self.cx.shape.ghosts_place(bucket);
        index < self.cx.shape.directory_len && self.word(shard::DIRECTORY + index * 8) != 0
    }

    /// Gives the ghosts of a bucket a segment, if they have none and one is available. In a full
    /// file they come before the next segment of a log.
    pub fn open_ghosts(&self, bucket: u32) {
        let (index, _) = self.cx.shape.ghosts_place(bucket);
        if index >= self.cx.shape.directory_len || self.has_ghosts_of(bucket) {
            return;
        }
        if let Some(segment) = self.take_from_pool().or_else(|| self.pop_surplus_spare()) {
            self.wipe(segment);
            self.add_to_index(shard::DIRECTORY + index * 8, segment);
        }
    }

    /// As [`Shard::open_ghosts`], for all buckets.
    pub fn open_all_ghosts(&self) {
        if !self.cx.shape.evicts {
            return;
        }
        let per_group = self.cx.shape.buckets_per_group() as usize;
        (0..self.bucket_count()).step_by(per_group).for_each(|bucket| self.open_ghosts(bucket));
    }

    /// Fills a segment with zeros. Nothing may refer to it.
    pub fn wipe(&self, segment: u32) {
        let at = self.arena().geometry().segment_at(segment);
        let zeros = [0; PAGE_WORDS];
        for page in 0..self.cx.shape.segment_bytes / PAGE_BYTES {
            self.region().copy_in(at + page * PAGE_BYTES, &zeros);
        }
    }
}
