//! CRC-32C (Castagnoli) of words, by the processor's own instruction where it has one.
//!
//! An instruction waits three cycles for the one before it, so two sums are made side by side: one of
//! the words with even numbers, one of those with odd ones. It is here, and not with the other hashes,
//! because the call of code for one kind of processor is unsafe; it touches no shared memory.
//! [`Region::copy_out_summed`](crate::region::Region::copy_out_summed) makes the same sums.

/// What both sums begin with, so that zeros count as well.
pub(crate) const BEGIN: [u32; 2] = [0x5bd1_e995, 0x1b87_3593];

/// Both sums in one word.
#[inline(always)]
pub(crate) fn joined(even: u64, odd: u64) -> u64 {
    even << 32 | odd
}

/// The sums of the words with even and with odd numbers, the first in the upper half.
#[inline(always)]
pub fn pair_of(words: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { x86_64::pair_of(words) };
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("crc") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { aarch64::pair_of(words) };
    }
    by_table::pair_of(words)
}

/// The words of a slice, by a step of which each takes the sum so far and a word.
macro_rules! pair_by {
    ($words:expr, $step:ident, $sum:ty) => {{
        let (mut even, mut odd) = (<$sum>::from(BEGIN[0]), <$sum>::from(BEGIN[1]));
        let mut lines = $words.chunks_exact(8);
        for line in &mut lines {
            even = $step(even, line[0]);
            odd = $step(odd, line[1]);
            even = $step(even, line[2]);
            odd = $step(odd, line[3]);
            even = $step(even, line[4]);
            odd = $step(odd, line[5]);
            even = $step(even, line[6]);
            odd = $step(odd, line[7]);
        }
        let mut pairs = lines.remainder().chunks_exact(2);
        for pair in &mut pairs {
            even = $step(even, pair[0]);
            odd = $step(odd, pair[1]);
        }
        if let [last] = pairs.remainder() {
            even = $step(even, *last);
        }
        joined(u64::from(even), u64::from(odd))
    }};
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{joined, BEGIN};
    use std::arch::x86_64::_mm_crc32_u64;

    /// # Safety
    /// The processor must have SSE 4.2.
    #[target_feature(enable = "sse4.2")]
    pub unsafe fn pair_of(words: &[u64]) -> u64 {
        // SAFETY: the caller vouches for the processor; the instruction takes and gives registers.
        #[allow(unused_unsafe, reason = "not unsafe any more since Rust 1.87")]
        let step = |sum, word| unsafe { _mm_crc32_u64(sum, word) };
        pair_by!(words, step, u64)
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use super::{joined, BEGIN};
    use std::arch::aarch64::__crc32cd;

    /// # Safety
    /// The processor must have the CRC extension.
    #[target_feature(enable = "crc")]
    pub unsafe fn pair_of(words: &[u64]) -> u64 {
        // SAFETY: the caller vouches for the processor; the instruction takes and gives registers.
        #[allow(unused_unsafe, reason = "not unsafe any more since Rust 1.87")]
        let step = |sum, word| unsafe { __crc32cd(sum, word) };
        pair_by!(words, step, u32)
    }
}

mod by_table {
    use super::{joined, BEGIN};

    /// The polynomial, its bits reversed.
    const POLYNOMIAL: u32 = 0x82f6_3b78;

    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut sum, mut bit) = (byte as u32, 0);
            while bit < 8 {
                sum = if sum & 1 == 0 { sum >> 1 } else { sum >> 1 ^ POLYNOMIAL };
                bit += 1;
            }
            table[byte] = sum;
            byte += 1;
        }
        table
    };

    pub fn step(sum: u32, word: u64) -> u32 {
        let next = |sum: u32, byte: &u8| TABLE[usize::from(sum as u8 ^ byte)] ^ sum >> 8;
        word.to_le_bytes().iter().fold(sum, next)
    }

    pub fn pair_of(words: &[u64]) -> u64 {
        pair_by!(words, step, u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720, B.4.
    #[test]
    fn the_sum_is_the_one_of_the_standard() {
        let sum = |words: [u64; 4]| !words.iter().fold(!0, |sum, word| by_table::step(sum, *word));
        assert_eq!(sum([0; 4]), 0x8a91_36aa);
        assert_eq!(sum([u64::MAX; 4]), 0x62a8_ab43);
        let rising = std::array::from_fn(|n| {
            u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|b| b + 8 * n as u8))
        });
        assert_eq!(sum(rising), 0x46dd_794e);
    }

    #[test]
    fn instruction_and_table_agree() {
        let words: Vec<u64> = (1..100u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for count in 0..words.len() {
            assert_eq!(pair_of(&words[..count]), by_table::pair_of(&words[..count]), "{count}");
        }
    }

    #[test]
    fn every_bit_counts_and_so_do_zeros() {
        for count in [1, 2, 7, 8, 25, 64] {
            let words = vec![0u64; count];
            let sum = pair_of(&words);
            assert_ne!(sum, pair_of(&words[1..]));
            for bit in 0..64 * count {
                let mut other = words.clone();
                other[bit / 64] ^= 1 << (bit % 64);
                assert_ne!(sum, pair_of(&other), "{count} words, bit {bit}");
            }
        }
    }
}
