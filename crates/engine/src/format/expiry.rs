//! The expiry word of a record: a time in microseconds since 1970 by the file's clock, times a prime,
//! plus a number below the prime that follows from the key. Must not know the time.
//!
//! No change of one byte adds a multiple of the prime, so damage to a single byte is always
//! detected; of other damage one in about a thousand is not.

use super::hash::KeyHash;

const FACTOR: u64 = 1021;
/// Never, in the year 2540, where the file's clock ends.
pub const NEVER_US: u64 = 1 << 54;

#[inline(always)]
fn residue(key: KeyHash) -> u64 {
    ((key.0 & 0xffff_ffff) * FACTOR) >> 32
}

/// The word for a time; a time after the end of the file's clock means never.
pub fn word(moment_us: u64, key: KeyHash) -> u64 {
    moment_us.min(NEVER_US) * FACTOR + residue(key)
}

/// The time of a word, [`NEVER_US`] for never; none if the word is damaged.
#[inline]
pub fn moment_us(word: u64, key: KeyHash) -> Option<u64> {
    let product = word.wrapping_sub(residue(key));
    let moment_us = product / FACTOR;
    (moment_us * FACTOR == product && moment_us <= NEVER_US).then_some(moment_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_keeps_its_moment_and_no_changed_byte_passes() {
        for (moment, key) in [(0, 1), (1_700_000_000_000_000, u64::MAX), (u64::MAX, 0x1234_5678)] {
            let key = KeyHash(key);
            let word = word(moment, key);
            assert_eq!(moment_us(word, key), Some(moment.min(NEVER_US)));
            for byte in 0..8 {
                for mask in 1..=255u64 {
                    assert_eq!(moment_us(word ^ mask << (8 * byte), key), None);
                }
            }
        }
    }
}
