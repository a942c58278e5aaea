//! Values that check themselves. A stamped value contains its key, its writer and a sequence
//! number; its body follows from these, so that a torn, mixed, outdated or misplaced value cannot
//! pass. Must not know where values are stored.
//!
//! ```text
//! key hash, writer, sequence, length (8 bytes each), body of pseudo-random bytes, checksum (8)
//! ```

use twox_hash::XxHash3_64;

/// The shortest stamped value.
pub const STAMP_BYTES_MIN: usize = HEADER_BYTES + 8;
const HEADER_BYTES: usize = 32;

/// What a value says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The writer: any number that the test assigns.
    pub writer: u64,
    /// The writer's own count, or the key's.
    pub sequence: u64,
}

/// Why a value cannot have been stored under this key by a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampError {
    /// Shorter than any stamped value, or of another length than it says.
    Length,
    /// Its checksum does not match.
    Checksum,
    /// It was stored under another key.
    OtherKey,
    /// Its bytes do not follow from its stamp.
    Body,
}

/// A cheap generator of pseudo-random words (SplitMix64): one stream for each seed.
#[derive(Debug, Clone)]
pub struct Stream(u64);

impl Stream {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Stream {
        Stream(seed)
    }

    /// The next word.
    pub fn next_word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// A number below `count`, which is not zero. The bias is below `count / 2^64`.
    pub fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.next_word()) * u128::from(count)) >> 64) as u64
    }
}

fn body_stream(key_hash: u64, stamp: Stamp) -> Stream {
    let seed = key_hash ^ stamp.writer.rotate_left(32) ^ stamp.sequence.rotate_left(16);
    Stream::new(XxHash3_64::oneshot_with_seed(seed, &stamp.sequence.to_le_bytes()))
}

/// Writes a value of `len` bytes into `value`, replacing its content.
///
/// # Panics
/// If `len` is below [`STAMP_BYTES_MIN`].
pub fn make(key: &[u8], stamp: Stamp, len: usize, value: &mut Vec<u8>) {
    assert!(len >= STAMP_BYTES_MIN, "a stamped value has {STAMP_BYTES_MIN} bytes at least");
    let key_hash = XxHash3_64::oneshot(key);
    value.clear();
    for word in [key_hash, stamp.writer, stamp.sequence, len as u64] {
        value.extend_from_slice(&word.to_le_bytes());
    }
    let mut stream = body_stream(key_hash, stamp);
    while value.len() < len - 8 {
        let word = stream.next_word().to_le_bytes();
        let room = (len - 8 - value.len()).min(8);
        value.extend_from_slice(&word[..room]);
    }
    let checksum = XxHash3_64::oneshot(value);
    value.extend_from_slice(&checksum.to_le_bytes());
}

/// Reads a value that was found under `key`.
///
/// # Errors
/// Why it cannot have been stored there.
pub fn read(key: &[u8], value: &[u8]) -> Result<Stamp, StampError> {
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes"));
    if value.len() < STAMP_BYTES_MIN {
        return Err(StampError::Length);
    }
    let end = value.len() - 8;
    if XxHash3_64::oneshot(&value[..end]) != word(end) {
        return Err(StampError::Checksum);
    }
    if word(24) != value.len() as u64 {
        return Err(StampError::Length);
    }
    if word(0) != XxHash3_64::oneshot(key) {
        return Err(StampError::OtherKey);
    }
    let stamp = Stamp { writer: word(8), sequence: word(16) };
    let mut stream = body_stream(word(0), stamp);
    for part in value[HEADER_BYTES..end].chunks(8) {
        if *part != stream.next_word().to_le_bytes()[..part.len()] {
            return Err(StampError::Body);
        }
    }
    Ok(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(key: &[u8], sequence: u64, len: usize) -> Vec<u8> {
        let mut value = Vec::new();
        make(key, Stamp { writer: 3, sequence }, len, &mut value);
        value
    }

    #[test]
    fn a_value_of_any_length_reads_as_it_was_made() {
        for len in [40, 41, 47, 48, 100, 4096, 100_001] {
            let value = value(b"key", 9, len);
            assert_eq!(value.len(), len);
            assert_eq!(read(b"key", &value), Ok(Stamp { writer: 3, sequence: 9 }));
            assert_eq!(read(b"other", &value), Err(StampError::OtherKey));
            assert!(read(b"key", &value[..len - 1]).is_err());
        }
    }

    #[test]
    fn any_changed_byte_is_seen() {
        let good = value(b"key", 9, 100);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(read(b"key", &bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn two_halves_of_different_values_are_no_value() {
        let (one, two) = (value(b"key", 1, 200), value(b"key", 2, 200));
        for cut in (24..200).step_by(8) {
            let mixed: Vec<u8> = [&one[..cut], &two[cut..]].concat();
            assert!(read(b"key", &mixed).is_err(), "cut at {cut}");
        }
        // Not even with a valid checksum.
        let mut mixed = [&one[..96], &two[96..192]].concat();
        mixed.extend_from_slice(&XxHash3_64::oneshot(&mixed).to_le_bytes());
        assert_eq!(read(b"key", &mixed), Err(StampError::Body));
    }
}
