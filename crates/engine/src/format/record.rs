//! A record: the bytes of one entry in a log. Owns their layout, parsing and checksum. Must not
//! know where records are or who reads them.
//!
//! ```text
//! word 0   checksum << 32 | version << 4 | busy << 3 | flags
//! then, where the flags say so, a word each:
//!          expiry    a time by the file's clock, with a check of its own; see [`expiry`]
//!          number    a 64-bit integer, the whole value
//! then     form, four bytes: slack << 26 | tag << 20 | value length << 8 | key length
//! or, if the lengths do not fit or the entry has attributes:
//!          a word:   attributes << 62 | tag << 56 | value length << 20 | key length
//!          attributes: see [`super::attributes`]
//!          body list: three words for each whole segment of the value: the segment,
//!          its generation, and the hash of its bytes
//! then     key, value (or its rest after the bodies), zeros up to a whole word
//! then     slack: as many words of zeros as the form says
//! ```
//!
//! A record with slack is in the place of a longer one; so a value of nearly the same length takes no
//! further space.
//!
//! Word 0 is also the record's sequence lock: busy while the record is rewritten in place, and with
//! another version and checksum afterwards. The checksum covers the whole record except its expiry,
//! which changes in place as one word and therefore carries its own check.

use tuckbox_arena::region::bytes_of;
use tuckbox_arena::sum;

use super::attributes::{self, DamagedAttributes, StoredAttributes};
use super::expiry;
use super::hash::{Hasher, KeyHash, RecordPlace};
use super::layout::flag;
use super::layout::record::{BODY_WORDS, LONG_VALUE_BITS};
use super::shape::Shape;

const BUSY: u64 = 1 << 3;
const VERSION_SHIFT: u32 = 4;
pub(super) const VERSION_BITS: u32 = 28;
pub(super) const KEY_BITS: u32 = 8;
pub(super) const VALUE_BITS: u32 = 12;
const TAG_BITS: u32 = 6;
const TAG_SHIFT: u32 = KEY_BITS + VALUE_BITS;
const SLACK_SHIFT: u32 = TAG_SHIFT + TAG_BITS;
/// A record has at most one part in this many of its length as slack.
const SLACK_PART: u64 = 4;
/// Bytes of a form.
const FORM_BYTES: u64 = 4;
const LONG_KEY_BITS: u32 = 20;
const LONG_TAG_SHIFT: u32 = LONG_KEY_BITS + LONG_VALUE_BITS;
/// Set in a long form that attributes follow.
const LONG_ATTRIBUTES: u64 = 1 << (LONG_TAG_SHIFT + TAG_BITS);
const LONG_RESERVED_SHIFT: u32 = LONG_TAG_SHIFT + TAG_BITS + 1;

/// The low `count` bits.
#[inline(always)]
const fn bits(word: u64, count: u32) -> u64 {
    word & ((1 << count) - 1)
}

/// Rounds up to whole words. Lengths are below any file's length, so the sum does not overflow.
#[inline(always)]
const fn whole_words(len_bytes: u64) -> u64 {
    (len_bytes + 7) & !7
}

/// The form in the first four bytes of a word; the key begins in the others.
#[inline(always)]
fn form_in(word: u64) -> u64 {
    u64::from(word.to_le() as u32)
}

/// Word 0 of a record.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sequence(pub u64);

impl Sequence {
    /// A complete record of this version, without its checksum. Keeps the version's low bits.
    pub fn new(version: u64, flags: u64) -> Sequence {
        Sequence(bits(version, VERSION_BITS) << VERSION_SHIFT | flags)
    }

    /// With this checksum.
    pub fn with_checksum(self, checksum: u32) -> Sequence {
        Sequence(self.0 & 0xffff_ffff | u64::from(checksum) << 32)
    }

    /// With the busy bit cleared.
    pub fn without_busy(self) -> Sequence {
        Sequence(self.0 & !BUSY)
    }

    /// With the busy bit set.
    pub fn with_busy(self) -> Sequence {
        Sequence(self.0 | BUSY)
    }

    /// Whether the record is being rewritten, or was when its writer died.
    #[inline(always)]
    pub fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }

    /// The low bits of the version.
    #[inline(always)]
    pub fn version(self) -> u64 {
        bits(self.0 >> VERSION_SHIFT, VERSION_BITS)
    }

    /// The full version of the later of two records: `last`, and this one. With a damaged `last`
    /// near `u64::MAX` the sum wraps; its low bits, the only ones that records keep, stay right.
    pub fn latest_version(self, last: u64) -> u64 {
        let ahead = bits(self.version().wrapping_sub(last), VERSION_BITS);
        // A distance of more than half of the range means that this record is older.
        last.wrapping_add(if ahead >> (VERSION_BITS - 1) == 0 { ahead } else { 0 })
    }

    /// The flags; see [`flag`].
    #[inline(always)]
    pub fn flags(self) -> u64 {
        self.0 & flag::ALL
    }

    /// The checksum in the record.
    #[inline(always)]
    pub fn checksum(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A whole segment of a large value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// The segment.
    pub segment: u64,
    /// Its generation when the value was written.
    pub generation: u64,
    /// Hash of its bytes.
    pub hash: u64,
}

/// The record header: what the first words of a record say, and the sizes that follow.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// Word 0.
    pub sequence: Sequence,
    /// The value's tag.
    pub tag: u8,
    /// Bytes of the key.
    pub key_bytes: u64,
    /// Bytes of the value, bodies included; 0 for a number.
    pub value_bytes: u64,
    /// Whole segments of the value that are outside of the log.
    pub body_count: u64,
    /// Bytes of the record in its log, a multiple of eight.
    pub log_bytes: u64,
    /// Where the key begins in the record, a multiple of four.
    pub key_at: u64,
}

impl RecordHeader {
    /// The shortest record.
    pub const BYTES_MIN: u64 = 16;
    /// Most slack of a record, in words.
    pub const SLACK_WORDS_MAX: u64 = (1 << (32 - SLACK_SHIFT)) - 1;
    /// Parses a header. `first` is word 0, and `word` returns others by their index, which is below
    /// [`WORDS_MAX`]. None if no writer of this version writes such a record.
    #[inline(always)]
    pub fn parse(first: u64, word: impl Fn(usize) -> u64, shape: &Shape) -> Option<RecordHeader> {
        let sequence = Sequence(first);
        let flags = sequence.flags();
        let form_index = RecordHeader::form_index(flags);
        if flags & flag::LONG != 0 {
            return RecordHeader::parse_long(sequence, word, form_index, shape);
        }
        let form = form_in(word(form_index as usize));
        let (key_bytes, value_bytes) = (bits(form, KEY_BITS), bits(form >> KEY_BITS, VALUE_BITS));
        let key_at = form_index * 8 + FORM_BYTES;
        let log_bytes = whole_words(key_at + key_bytes + value_bytes) + (form >> SLACK_SHIFT) * 8;
        let (tag, body_count) = (bits(form >> TAG_SHIFT, TAG_BITS) as u8, 0);
        Some(RecordHeader { sequence, tag, key_bytes, value_bytes, body_count, log_bytes, key_at })
    }

    #[inline(always)]
    fn parse_long(
        sequence: Sequence,
        word: impl Fn(usize) -> u64,
        form_index: u64,
        shape: &Shape,
    ) -> Option<RecordHeader> {
        let form = word(form_index as usize);
        let key_bytes = bits(form, LONG_KEY_BITS);
        let value_bytes = bits(form >> LONG_KEY_BITS, LONG_VALUE_BITS);
        if form >> LONG_RESERVED_SHIFT != 0
            || key_bytes > crate::KEY_BYTES_MAX as u64
            || value_bytes > shape.value_bytes_max
        {
            return None;
        }
        let attribute_words = match form & LONG_ATTRIBUTES {
            0 => 0,
            _ => attributes::words_of(word(form_index as usize + 1))?,
        };
        let body_count = value_bytes >> shape.segment_shift;
        let key_at = (form_index + 1 + attribute_words + BODY_WORDS * body_count) * 8;
        let payload_bytes = key_bytes + value_bytes - (body_count << shape.segment_shift);
        let log_bytes = key_at + whole_words(payload_bytes);
        let tag = bits(form >> LONG_TAG_SHIFT, TAG_BITS) as u8;
        Some(RecordHeader { sequence, tag, key_bytes, value_bytes, body_count, log_bytes, key_at })
    }

    /// As [`RecordHeader::parse`], from a copy of the record or of its beginning.
    pub fn from_copy(words: &[u64], shape: &Shape) -> Option<RecordHeader> {
        let form_index = RecordHeader::form_index(Sequence(*words.first()?).flags());
        words.get(form_index as usize)?;
        // If the attributes word is missing: no writer writes this one.
        RecordHeader::parse(words[0], |at| words.get(at).map_or(u64::MAX, |word| *word), shape)
    }

    /// The two words of a record of `log_bytes` without key and value. None if a record cannot be
    /// that short.
    pub fn filler(log_bytes: u64) -> Option<[u64; 2]> {
        let value_bytes = log_bytes.checked_sub(RecordHeader::BYTES_MIN)?;
        Some([flag::LONG, value_bytes << LONG_KEY_BITS])
    }

    /// The form for a value's tag and these lengths, and the flag that says how long it is.
    #[inline(always)]
    pub(super) fn form(tag: u8, key_bytes: u64, value_bytes: u64) -> (u64, u64) {
        let tag = bits(u64::from(tag), TAG_BITS);
        if key_bytes >> KEY_BITS != 0 || value_bytes >> VALUE_BITS != 0 {
            let form = tag << LONG_TAG_SHIFT | value_bytes << LONG_KEY_BITS | key_bytes;
            return (flag::LONG, form);
        }
        (0, (tag << TAG_SHIFT | value_bytes << KEY_BITS | key_bytes).to_le())
    }

    /// The most bytes that a record of these lengths may have with slack; a multiple of eight. Without
    /// slack as long as it is.
    #[inline(always)]
    pub fn log_bytes_max(&self) -> u64 {
        match self.sequence.flags() & flag::LONG {
            0 => {
                self.log_bytes
                    + (self.log_bytes / SLACK_PART).min(RecordHeader::SLACK_WORDS_MAX * 8) / 8 * 8
            }
            _ => self.log_bytes,
        }
    }

    /// A form with slack, from the form of a record that has none.
    pub(super) fn form_with_slack(word: u64, slack_bytes: u64) -> u64 {
        word | u64::from(((slack_bytes / 8) as u32) << SLACK_SHIFT).to_le()
    }

    /// The index of the word that holds the form.
    #[inline(always)]
    pub(super) fn form_index(flags: u64) -> u64 {
        1 + (flags & 1) + (flags >> 1 & 1)
    }

    /// Bytes of the value in the record itself.
    #[inline]
    pub fn tail_bytes(&self, shape: &Shape) -> u64 {
        self.value_bytes - (self.body_count << shape.segment_shift)
    }

    /// The long form for a value's tag and these lengths, of a record with attributes.
    pub(super) fn form_with_attributes(tag: u8, key_bytes: u64, value_bytes: u64) -> u64 {
        let tag = bits(u64::from(tag), TAG_BITS);
        LONG_ATTRIBUTES | tag << LONG_TAG_SHIFT | value_bytes << LONG_KEY_BITS | key_bytes
    }

    /// Where the body list begins, in a long record.
    pub(super) fn bodies_at(&self) -> u64 {
        self.key_at - BODY_WORDS * self.body_count * 8
    }

    /// Whether a long record has attributes, by any of its words.
    #[inline]
    pub fn has_attributes(&self, word: impl Fn(usize) -> u64) -> bool {
        let form_index = RecordHeader::form_index(self.sequence.flags()) as usize;
        self.has(flag::LONG) && word(form_index) & LONG_ATTRIBUTES != 0
    }

    /// The attributes of an entry, from a copy of its record up to the key; none if it has none.
    ///
    /// # Errors
    /// They are damaged.
    pub fn attributes<'a>(
        &self,
        words: &'a [u64],
    ) -> Result<Option<StoredAttributes<'a>>, DamagedAttributes> {
        if !self.has_attributes(|at| words.get(at).map_or(0, |word| *word)) {
            return Ok(None);
        }
        let form_index = RecordHeader::form_index(self.sequence.flags()) as usize;
        StoredAttributes::read(&words[form_index + 1..]).map(Some).ok_or(DamagedAttributes)
    }

    /// Whether the record has the flag.
    #[inline]
    pub fn has(&self, flag: u64) -> bool {
        self.sequence.flags() & flag != 0
    }

    /// Offset of the number word in a record that has one: the first of the content.
    pub fn number_at(&self) -> u64 {
        self.content_from() as u64 * 8
    }

    /// All bytes of the entry: the record and its bodies.
    pub fn total_bytes(&self, shape: &Shape) -> u64 {
        self.log_bytes + self.body_count * shape.segment_bytes
    }

    /// When the entry expires, from a copy of its record (two words are enough):
    /// [`expiry::NEVER_US`] if never. None if the word is damaged.
    #[inline(always)]
    pub fn expiry_us(&self, words: &[u64], key: KeyHash) -> Option<u64> {
        if self.has(flag::EXPIRY) {
            expiry::moment_us(words[1], key)
        } else {
            Some(expiry::NEVER_US)
        }
    }

    /// The number, from a copy of a record that has one.
    #[inline]
    pub fn number(&self, words: &[u64]) -> i64 {
        words[self.number_at() as usize / 8] as i64
    }

    /// The key, from a copy of the record.
    #[inline]
    pub fn key<'a>(&self, words: &'a [u64]) -> &'a [u8] {
        let at = self.key_at as usize;
        &bytes_of(words)[at..at + self.key_bytes as usize]
    }

    /// Whether a record has this key, from a copy of the record.
    pub fn has_key(&self, words: &[u64], key: &[u8]) -> bool {
        self.key_bytes == key.len() as u64 && self.key(words) == key
    }

    /// The part of the value in the record, from a copy of it.
    #[inline(always)]
    pub fn tail<'a>(&self, words: &'a [u64], shape: &Shape) -> &'a [u8] {
        let at = (self.key_at + self.key_bytes) as usize;
        &bytes_of(words)[at..][..self.tail_bytes(shape) as usize]
    }

    /// The value's whole segments, from a copy of the record.
    pub fn bodies<'a>(&self, words: &'a [u64]) -> impl Iterator<Item = Body> + 'a {
        let at = self.bodies_at() as usize / 8;
        words[at..at + (BODY_WORDS * self.body_count) as usize]
            .chunks_exact(BODY_WORDS as usize)
            .map(|part| Body { segment: part[0], generation: part[1], hash: part[2] })
    }

    /// A sum of everything that stays the same while the entry is the same: form, number, body
    /// list, key, value, and padding. From a copy of the record.
    #[inline(always)]
    pub fn content(&self, words: &[u64]) -> u64 {
        sum::of(&words[self.content_from()..(self.log_bytes / 8) as usize])
    }

    /// The first word of the content: behind word 0 and the expiry.
    #[inline(always)]
    pub fn content_from(&self) -> usize {
        1 + (self.sequence.flags() & flag::EXPIRY) as usize
    }

    /// The checksum of a record with this content at this place.
    #[inline(always)]
    pub fn checksum(&self, content: u64, hasher: &Hasher, key: KeyHash, at: RecordPlace) -> u32 {
        hasher.checksum(key, content, self.sequence.0 & 0xffff_ffff, at)
    }

    /// Identifies the state of an entry, in 63 bits: the version's low bits and bits of the
    /// content's sum, so that a version number that wraps is not taken for the earlier one. The
    /// content of a large value includes the places of its bodies, which do not change while it
    /// exists.
    #[inline(always)]
    pub fn version(&self, content: u64) -> u64 {
        let state = content.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state >> (VERSION_BITS + 1) << VERSION_BITS | self.sequence.version()
    }

    /// The header of the same record with another word 0 with the same flags.
    pub fn with_sequence(&self, sequence: Sequence) -> RecordHeader {
        debug_assert_eq!(sequence.flags(), self.sequence.flags());
        RecordHeader { sequence, ..*self }
    }

    /// Gives a copied record the checksum of a new place or content, of which it takes the sum.
    pub fn seal(
        &self,
        words: &mut [u64],
        content: u64,
        hasher: &Hasher,
        key: KeyHash,
        at: RecordPlace,
    ) {
        debug_assert_eq!(content, self.content(words));
        let checksum = self.checksum(content, hasher, key, at);
        words[0] = self.sequence.with_checksum(checksum).0;
    }
}
