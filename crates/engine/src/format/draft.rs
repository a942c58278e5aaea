//! A record that is being made. Owns how a key and a value become the words of a record. Must not
//! know where the record goes.

use tuckbox_arena::region::{bytes_of_mut, prefetch_bytes, sums_while_copying};

use super::attributes::{self, NewAttributes, POSITION_OPEN};
use super::expiry;
use super::hash::{Hasher, KeyHash, RecordPlace};
use super::layout::flag;
use super::layout::record::BODY_WORDS;
use super::record::{Body, RecordHeader, Sequence};
use super::shape::Shape;
use crate::error::{lengthen, Result};
use crate::value::Value;

/// Records up to this length are summed under the lock, if they can be summed while they are written: that
/// takes hardly longer than to write them.
const SUMMED_LATE_BYTES: u64 = 16 << 10;

/// Records up to this length are summed under the lock in any case: when a record is built, its key and its
/// value have just been copied, and a load that spans two of those stores waits until both have reached the
/// cache.
const SUMMED_LATE_ALONE_BYTES: u64 = 512;

/// The most bytes of a value to prefetch: the processor foresees what follows.
const VALUE_BYTES_ASKED: usize = 4096;

/// The lines of a value up to this length the processor fetches in parallel by itself.
const VALUE_BYTES_NEAR: usize = 512;

/// A record that is built outside of any lock. Only its version, its place and perhaps its sum are missing.
pub struct Draft<'a> {
    /// The key's hash.
    pub hash: KeyHash,
    value: Value<'a>,
    words: Vec<u64>,
    header: RecordHeader,
    /// The sum of its content, if it is computed already.
    content: Option<u64>,
    /// What it takes over from a present entry.
    pub takes_over: TakesOver,
    /// Whether the entry is never evicted.
    pub stays: bool,
}

/// What a record has besides its key and its value.
#[derive(Debug, Default, Clone, Copy)]
pub struct Extras<'a> {
    /// When it expires; none for never.
    pub expiry_us: Option<u64>,
    /// Its attributes, if it has any.
    pub attributes: Option<&'a NewAttributes<'a>>,
    /// Whether the entry is never evicted. Then the record has an expiry in any case, so that a later
    /// one needs no room.
    pub stays: bool,
}

/// What a draft takes over from the present entry of its key.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TakesOver {
    /// The expiry: [`Draft::set_expiry`].
    pub expiry: bool,
    /// The position, [`Draft::set_position`]. Without a present entry, it needs a new one.
    pub position: bool,
}

impl TakesOver {
    /// Whether it is anything.
    #[inline(always)]
    pub fn is_any(self) -> bool {
        self.expiry | self.position
    }
}

impl<'a> Draft<'a> {
    /// Builds the record, in the memory of `spare`, which [`Draft::into_spare`] returns. The caller
    /// has checked the lengths; of the value's tag six bits count.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`].
    #[inline(always)]
    pub fn new(
        key: &[u8],
        hash: KeyHash,
        value: Value<'a>,
        extras: Extras<'_>,
        shape: &Shape,
        spare: &mut Vec<u64>,
    ) -> Result<Draft<'a>> {
        let (tag, bytes): (u8, &[u8]) = match value {
            Value::Bytes { tag, bytes } => (tag, bytes),
            Value::Int(_) => (0, &[]),
        };
        // It may be far, and is copied soon.
        if bytes.len() > VALUE_BYTES_NEAR {
            prefetch_bytes(&bytes[..bytes.len().min(VALUE_BYTES_ASKED)]);
        }
        let (key_bytes, value_bytes) = (key.len() as u64, bytes.len() as u64);
        let Extras { mut expiry_us, attributes, stays } = extras;
        if stays {
            expiry_us = expiry_us.or(Some(expiry::NEVER_US));
        }
        let mut flags = 0;
        if expiry_us.is_some() {
            flags |= flag::EXPIRY;
        }
        if matches!(value, Value::Int(_)) {
            flags |= flag::NUMBER;
        }
        let (long, form) = match attributes {
            None => RecordHeader::form(tag, key_bytes, value_bytes),
            Some(_) => {
                (flag::LONG, RecordHeader::form_with_attributes(tag, key_bytes, value_bytes))
            }
        };
        let form_index = RecordHeader::form_index(flags | long) as usize;
        let attributes_word = attributes.map_or(0, NewAttributes::word);
        let word = |at| if at == form_index { form } else { attributes_word };
        let header =
            RecordHeader::parse(flags | long, word, shape).expect("lengths are checked before");
        let word_count = (header.log_bytes / 8) as usize;
        // All words of an earlier draft are overwritten, except the padding in the last one.
        // With room for slack: under the lock, nothing is allocated.
        let most = word_count + RecordHeader::SLACK_WORDS_MAX as usize;
        if spare.len() < most {
            lengthen(spare, most)?;
        }
        let mut spare = std::mem::take(spare);
        spare[word_count - 1] = 0;
        spare[0] = flags | long;
        if let Some(expiry_us) = expiry_us {
            spare[1] = expiry::word(expiry_us, hash);
        }
        if let Value::Int(number) = value {
            spare[header.number_at() as usize / 8] = number as u64;
        }
        spare[form_index] = form;
        if let Some(attributes) = attributes {
            attributes.write(&mut spare[form_index + 1..]);
        }
        let tail = &bytes[(header.body_count * shape.segment_bytes) as usize..];
        let payload = &mut bytes_of_mut(&mut spare[..word_count])[header.key_at as usize..];
        payload[..key.len()].copy_from_slice(key);
        payload[key.len()..key.len() + tail.len()].copy_from_slice(tail);
        let position = attributes.and_then(|attributes| attributes.position);
        // A record with bodies is summed when their places are known, one with an open position when
        // that is.
        let is_complete = header.body_count == 0 && position != Some(POSITION_OPEN);
        // One that is longer than a segment cannot be summed while it is written.
        let late_bytes = match sums_while_copying() {
            true => SUMMED_LATE_BYTES.min(shape.log_bytes),
            false => SUMMED_LATE_ALONE_BYTES,
        };
        let is_summed = is_complete && header.log_bytes > late_bytes;
        let content = is_summed.then(|| header.content(&spare));
        Ok(Draft {
            hash,
            value,
            words: spare,
            header,
            content,
            takes_over: TakesOver { expiry: false, position: position == Some(POSITION_OPEN) },
            stays,
        })
    }

    /// Enters the position in the order of insertion into a draft that has one.
    pub fn set_position(&mut self, position: u64) {
        debug_assert!(self.takes_over.position);
        let word = RecordHeader::form_index(self.header.sequence.flags()) as usize + 1;
        let at = word + attributes::position_index(self.words[word]) as usize;
        self.words[at] = position;
        self.content = None;
    }

    /// Enters another expiry into a draft that has one.
    pub fn set_expiry(&mut self, expiry_us: u64) {
        debug_assert!(self.header.has(flag::EXPIRY));
        self.words[1] = expiry::word(expiry_us, self.hash);
    }

    /// When the entry expires, [`expiry::NEVER_US`] for never.
    #[inline(always)]
    pub fn expiry_us(&self) -> u64 {
        match self.header.has(flag::EXPIRY) {
            true => expiry::moment_us(self.words[1], self.hash).unwrap_or(0),
            false => expiry::NEVER_US,
        }
    }

    /// How long the entry is kept as a stale one.
    pub fn stale_us(&self) -> u64 {
        let attributes = self.header.attributes(&self.words);
        attributes.ok().flatten().map_or(0, |attributes| attributes.stale_us)
    }

    /// The record header.
    pub fn header(&self) -> &RecordHeader {
        &self.header
    }

    /// The value.
    pub fn value(&self) -> Value<'a> {
        self.value
    }

    /// Gives the record slack, so that it has this length, which is at most
    /// [`RecordHeader::log_bytes_max`].
    #[inline]
    pub fn stretch(&mut self, log_bytes: u64) {
        let from = self.header.log_bytes;
        debug_assert!(from < log_bytes && log_bytes <= self.header.log_bytes_max());
        let form_index = RecordHeader::form_index(self.header.sequence.flags()) as usize;
        self.words[form_index] =
            RecordHeader::form_with_slack(self.words[form_index], log_bytes - from);
        self.words[(from / 8) as usize..(log_bytes / 8) as usize].fill(0);
        self.header.log_bytes = log_bytes;
        self.content = None;
    }

    /// Enters the places of the value's whole segments.
    pub fn set_bodies(&mut self, bodies: &[Body]) {
        let at = self.header.bodies_at() as usize / 8;
        let list = &mut self.words[at..at + BODY_WORDS as usize * bodies.len()];
        for (part, body) in list.chunks_exact_mut(BODY_WORDS as usize).zip(bodies) {
            part.copy_from_slice(&[body.segment, body.generation, body.hash]);
        }
        self.content = Some(self.header.content(&self.words));
    }

    /// Word 0 for this version, without the checksum.
    #[inline(always)]
    pub fn sequence(&self, version: u64) -> Sequence {
        Sequence::new(version, self.header.sequence.flags())
    }

    /// Its words. Word 0 is missing until [`Draft::seal`] enters it.
    #[inline(always)]
    pub fn words(&self) -> &[u64] {
        &self.words[..(self.header.log_bytes / 8) as usize]
    }

    /// The sum of its content, if it is computed already.
    #[inline(always)]
    pub fn content(&self) -> Option<u64> {
        self.content
    }

    /// Enters word 0 for this version and place into a draft whose content has this sum, and returns all
    /// words.
    #[inline(always)]
    pub fn seal(
        &mut self,
        content: u64,
        version: u64,
        place: RecordPlace,
        hasher: &Hasher,
    ) -> &[u64] {
        let header = self.header.with_sequence(self.sequence(version));
        header.seal(&mut self.words, content, hasher, self.hash, place);
        self.words()
    }

    /// Returns the memory.
    pub fn into_spare(self) -> Vec<u64> {
        self.words
    }
}

#[cfg(test)]
mod tests {
    use tuckbox_arena::Geometry;

    use super::super::plan::plan;
    use super::super::record::{KEY_BITS, VALUE_BITS, VERSION_BITS};
    use super::*;

    const PLACE: RecordPlace = RecordPlace { offset: 4096, generation: 7 };

    fn sealed<'d>(draft: &'d mut Draft<'_>, version: u64, hasher: &Hasher) -> &'d [u64] {
        let content = draft.header().content(draft.words());
        assert!(draft.content().is_none_or(|computed| computed == content));
        draft.seal(content, version, PLACE, hasher)
    }

    fn finished(key: &[u8], value: Value<'_>, expiry_us: Option<u64>, version: u64) -> Vec<u64> {
        let (hasher, shape) = (Hasher::new([5, 6]), shape());
        let (hash, mut spare) = (hasher.key(key), Vec::new());
        let extras = Extras { expiry_us, ..Extras::default() };
        let draft = Draft::new(key, hash, value, extras, &shape, &mut spare);
        sealed(&mut draft.unwrap(), version, &hasher).to_vec()
    }

    fn shape() -> Shape {
        Shape::new(&Geometry::new(plan(64 << 20, 0)).unwrap())
    }

    #[test]
    #[cfg_attr(miri, ignore = "only arithmetic, and much of it")]
    fn a_record_returns_what_it_was_built_from() {
        let (hasher, shape) = (Hasher::new([5, 6]), shape());
        let lens = |most: usize| [0, 1, 3, 4, 5, 11, 12, 36, most - 1, most, most + 1, 4 * most];
        for key_len in lens(1 << KEY_BITS) {
            let key: Vec<u8> = (0..key_len).map(|n| n as u8).collect();
            let hash = hasher.key(&key);
            for (value_len, expiry_us) in
                lens(1 << VALUE_BITS).map(|len| (len, (len % 2 == 0).then_some(9)))
            {
                let bytes: Vec<u8> = (0..value_len).map(|n| (n * 7) as u8).collect();
                for value in
                    [Value::Bytes { tag: 63, bytes: &bytes }, Value::Int(-(key_len as i64))]
                {
                    let words = finished(&key, value, expiry_us, 77);
                    let header = RecordHeader::from_copy(&words, &shape).unwrap();
                    assert_eq!(header.log_bytes as usize, words.len() * 8);
                    assert_eq!(header.key(&words), key);
                    assert!(header.has_key(&words, &key));
                    for wrong in 0..key_len.min(50) {
                        let mut other = key.clone();
                        other[key_len - 1 - wrong] ^= 0x80;
                        assert!(!header.has_key(&words, &other), "{key_len} {wrong}");
                    }
                    assert_eq!(
                        header.expiry_us(&words, hash),
                        Some(expiry_us.unwrap_or(expiry::NEVER_US))
                    );
                    match value {
                        Value::Int(number) => assert_eq!(header.number(&words), number),
                        Value::Bytes { tag, bytes } => {
                            assert_eq!((header.tag, header.tail(&words, &shape)), (tag, bytes));
                        }
                    }
                    let content = header.content(&words);
                    let checksum = header.checksum(content, &hasher, hash, PLACE);
                    assert_eq!(checksum, header.sequence.checksum());
                    let behind = RecordPlace { offset: PLACE.offset + 8, ..PLACE };
                    assert_ne!(checksum, header.checksum(content, &hasher, hash, behind));
                }
            }
        }
        let plain = finished(&[b'k'; 36], Value::bytes(&[0; 160]), None, 1);
        assert_eq!(plain.len() * 8, 12 + 36 + 160);
    }

    #[test]
    fn a_version_that_comes_again_is_another_state() {
        let shape = shape();
        let state = |value, version| {
            let words = finished(b"key", value, None, version);
            let header = RecordHeader::from_copy(&words, &shape).unwrap();
            header.version(header.content(&words))
        };
        let (one, other) = (Value::bytes(b"one"), Value::bytes(b"other"));
        assert_eq!(state(one, 5), state(one, 5 + (1 << VERSION_BITS)));
        assert_ne!(state(one, 5), state(other, 5 + (1 << VERSION_BITS)));
        assert_ne!(state(Value::Int(1), 5), state(Value::Int(2), 5));
        assert_ne!(state(Value::Int(1), 5), state(Value::Int(1 + (1 << 40)), 5));
        assert_ne!(state(one, 5), state(Value::Bytes { tag: 1, bytes: b"one" }, 5));
        assert_ne!(state(one, 5), state(one, 6));
        assert!(i64::try_from(state(other, u64::MAX)).is_ok());
    }

    #[test]
    fn the_latest_version_is_found_by_its_low_bits() {
        let (count, half) = (1 << VERSION_BITS, 1 << (VERSION_BITS - 1));
        let ends = [u64::MAX, u64::MAX - 5, u64::MAX - half + 1, u64::MAX - count];
        for last in [0, 5, half, count - 1, count, 7 * count + 3].into_iter().chain(ends) {
            for ahead in [0, 1, half - 1] {
                let latest = last.wrapping_add(ahead);
                assert_eq!(Sequence::new(latest, 0).latest_version(last), latest);
            }
            for behind in [1, half] {
                assert_eq!(Sequence::new(last.wrapping_sub(behind), 7).latest_version(last), last);
            }
        }
    }

    #[test]
    fn a_filler_is_as_long_as_it_was_to_be() {
        let shape = shape();
        assert_eq!(RecordHeader::filler(8), None);
        for log_bytes in [16, 24, 1024, shape.log_bytes] {
            let header =
                RecordHeader::from_copy(&RecordHeader::filler(log_bytes).unwrap(), &shape).unwrap();
            assert_eq!((header.log_bytes, header.key_bytes, header.body_count), (log_bytes, 0, 0));
        }
    }

    #[test]
    fn a_record_with_slack_is_as_long_as_it_was_to_be() {
        let (hasher, shape) = (Hasher::new([5, 6]), shape());
        for len in [0, 1, 40, 160, 1628, 4095] {
            let (bytes, hash) = (vec![7; len], hasher.key(b"key"));
            let draft = |spare: &mut Vec<u64>| {
                let value = Value::Bytes { tag: 63, bytes: &bytes };
                Draft::new(b"key", hash, value, Extras::default(), &shape, spare).unwrap()
            };
            let least = draft(&mut Vec::new()).header().log_bytes;
            let most = draft(&mut Vec::new()).header().log_bytes_max();
            assert!(most <= least + (least / 4).min(504), "{least}: {most}");
            for log_bytes in (least + 8..=most).step_by(8) {
                // What an earlier draft has left.
                let mut spare = vec![u64::MAX; 700];
                let mut draft = draft(&mut spare);
                draft.stretch(log_bytes);
                let words = sealed(&mut draft, 77, &hasher);
                let header = RecordHeader::from_copy(words, &shape).unwrap();
                assert_eq!((header.log_bytes, words.len() as u64 * 8), (log_bytes, log_bytes));
                assert_eq!((header.tag, header.key(words)), (63, &b"key"[..]));
                assert_eq!(header.tail(words, &shape), bytes);
                assert!(words[(least / 8) as usize..].iter().all(|word| *word == 0));
                let checksum = header.checksum(header.content(words), &hasher, hash, PLACE);
                assert_eq!(checksum, header.sequence.checksum());
            }
        }
    }
}
