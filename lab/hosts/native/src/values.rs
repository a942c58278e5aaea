//! Derived values: a pseudo-random function of seed, key number and sequence, cut to length.
//!
//! Owns the derivation, which all hosts must repeat bit for bit (`PROTOCOL.md` has the formula).
//! Must not know who stores the values, or when.

use sha2::{Digest, Sha512};

/// The longest value, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 3 << 20;

const MARK_BYTES: usize = 8;
const HEAD_BYTES: usize = 64;
const POOL_BLOCKS: u32 = 1 << 16;
const WINDOWS: usize = 1 << 20;

/// Derives the values of one seed.
pub(crate) struct Values {
    seed: u64,
    pool: Vec<u8>,
}

impl Values {
    pub(crate) fn new(seed: u64) -> Values {
        let mut pool = Vec::with_capacity(POOL_BLOCKS as usize * HEAD_BYTES);
        for block in 0..POOL_BLOCKS {
            let hash = Sha512::new().chain_update(seed.to_le_bytes());
            pool.extend_from_slice(&hash.chain_update(block.to_le_bytes()).finalize());
        }
        Values { seed, pool }
    }

    /// The `length` bytes of `sequence` of `key`; at most [`VALUE_BYTES_MAX`].
    pub(crate) fn derive(&self, key: u64, sequence: u64, length: usize) -> Vec<u8> {
        let head = self.head(key, sequence);
        let (start, rest) = self.parts(&head, length);
        let mut value = Vec::with_capacity(length);
        value.extend_from_slice(start);
        value.extend_from_slice(rest);
        value
    }

    /// Whether `bytes` equal the result of [`Values::derive`].
    pub(crate) fn is(&self, key: u64, sequence: u64, length: usize, bytes: &[u8]) -> bool {
        if bytes.len() != length {
            return false;
        }
        let head = self.head(key, sequence);
        let (start, rest) = self.parts(&head, length);
        bytes[..start.len()] == *start && bytes[start.len()..] == *rest
    }

    /// The mark of that value, by which an answer is looked up: its first bytes.
    pub(crate) fn mark(&self, key: u64, sequence: u64, length: usize) -> u64 {
        mark_of(&self.head(key, sequence)[..length.min(HEAD_BYTES)])
    }

    fn head(&self, key: u64, sequence: u64) -> [u8; HEAD_BYTES] {
        let numbers = [self.seed, key, sequence].map(u64::to_le_bytes);
        Sha512::digest(numbers.as_flattened()).into()
    }

    /// The two parts of a value: from its head, and from the pool.
    fn parts<'a>(&'a self, head: &'a [u8; HEAD_BYTES], length: usize) -> (&'a [u8], &'a [u8]) {
        if length <= HEAD_BYTES {
            return (&head[..length], &[]);
        }
        let first = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let offset = first as usize % WINDOWS;
        (head, &self.pool[offset..offset + length - HEAD_BYTES])
    }
}

/// The mark of a value that starts with `bytes`.
pub(crate) fn mark_of(bytes: &[u8]) -> u64 {
    let mut mark = [0; MARK_BYTES];
    let length = bytes.len().min(MARK_BYTES);
    mark[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(mark)
}

#[cfg(test)]
mod tests {
    use sha2::Sha256;

    use super::*;

    fn hexadecimal(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_vectors_of_the_protocol() {
        let values = Values::new(1);
        assert_eq!(hexadecimal(&values.derive(2, 3, 16)), "b735f219bc273e57528ade22a8a2bb15");
        let last = &values.derive(2, 3, 160)[144..];
        assert_eq!(hexadecimal(last), "213f8fdc19127ea4b21dc76f14548aac");
        let digest = Sha256::digest(values.derive(2, 3, 2_222_981));
        assert_eq!(
            hexadecimal(&digest),
            "2ad75dc6464d534612a572b889bba549b7162a70d9530a16125371ca8484cff9"
        );
    }

    #[test]
    fn a_value_is_itself_and_nothing_near_it() {
        let values = Values::new(1);
        for length in [0, 1, 63, 64, 65, 160, VALUE_BYTES_MAX] {
            let mut value = values.derive(2, 3, length);
            assert_eq!(value.len(), length);
            assert!(values.is(2, 3, length, &value));
            assert_eq!(values.mark(2, 3, length), mark_of(&value));
            assert!(!values.is(2, 3, length + 1, &value));
            for other in [(2, 4), (3, 3)] {
                assert_eq!(values.is(other.0, other.1, length, &value), length == 0);
            }
            if let Some(last) = value.last_mut() {
                *last ^= 1;
                assert!(!values.is(2, 3, length, &value));
            }
        }
    }
}
