//! A record: the bytes of one entry in a log.
//!
//! ```text
//! word 0   version << 9 | busy << 8 | flags
//! word 1   checksum << 32 | tag << 26 | value length << 10 | key length
//! then, where the flags say so, a word each:
//!          expiry    a moment by the file's clock, with a check of its own; see [`expiry`]
//!          number    a 64-bit integer, the whole value
//!          lengths   value length << 20 | key length, when they do not fit into word 1
//! then     body list: three words for each whole segment of the value: the segment, its
//!          generation, and the hash of its bytes
//! then     key, value (or what is left of it after the bodies), zeros up to a whole word
//! ```
//!
//! Word 0 is also the record's sequence word: busy while the record is rewritten in place, and
//! with a version never used before afterwards. The checksum covers all of the record but its
//! expiry, which changes in place as one word and so has to prove itself.

use tuckbox_arena::region::{bytes_of, bytes_of_mut};

use crate::error::{lengthen, Result};
use crate::hash::{Hasher, KeyHash};
use crate::layout::Shape;
use crate::value::Value;

/// Changes when the form of a record changes.
pub const SIGNATURE: u64 = 2;

/// Flags of word 0. Those not listed are kept for namespaces, tags and insertion order; a record
/// that has one is damaged to this version.
pub mod flag {
    /// Has an expiry word.
    pub const EXPIRY: u64 = 1;
    /// The value is the number word.
    pub const NUMBER: u64 = 2;
    /// Has a lengths word.
    pub const LONG: u64 = 4;
    /// Whole segments of the value are elsewhere.
    pub const BODY: u64 = 8;
    /// All that this version knows.
    pub const KNOWN: u64 = EXPIRY | NUMBER | LONG | BODY;
}

/// The expiry word: a moment in microseconds since 1970, by the file's clock, times a prime, plus a
/// number below the prime that follows from the key.
///
/// The prime does not divide any difference that changing one byte makes, so damage to a single
/// byte is always seen; of other damage all but one in a thousand is.
pub mod expiry {
    use crate::hash::KeyHash;

    const FACTOR: u64 = 1021;
    /// The moment that never comes: in the year 2540, where the file's clock ends.
    pub const NEVER_US: u64 = 1 << 54;

    #[inline(always)]
    fn residue(key: KeyHash) -> u64 {
        ((key.0 & 0xffff_ffff) * FACTOR) >> 32
    }

    /// The word for a moment; one after the end of the file's clock is never.
    pub fn word(moment_us: u64, key: KeyHash) -> u64 {
        moment_us.min(NEVER_US) * FACTOR + residue(key)
    }

    /// The moment of a word, [`NEVER_US`] if it never comes; none if the word is damaged.
    #[inline]
    pub fn moment_us(word: u64, key: KeyHash) -> Option<u64> {
        let product = word.wrapping_sub(residue(key));
        let moment_us = product / FACTOR;
        (moment_us * FACTOR == product && moment_us <= NEVER_US).then_some(moment_us)
    }
}

const BUSY: u64 = 1 << 8;
const VERSION_SHIFT: u32 = 9;
const KEY_BITS: u32 = 10;
const VALUE_BITS: u32 = 16;
const TAG_SHIFT: u32 = KEY_BITS + VALUE_BITS;
const LONG_KEY_BITS: u32 = 20;

/// Word 0 of a record.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sequence(pub u64);

impl Sequence {
    /// A complete record of this version.
    pub fn new(version: u64, flags: u64) -> Sequence {
        Sequence(version << VERSION_SHIFT | flags)
    }

    /// No longer being rewritten.
    pub fn settled(self) -> Sequence {
        Sequence(self.0 & !BUSY)
    }

    /// Being rewritten.
    pub fn busy(self) -> Sequence {
        Sequence(self.0 | BUSY)
    }

    /// Whether it is being rewritten, or was when its writer died.
    #[inline(always)]
    pub fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }

    /// Names this state of the entry.
    pub fn version(self) -> u64 {
        self.0 >> VERSION_SHIFT
    }

    /// What the record has; see [`flag`].
    #[inline(always)]
    pub fn flags(self) -> u64 {
        self.0 & 0xff
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

const BODY_WORDS: u64 = 3;

/// What can be known of a record from its first words, and the sizes that follow.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Word 0.
    pub sequence: Sequence,
    /// Word 1.
    pub form: u64,
    /// Bytes of the key.
    pub key_bytes: u64,
    /// Bytes of the value, bodies included; 0 for a number.
    pub value_bytes: u64,
    /// Whole segments of the value that are elsewhere.
    pub body_count: u64,
    /// Bytes of the record in its log, a multiple of eight.
    pub log_bytes: u64,
    /// Where the key begins in the record.
    pub key_at: u64,
}

impl Head {
    /// The shortest record.
    pub const BYTES_LEAST: u64 = 16;

    /// Reads the lengths. `words` are the record's first five, or as many as could be read.
    /// None if no writer of this version makes such a record.
    #[inline]
    pub fn parse(words: &[u64; 5], shape: &Shape) -> Option<Head> {
        let sequence = Sequence(words[0]);
        let flags = sequence.flags();
        if flags & !flag::KNOWN != 0 {
            return None;
        }
        let form = words[1];
        let (key_bytes, value_bytes) = if flags & flag::LONG == 0 {
            (form & ((1 << KEY_BITS) - 1), form >> KEY_BITS & ((1 << VALUE_BITS) - 1))
        } else {
            let lengths = words[long_index(flags)];
            (lengths & ((1 << LONG_KEY_BITS) - 1), lengths >> LONG_KEY_BITS)
        };
        if key_bytes > crate::KEY_BYTES_MAX as u64 || value_bytes > shape.value_bytes_max {
            return None;
        }
        let body_count = value_bytes >> shape.segment_shift;
        if (flags & flag::BODY != 0) != (body_count != 0) {
            return None;
        }
        let key_at = (Head::fixed_words(flags) + BODY_WORDS * body_count) * 8;
        let payload_bytes = key_bytes + value_bytes - (body_count << shape.segment_shift);
        let log_bytes = key_at + payload_bytes.next_multiple_of(8);
        Some(Head { sequence, form, key_bytes, value_bytes, body_count, log_bytes, key_at })
    }

    /// The first words of a record without key and value that is `log_bytes` long: word 0, word 1,
    /// and the lengths if it has them. None if no record is as short as that.
    pub fn filler(log_bytes: u64) -> Option<(u64, u64, Option<u64>)> {
        match log_bytes {
            0..=15 => None,
            16 => Some((0, 0, None)),
            _ => Some((flag::LONG, 0, Some((log_bytes - 24) << LONG_KEY_BITS))),
        }
    }

    /// Bytes that the longest record takes in its log: the longest key, nearly a segment of its value,
    /// and where so many others are.
    pub fn longest_bytes(key_bytes: u64, segment_bytes: u64, body_count: u64) -> u64 {
        let payload_bytes = (key_bytes + segment_bytes).next_multiple_of(8);
        (Head::fixed_words(flag::KNOWN) + BODY_WORDS * body_count) * 8 + payload_bytes
    }

    fn fixed_words(flags: u64) -> u64 {
        2 + (flags & 1) + (flags >> 1 & 1) + (flags >> 2 & 1)
    }

    /// Bytes of the value that are in the record itself.
    #[inline]
    pub fn tail_bytes(&self, shape: &Shape) -> u64 {
        self.value_bytes - (self.body_count << shape.segment_shift)
    }

    fn bodies_at(&self) -> u64 {
        Head::fixed_words(self.sequence.flags()) * 8
    }

    /// The value's tag.
    #[inline]
    pub fn tag(&self) -> u8 {
        (self.form >> TAG_SHIFT & 0x3f) as u8
    }

    /// The checksum that the record claims.
    #[inline]
    pub fn checksum(&self) -> u32 {
        (self.form >> 32) as u32
    }

    /// Whether the record has the flag.
    #[inline]
    pub fn has(&self, flag: u64) -> bool {
        self.sequence.flags() & flag != 0
    }

    /// Offset of the number word in a record that has one.
    pub fn number_at(&self) -> u64 {
        if self.has(flag::EXPIRY) {
            24
        } else {
            16
        }
    }

    /// All bytes that the entry takes: the record and its bodies.
    pub fn total_bytes(&self, shape: &Shape) -> u64 {
        self.log_bytes + self.body_count * shape.segment_bytes
    }

    /// When the entry expires, from a copy of its record (three words are enough):
    /// [`expiry::NEVER_US`] if it does not. None if the word is damaged.
    #[inline(always)]
    pub fn expiry_us(&self, words: &[u64], key: KeyHash) -> Option<u64> {
        if self.has(flag::EXPIRY) {
            expiry::moment_us(words[2], key)
        } else {
            Some(expiry::NEVER_US)
        }
    }

    /// The number, from a copy of the record that has one.
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
    ///
    /// By words: the copy has just been written by registers of sixteen bytes, and a comparison by
    /// wider ones would wait until those have reached the cache.
    #[inline(always)]
    pub fn has_key(&self, words: &[u64], key: &[u8]) -> bool {
        let start = self.key_at as usize / 8;
        let Some(words) = words.get(start..start + key.len().div_ceil(8)) else { return false };
        let chunks = key.chunks_exact(8);
        // The bytes of the key in its last word, and how many bits of that are no part of it.
        let unused_bits = (8 * key.len() as u32).wrapping_neg() % 64;
        let last = match key.last_chunk::<8>() {
            Some(last) => u64::from_le_bytes(*last) >> unused_bits,
            None => key.iter().rev().fold(0, |part, byte| part << 8 | u64::from(*byte)),
        };
        self.key_bytes == key.len() as u64
            && chunks.zip(words).all(|(chunk, word)| {
                u64::from_ne_bytes(chunk.try_into().expect("chunks of eight")) == *word
            })
            && words.last().is_none_or(|word| (word.to_le() ^ last) << unused_bits == 0)
    }

    /// What of the value is in the record, from a copy of it.
    #[inline(always)]
    pub fn tail<'a>(&self, words: &'a [u64], shape: &Shape) -> &'a [u8] {
        let at = (self.key_at + self.key_bytes) as usize;
        &bytes_of(words)[at..at + self.tail_bytes(shape) as usize]
    }

    /// Where the value's whole segments are, from a copy of the record.
    pub fn bodies<'a>(&self, words: &'a [u64]) -> impl Iterator<Item = Body> + 'a {
        let at = self.bodies_at() as usize / 8;
        words[at..at + (BODY_WORDS * self.body_count) as usize]
            .chunks_exact(BODY_WORDS as usize)
            .map(|part| Body { segment: part[0], generation: part[1], hash: part[2] })
    }

    /// What the checksum covers besides word 0, key and content: tag and lengths.
    #[inline]
    fn form_covered(&self) -> u64 {
        let lengths = self.key_bytes << 44 ^ self.value_bytes;
        (self.form & 0xffff_ffff) << 8 ^ lengths.rotate_left(20)
    }

    /// The checksum that the record should have at this place, from a copy of it.
    #[inline]
    pub fn checksum_expected(
        &self,
        words: &[u64],
        hasher: &Hasher,
        shape: &Shape,
        key: KeyHash,
        offset: u64,
        generation: u64,
    ) -> u32 {
        let tail = hasher.bytes(self.tail(words, shape));
        self.checksum_with(words, hasher, tail, key, offset, generation)
    }

    #[inline(always)]
    fn checksum_with(
        &self,
        words: &[u64],
        hasher: &Hasher,
        tail: u64,
        key: KeyHash,
        offset: u64,
        generation: u64,
    ) -> u32 {
        let mut content = tail;
        if self.sequence.flags() & (flag::BODY | flag::NUMBER) != 0 {
            content ^= self.content_of_words(words, hasher);
        }
        let (form, sequence) = (self.form_covered(), self.sequence.0);
        hasher.checksum(key, content, form, sequence, offset, generation)
    }

    /// The content that is in words of its own: the number, or a hash of the body list.
    #[inline(never)]
    fn content_of_words(&self, words: &[u64], hasher: &Hasher) -> u64 {
        let mut content = 0;
        if self.has(flag::NUMBER) {
            content ^= self.number(words) as u64;
        }
        if self.body_count != 0 {
            let at = self.bodies_at() as usize / 8;
            let list = &words[at..at + (BODY_WORDS * self.body_count) as usize];
            content ^= hasher.bytes(bytes_of(list)).rotate_left(32);
        }
        content
    }

    /// The head of the same record with another word 0, of the same flags.
    pub fn with_sequence(&self, sequence: Sequence) -> Head {
        debug_assert_eq!(sequence.flags(), self.sequence.flags());
        Head { sequence, ..*self }
    }

    /// Gives a copied record the checksum of a new place or content.
    pub fn seal(
        &self,
        words: &mut [u64],
        hasher: &Hasher,
        shape: &Shape,
        key: KeyHash,
        offset: u64,
        generation: u64,
    ) {
        let checksum = self.checksum_expected(words, hasher, shape, key, offset, generation);
        words[1] = self.form & 0xffff_ffff | u64::from(checksum) << 32;
    }
}

#[inline(always)]
fn long_index(flags: u64) -> usize {
    (2 + (flags & 1) + (flags >> 1 & 1)) as usize
}

/// A record being made, outside of any lock: everything but version and place is known.
pub struct Draft<'a> {
    /// The key's hash.
    pub hash: KeyHash,
    value: Value<'a>,
    tail_hash: u64,
    words: Vec<u64>,
    head: Head,
}

impl<'a> Draft<'a> {
    /// Lays the record out. `spare` gives its memory, which [`Draft::into_spare`] gives back.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    pub fn new(
        key: &[u8],
        hash: KeyHash,
        value: Value<'a>,
        expiry_us: Option<u64>,
        hasher: &Hasher,
        shape: &Shape,
        spare: &mut Vec<u64>,
    ) -> Result<Draft<'a>> {
        let (tag, bytes): (u8, &[u8]) = match value {
            Value::Bytes { tag, bytes } => (tag, bytes),
            Value::Int(_) => (0, &[]),
        };
        let (key_bytes, value_bytes) = (key.len() as u64, bytes.len() as u64);
        let mut flags = 0;
        if expiry_us.is_some() {
            flags |= flag::EXPIRY;
        }
        if matches!(value, Value::Int(_)) {
            flags |= flag::NUMBER;
        }
        let mut form = u64::from(tag) << TAG_SHIFT;
        if key_bytes >> KEY_BITS != 0 || value_bytes >> VALUE_BITS != 0 {
            flags |= flag::LONG;
        } else {
            form |= value_bytes << KEY_BITS | key_bytes;
        }
        if value_bytes >= shape.segment_bytes {
            flags |= flag::BODY;
        }
        let mut fixed = [0u64; 5];
        fixed[0] = flags;
        fixed[1] = form;
        if flags & flag::LONG != 0 {
            fixed[long_index(flags)] = value_bytes << LONG_KEY_BITS | key_bytes;
        }
        if let Some(expiry_us) = expiry_us {
            fixed[2] = expiry::word(expiry_us, hash);
        }
        let head = Head::parse(&fixed, shape).expect("lengths are checked before");
        if let Value::Int(number) = value {
            fixed[head.number_at() as usize / 8] = number as u64;
        }
        let word_count = (head.log_bytes / 8) as usize;
        // What an earlier draft left is overwritten, but for what is behind the last byte.
        if spare.len() < word_count {
            lengthen(spare, word_count)?;
        }
        let mut spare = std::mem::take(spare);
        spare[word_count - 1] = 0;
        let fixed_count = Head::fixed_words(flags) as usize;
        spare[..fixed_count].copy_from_slice(&fixed[..fixed_count]);
        let tail = &bytes[(head.body_count * shape.segment_bytes) as usize..];
        let payload = &mut bytes_of_mut(&mut spare[..word_count])[head.key_at as usize..];
        payload[..key.len()].copy_from_slice(key);
        payload[key.len()..key.len() + tail.len()].copy_from_slice(tail);
        Ok(Draft { hash, value, tail_hash: hasher.bytes(tail), words: spare, head })
    }

    /// The sizes.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The value.
    pub fn value(&self) -> Value<'a> {
        self.value
    }

    /// Enters where the value's whole segments are.
    pub fn set_bodies(&mut self, bodies: &[Body]) {
        let at = self.head.bodies_at() as usize / 8;
        let list = &mut self.words[at..at + BODY_WORDS as usize * bodies.len()];
        for (part, body) in list.chunks_exact_mut(BODY_WORDS as usize).zip(bodies) {
            part.copy_from_slice(&[body.segment, body.generation, body.hash]);
        }
    }

    /// The finished words for this version and place.
    #[inline(always)]
    pub fn finish(
        &mut self,
        version: u64,
        offset: u64,
        generation: u64,
        hasher: &Hasher,
    ) -> &[u64] {
        let sequence = Sequence::new(version, self.head.sequence.flags());
        let (head, tail) = (self.head.with_sequence(sequence), self.tail_hash);
        let checksum = head.checksum_with(&self.words, hasher, tail, self.hash, offset, generation);
        self.words[0] = sequence.0;
        self.words[1] = head.form & 0xffff_ffff | u64::from(checksum) << 32;
        &self.words[..(head.log_bytes / 8) as usize]
    }

    /// Gives the memory back.
    pub fn into_spare(self) -> Vec<u64> {
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_keeps_its_moment_and_no_changed_byte_passes() {
        for (moment_us, key) in [(0, 1), (1_700_000_000_000_000, u64::MAX), (u64::MAX, 0x1234_5678)]
        {
            let key = KeyHash(key);
            let word = expiry::word(moment_us, key);
            assert_eq!(expiry::moment_us(word, key), Some(moment_us.min(expiry::NEVER_US)));
            for byte in 0..8 {
                for mask in 1..=255u64 {
                    assert_eq!(expiry::moment_us(word ^ mask << (8 * byte), key), None);
                }
            }
        }
    }
}
