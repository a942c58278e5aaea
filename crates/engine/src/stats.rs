//! What a cache tells about itself. Must not change anything.

use tuckbox_arena::Counter;

use crate::cache::Cache;
use crate::format::{log, shard};
use crate::value::{Settings, Stats};

impl Cache {
    /// Entries present, including expired ones not yet collected.
    pub fn len(&self) -> u64 {
        self.cx.entry_count()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The settings that the file keeps.
    pub fn settings(&self) -> Settings {
        let plan = &self.cx.arena.geometry().plan;
        Settings {
            size_bytes: plan.size_bytes,
            max_entries: self.cx.shape.max_entries,
            favour: self.cx.shape.favour,
            after_power_cut: plan.after_power_cut,
            evicts: self.cx.shape.evicts,
            is_ordered: self.cx.shape.is_ordered,
        }
    }

    /// Statistics of the cache. Read without locks: they may be of different moments.
    pub fn stats(&self) -> Stats {
        self.cx.arena.refresh_length();
        let counters = self.cx.arena.counters();
        let counter = |counter: Counter| counters[counter as usize];
        let segments = u64::from(self.cx.arena.segments_present());
        let (free, building) = self.cx.segments_of_no_shard();
        let index = self.cx.sum_over_shards(shard::INDEX_SEGMENTS);
        let body = self.cx.sum_over_shards(shard::BODY_SEGMENTS);
        let spare = (0..self.cx.shape.shard_count).map(|index| self.cx.spares_of(index)).sum();
        let others = [free, building, index, body, spare];
        let record_bytes = self.cx.sum_over_logs(log::BYTES);
        let Settings { size_bytes, max_entries, favour, after_power_cut, .. } = self.settings();
        Stats {
            entries: self.len(),
            entry_bytes: record_bytes.wrapping_add(self.cx.sum_over_logs(log::BODY_BYTES)),
            file_bytes: self.cx.arena.region().usable_bytes(),
            size_bytes,
            max_entries,
            value_bytes_max: self.cx.shape.value_bytes_max,
            processes: self.cx.arena.processes(),
            processes_max: self.cx.arena.geometry().process_count,
            favour,
            after_power_cut,
            hits: counter(Counter::Hits),
            misses: counter(Counter::Misses),
            sets: self.cx.sum_over_shards(shard::SETS),
            deletes: self.cx.sum_over_shards(shard::DELETES),
            discards: self.cx.arena.discards_made(),
            reopened: 0,
            evictions: self.cx.sum_over_shards(shard::EVICTIONS),
            expirations: self.cx.sum_over_shards(shard::EXPIRATIONS),
            lost_entries: self.cx.sum_over_shards(shard::LOST),
            takeovers: counter(Counter::Takeovers),
            reads_under_lock: counter(Counter::ReadsUnderLock),
            reads_given_up: counter(Counter::ReadsGivenUp),
            checksum_mismatches: counter(Counter::ChecksumMismatches),
            shards: self.cx.shape.shard_count,
            segment_bytes: self.cx.shape.segment_bytes,
            segments,
            segments_free: free,
            // The rest: logs have no counter for their segments.
            segments_log: others.iter().fold(segments, |left, part| left.saturating_sub(*part)),
            segments_index: index,
            segments_body: body,
            segments_spare: spare,
            segments_building: building,
        }
    }
}
