//! The attributes of an entry, which most entries lack: how they lie in a record. Must not know which
//! of them make an entry invalid or stale.
//!
//! ```text
//! word   0..16 bytes of the tags, 16..24 number of tags, 24 STALE, 25 MADE, 26 PINNED,
//!        27 ORDERED, others zero
//! word   the stamp
//! word   STALE: microseconds for which the entry is kept as a stale one, up to its expiry
//! word   MADE: microseconds that its making took
//! word   ORDERED: the position in the order of insertion
//! bytes  the tags: for each its length in a byte, and its name; zeros up to a whole word
//! ```

use tuckbox_arena::region::{bytes_of, bytes_of_mut};

use super::layout::{attribute, table};
use crate::value::Tags;

/// The attributes of an entry that is being stored.
#[derive(Debug, Clone, Copy)]
pub struct NewAttributes<'a> {
    /// Its tags, within their limits.
    pub tags: &'a [&'a str],
    /// How long it is kept as a stale one; 0 if not at all.
    pub stale_us: u64,
    /// How long its making took, if that is known.
    pub made_us: Option<u64>,
    /// Whether it is never evicted.
    pub is_pinned: bool,
    /// Its position in the order of insertion, in an ordered cache; see [`POSITION_OPEN`].
    pub position: Option<u64>,
    /// The stamp.
    pub stamp: u64,
}

/// Stands for the position that a store gives to its entry: that of the present entry of the key, or
/// the next one.
pub const POSITION_OPEN: u64 = 0;

impl NewAttributes<'_> {
    fn tags_bytes(&self) -> u64 {
        self.tags.iter().map(|tag| 1 + tag.len() as u64).sum()
    }

    /// The attributes word.
    pub(super) fn word(&self) -> u64 {
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        self.tags_bytes()
            | (self.tags.len() as u64) << attribute::TAGS_BYTES_BITS
            | flag(self.stale_us > 0, attribute::STALE)
            | flag(self.made_us.is_some(), attribute::MADE)
            | flag(self.is_pinned, attribute::PINNED)
            | flag(self.position.is_some(), attribute::ORDERED)
    }

    /// Writes everything from the attributes word on.
    pub(super) fn write(&self, words: &mut [u64]) {
        let word = self.word();
        let (fixed, tags) = words.split_at_mut(fixed_words(word) as usize);
        fixed[0] = word;
        fixed[1] = self.stamp;
        let more = [Some(self.stale_us).filter(|us| *us > 0), self.made_us, self.position];
        for (place, value) in fixed[2..].iter_mut().zip(more.into_iter().flatten()) {
            *place = value;
        }
        tags[..whole_words(self.tags_bytes()) as usize].fill(0);
        let mut rest = bytes_of_mut(tags);
        for tag in self.tags {
            let (this, after) = rest.split_at_mut(1 + tag.len());
            this[0] = tag.len() as u8;
            this[1..].copy_from_slice(tag.as_bytes());
            rest = after;
        }
    }
}

fn whole_words(len_bytes: u64) -> u64 {
    len_bytes.div_ceil(8)
}

fn fixed_words(word: u64) -> u64 {
    let has = |flag: u64| u64::from(word & flag != 0);
    2 + has(attribute::STALE) + has(attribute::MADE) + has(attribute::ORDERED)
}

/// The index of the position's word, in attributes that have one; the attributes word is the first.
pub(super) fn position_index(word: u64) -> u64 {
    fixed_words(word) - 1
}

fn tags_bytes(word: u64) -> u64 {
    word & ((1 << attribute::TAGS_BYTES_BITS) - 1)
}

/// Words that the attributes take in the record, by their first one. None if no writer of this
/// version writes it.
pub(super) fn words_of(word: u64) -> Option<u64> {
    let is_known =
        word >> attribute::RESERVED_SHIFT == 0 && tags_bytes(word) <= attribute::TAGS_BYTES_MAX;
    is_known.then(|| fixed_words(word) + whole_words(tags_bytes(word)))
}

/// The attributes in a copy of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredAttributes<'a> {
    /// The stamp.
    pub stamp: u64,
    /// How long it is kept as a stale one; 0 if not at all.
    pub stale_us: u64,
    /// How long its making took, if that is known.
    pub made_us: Option<u64>,
    /// Whether it is never evicted.
    pub is_pinned: bool,
    /// Its position in the order of insertion, in an ordered cache.
    pub position: Option<u64>,
    /// Its tags.
    pub tags: Tags<'a>,
}

/// Attributes that no writer of this version writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedAttributes;

impl<'a> StoredAttributes<'a> {
    /// From the words of a record, the attributes word being the first. None if these words are not
    /// whole attributes.
    pub(super) fn read(words: &'a [u64]) -> Option<StoredAttributes<'a>> {
        let word = *words.first()?;
        let words = words.get(..words_of(word)? as usize)?;
        let (fixed, tags) = words.split_at(fixed_words(word) as usize);
        let mut more = fixed[2..].iter().copied();
        let stale_us = if word & attribute::STALE == 0 { 0 } else { more.next()? };
        let made_us = if word & attribute::MADE == 0 { None } else { more.next() };
        let position = if word & attribute::ORDERED == 0 { None } else { more.next() };
        let bytes = &bytes_of(tags)[..tags_bytes(word) as usize];
        let count = word >> attribute::TAGS_BYTES_BITS & ((1 << attribute::TAG_COUNT_BITS) - 1);
        let tags = Tags { bytes, count: count as usize };
        let is_text = |tag: &[u8]| std::str::from_utf8(tag).is_ok();
        let is_pinned = word & attribute::PINNED != 0;
        let is_whole =
            tags.filter(|tag| is_text(tag)).count() as u64 == count && fixed[1] < table::STAMPS_END;
        let stamp = fixed[1];
        is_whole.then_some(StoredAttributes { stamp, stale_us, made_us, is_pinned, position, tags })
    }
}
