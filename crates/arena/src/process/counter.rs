//! What a process slot counts. Must not know who counts it, or when.

/// What a process slot counts. `stats` reports the sums over all slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Counter {
    /// Reads that found their entry.
    Hits = 0,
    /// Reads that did not find their entry.
    Misses = 1,
    // 2 and 3 are free.
    /// Reads that were disturbed too often and continued under the lock.
    ReadsUnderLock = 4,
    /// Reads that gave up and reported a miss.
    ReadsGivenUp = 5,
    /// Records whose checksum did not match.
    ChecksumMismatches = 6,
    /// Locks taken over from a dead process.
    Takeovers = 7,
}

/// Number of counters in a slot.
pub const COUNTER_COUNT: usize = 8;
