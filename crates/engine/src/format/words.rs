//! The words of the file that hold several numbers: a slot of the index, the index state, a place in
//! a log. Owns their bits. Must not know who reads or writes them.

use tuckbox_arena::layout::{HEADER_BYTES, SIZE_BYTES_MAX};

use super::layout::shard;

/// A word of the index: where a record is, and the policy's bits.
///
/// Bits 0..2 hits since it was last examined (saturating), 2..5 frequency, 5 admitted, 6..8 the
/// halvings (low bits) when the frequency was written, 8..48 the record's offset in words, 48..64 a
/// tag of the key's hash. Zero is an empty slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub u64);

impl Slot {
    /// No entry.
    pub const EMPTY: Slot = Slot(0);
    const OFFSET_BITS: u64 = 40;
    const HITS: u64 = 0b11;
    const POLICY: u64 = 0xff;

    /// A slot for the record at `offset`.
    pub fn new(offset: u64, tag: u64, policy: PolicyBits) -> Slot {
        debug_assert!(offset % 8 == 0 && offset >= HEADER_BYTES);
        Slot(tag << 48 | (offset / 8) << 8 | policy.0)
    }

    /// Whether it is empty.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The tag of the key's hash.
    #[inline(always)]
    pub fn tag(self) -> u64 {
        self.0 >> 48
    }

    /// The offset of the record.
    #[inline(always)]
    pub fn offset(self) -> u64 {
        (self.0 >> 8 & ((1 << Slot::OFFSET_BITS) - 1)) * 8
    }

    /// The policy's bits.
    pub fn policy(self) -> PolicyBits {
        PolicyBits(self.0 & Slot::POLICY)
    }

    /// Whether both lead to the same record; the policy's bits may differ.
    #[inline(always)]
    pub fn is_same_place(self, other: Slot) -> bool {
        (self.0 ^ other.0) & !Slot::POLICY == 0
    }

    /// The place that it leads to, without the policy's bits.
    #[inline(always)]
    pub fn place(self) -> u64 {
        self.0 & !Slot::POLICY
    }

    /// With one more hit; none if the count is saturated.
    #[inline(always)]
    pub fn with_hit(self) -> Option<Slot> {
        (self.0 & Slot::HITS != Slot::HITS).then_some(Slot(self.0 + 1))
    }

    /// The same record with other policy bits.
    pub fn with_policy(self, policy: PolicyBits) -> Slot {
        Slot(self.0 & !Slot::POLICY | policy.0)
    }
}

const _: () = assert!(SIZE_BYTES_MAX <= 8 << Slot::OFFSET_BITS);

/// The policy's eight bits of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyBits(u64);

/// A slot keeps the halvings modulo this.
pub const HALVINGS_MODULUS: u64 = 4;
/// The highest frequency.
pub const FREQUENCY_MAX: u64 = 7;

impl PolicyBits {
    /// From its parts; the frequency saturates.
    pub fn new(hits: u64, frequency: u64, is_admitted: bool, halvings: u64) -> PolicyBits {
        let frequency = frequency.min(FREQUENCY_MAX);
        let kept = halvings % HALVINGS_MODULUS;
        PolicyBits(hits.min(3) | frequency << 2 | u64::from(is_admitted) << 5 | kept << 6)
    }

    /// Hits since the entry was last examined, 0 to 3.
    pub fn hits(self) -> u64 {
        self.0 & 3
    }

    /// Frequency when the slot was written, 0 to 7.
    pub fn frequency(self) -> u64 {
        self.0 >> 2 & 7
    }

    /// Halvings when it was written, modulo [`HALVINGS_MODULUS`].
    pub fn halvings(self) -> u64 {
        self.0 >> 6 & 3
    }

    /// Whether its reuse distance admits the entry to the main log.
    pub fn is_admitted(self) -> bool {
        self.0 >> 5 & 1 == 1
    }
}

/// The segment that a word of the file names: its number plus one. None for 0 or a damaged word.
pub fn segment_of(word: u64) -> Option<u32> {
    u32::try_from(word.checked_sub(1)?).ok()
}

/// A place in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The segment.
    pub segment: u32,
    /// The byte within the segment.
    pub byte: u64,
}

impl Position {
    /// From a word of the file; none for 0.
    pub fn from_word(word: u64) -> Option<Position> {
        let segment = (word >> 32).checked_sub(1)?;
        Some(Position { segment: segment as u32, byte: word & 0xffff_ffff })
    }

    /// For a word of the file.
    pub fn word(self) -> u64 {
        (u64::from(self.segment) + 1) << 32 | self.byte
    }
}

/// The word [`shard::STATE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexState(pub u64);

impl IndexState {
    /// Number of buckets as stored; a damaged word may say none, or more than exist.
    #[inline(always)]
    pub fn count(self) -> u32 {
        self.0 as u32
    }

    /// Number of buckets, at least one. Buckets that do not exist lead nowhere.
    #[inline(always)]
    pub fn buckets(self) -> u32 {
        self.count().max(1)
    }

    /// With one more bucket than [`IndexState::buckets`].
    pub fn with_split(self) -> IndexState {
        IndexState((self.0 | u64::from(self.count() == 0)).wrapping_add(1))
    }

    /// With another number of buckets, which counts as a move.
    pub fn with_buckets(self, count: u32) -> IndexState {
        IndexState(self.0 & !u64::from(u32::MAX) | u64::from(count)).with_move()
    }

    /// With one more move of an entry between its choices.
    pub fn with_move(self) -> IndexState {
        IndexState(self.0.wrapping_add(1 << 32))
    }
}

/// Which of the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// For new entries.
    Small,
    /// For entries that passed the admission test.
    Main,
    /// For entries that are never evicted.
    Pinned,
}

impl LogKind {
    /// The logs whose entries are evicted.
    pub const BOTH: [LogKind; 2] = [LogKind::Small, LogKind::Main];
    /// All logs.
    pub const ALL: [LogKind; LogKind::COUNT] = [LogKind::Small, LogKind::Main, LogKind::Pinned];
    /// Their number.
    pub const COUNT: usize = 3;

    /// The main log if a bit of the file is set.
    pub fn of(is_main: bool) -> LogKind {
        LogKind::BOTH[usize::from(is_main)]
    }

    /// The offset of its words in the shard.
    #[inline(always)]
    pub fn at(self) -> u64 {
        shard::SMALL + self as u64 * (shard::MAIN - shard::SMALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_its_parts() {
        let slot = Slot::new(0x12_3456_7890, 0xabcd, PolicyBits::new(2, 5, true, 7));
        assert_eq!((slot.offset(), slot.tag()), (0x12_3456_7890, 0xabcd));
        assert_eq!((slot.policy().hits(), slot.policy().frequency()), (2, 5));
        assert!(slot.policy().is_admitted());
        assert_eq!(slot.policy().halvings(), 3);
        let hit = slot.with_hit().unwrap();
        assert!(hit.is_same_place(slot) && hit.with_hit().is_none());
        assert_eq!(hit.with_policy(PolicyBits::default()).offset(), slot.offset());
    }

    #[test]
    fn the_logs_are_where_the_shard_has_them() {
        let offsets = LogKind::ALL.map(LogKind::at);
        assert_eq!(offsets, [shard::SMALL, shard::MAIN, shard::PINNED]);
    }

    #[test]
    fn a_split_counts_from_the_one_bucket_that_there_always_is() {
        let moves = 5 << 32;
        for (count, after) in [(0, 2), (1, 2), (2, 3), (0xffff_fffe, u32::MAX)] {
            let state = IndexState(moves | count).with_split();
            assert_eq!((state.buckets(), state.0 >> 32), (after, 5), "{count}");
        }
    }
}
