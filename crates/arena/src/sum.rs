//! A 64-bit sum of words, by rounds of the AES cipher: damaged or torn words have another sum. Must
//! not know what the words are. It is no authentication: its constants are public.
//!
//! Four states take two words in turn, each by one round whose key are these words. A processor has
//! an instruction for that; the instruction has a latency of four cycles, hence four states. At the
//! end the states are joined by rounds, each the key of a round of those before it, so that the
//! same change of two states does not cancel out. Three more rounds spread every change of the last
//! words over the whole sum. A round can be undone, so a change within the sixteen bytes of one
//! round is never lost; changes further apart cancel out only by chance, with odds of about 2^-32
//! if made on purpose.
//!
//! The number of words is not part of the sum: the first word of a record tells it. The algorithm
//! is specified in `docs/explanation/format.md`, "Records". It is in this crate because code for
//! one kind of processor is unsafe to call; it does not touch shared memory.
//! [`SegmentSlice::copy_out_summed`](crate::region::SegmentSlice::copy_out_summed) and
//! [`Region::copy_in_summed`](crate::region::Region::copy_in_summed) compute the same sums.

/// The first digits of pi: the four states at the beginning. The first three are also the keys of
/// the last three rounds.
pub(crate) static BEGIN: States = States([
    [0x1319_8a2e_0370_7344, 0x243f_6a88_85a3_08d3],
    [0x082e_fa98_ec4e_6c89, 0xa409_3822_299f_31d0],
    [0xbe54_66cf_34e9_0c6c, 0x4528_21e6_38d0_1377],
    [0x3f84_d5b5_b547_0917, 0xc0ac_29b7_c97c_50dd],
]);

/// States, aligned so that an instruction can take one straight from memory.
#[repr(align(16))]
pub(crate) struct States([[u64; 2]; 4]);

/// Whether sums are computed by the processor's instructions. If not, by a table: the processor
/// lacks them, or the build has `--cfg portable`.
#[inline(always)]
pub fn has_instructions() -> bool {
    #[cfg(all(target_arch = "x86_64", not(portable)))]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(all(target_arch = "aarch64", target_endian = "little", not(portable)))]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[allow(unreachable_code, reason = "reached on other processors")]
    false
}

/// The sum of some words. A zero behind an even number of words does not change it.
#[inline(always)]
pub fn of(words: &[u64]) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(portable)))]
    if has_instructions() {
        // SAFETY: the processor has the instructions that the function is compiled for.
        return unsafe { x86_64::of(words) };
    }
    #[cfg(all(target_arch = "aarch64", target_endian = "little", not(portable)))]
    if has_instructions() {
        // SAFETY: the processor has the instructions that the function is compiled for.
        return unsafe { aarch64::of(words) };
    }
    by_table::of(words)
}

/// The sum of a slice, given functions that make a state of two words, XOR two states, and do a
/// round.
///
/// A last odd word is XORed to the fourth state. Then every eight words are one pair for each
/// state; of the rest, four words go to the first and second state, and two to the third.
macro_rules! sum_by {
    ($words:expr, $state:ident, $added:ident, $round:ident) => {{
        let [first, second, third, fourth] = BEGIN.0.map(|[low, high]| $state(low, high));
        let (mut one, mut two, mut three, mut four) = (first, second, third, fourth);
        let (pairs, last) = $words.split_at($words.len() & !1);
        if let [last] = last {
            four = $added(four, $state(*last, 0));
        }
        let mut lines = pairs.chunks_exact(8);
        for line in &mut lines {
            one = $round(one, $state(line[0], line[1]));
            two = $round(two, $state(line[2], line[3]));
            three = $round(three, $state(line[4], line[5]));
            four = $round(four, $state(line[6], line[7]));
        }
        let mut rest = lines.remainder();
        if let [a, b, c, d, more @ ..] = rest {
            one = $round(one, $state(*a, *b));
            two = $round(two, $state(*c, *d));
            rest = more;
        }
        if let [a, b] = rest {
            three = $round(three, $state(*a, *b));
        }
        let joined = $round($round($round(one, two), three), four);
        $round($round($round(joined, first), second), third)
    }};
}

#[cfg(all(target_arch = "x86_64", not(portable)))]
mod x86_64 {
    use super::BEGIN;
    use std::arch::x86_64::{
        __m128i, _mm_aesenc_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_xor_si128,
    };

    /// # Safety
    /// The processor must have AES.
    #[target_feature(enable = "aes")]
    #[allow(unused_unsafe, reason = "not unsafe any more since Rust 1.87")]
    pub unsafe fn of(words: &[u64]) -> u64 {
        // SAFETY: the caller guarantees the processor; the instructions only use registers.
        let state = |low, high| unsafe { _mm_set_epi64x(high as i64, low as i64) };
        // SAFETY: as above.
        let added = |state: __m128i, other: __m128i| unsafe { _mm_xor_si128(state, other) };
        // SAFETY: as above.
        let round = |state: __m128i, key: __m128i| unsafe { _mm_aesenc_si128(state, key) };
        let sum = sum_by!(words, state, added, round);
        // SAFETY: as above.
        unsafe { _mm_cvtsi128_si64(sum) as u64 }
    }
}

#[cfg(all(target_arch = "aarch64", target_endian = "little", not(portable)))]
mod aarch64 {
    use super::BEGIN;
    use std::arch::aarch64::{
        uint8x16_t, vaeseq_u8, vaesmcq_u8, vcombine_u64, vcreate_u64, vdupq_n_u8, veorq_u8,
        vgetq_lane_u64, vreinterpretq_u64_u8, vreinterpretq_u8_u64,
    };

    /// # Safety
    /// The processor must have AES.
    #[target_feature(enable = "aes")]
    #[allow(unused_unsafe, reason = "not unsafe any more since Rust 1.87")]
    pub unsafe fn of(words: &[u64]) -> u64 {
        // SAFETY: the caller guarantees the processor; the instructions only use registers.
        let state = |low, high| unsafe {
            vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)))
        };
        // SAFETY: as above.
        let added = |state: uint8x16_t, other: uint8x16_t| unsafe { veorq_u8(state, other) };
        // SAFETY: as above. This processor adds a key before a round, x86-64 after it.
        let round = |state: uint8x16_t, key: uint8x16_t| unsafe {
            veorq_u8(vaesmcq_u8(vaeseq_u8(state, vdupq_n_u8(0))), key)
        };
        let sum = sum_by!(words, state, added, round);
        // SAFETY: as above.
        unsafe { vgetq_lane_u64(vreinterpretq_u64_u8(sum), 0) }
    }
}

mod by_table {
    use super::BEGIN;

    /// FIPS 197, section 5.1.1: the inverse in GF(2^8) and an affine map of it. The loop runs
    /// through all elements as powers of 3, together with their inverses.
    const SUBSTITUTES: [u8; 256] = {
        let mut table = [0; 256];
        let (mut power, mut inverse) = (1u8, 1u8);
        loop {
            power ^= doubled(power);
            inverse ^= inverse << 1;
            inverse ^= inverse << 2;
            inverse ^= inverse << 4;
            if inverse & 0x80 != 0 {
                inverse ^= 0x09;
            }
            let turned = inverse
                ^ inverse.rotate_left(1)
                ^ inverse.rotate_left(2)
                ^ inverse.rotate_left(3)
                ^ inverse.rotate_left(4);
            table[power as usize] = turned ^ 0x63;
            if power == 1 {
                break;
            }
        }
        table[0] = 0x63;
        table
    };

    /// The contribution of a byte of the first row to its column: sections 5.1.1 and 5.1.3 at once.
    /// A byte of another row contributes the same, rotated by as many bytes.
    const COLUMNS: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let once = SUBSTITUTES[byte];
            let twice = doubled(once);
            table[byte] = u32::from_le_bytes([twice, once, once, twice ^ once]);
            byte += 1;
        }
        table
    };

    const fn doubled(element: u8) -> u8 {
        let shifted = element << 1;
        if element & 0x80 == 0 {
            shifted
        } else {
            shifted ^ 0x1b
        }
    }

    /// A round with its key. The first byte is the lowest.
    pub(super) fn round(state: u128, key: u128) -> u128 {
        let bytes = state.to_le_bytes();
        let column = |number: usize| {
            (0..4).fold(0, |column, row| {
                let byte = bytes[(number + row) % 4 * 4 + row];
                column ^ COLUMNS[usize::from(byte)].rotate_left(8 * row as u32)
            })
        };
        (0..4).fold(key, |result, number| result ^ u128::from(column(number)) << (32 * number))
    }

    pub fn of(words: &[u64]) -> u64 {
        let state = |low: u64, high: u64| u128::from(low) | u128::from(high) << 64;
        let added = |state: u128, other: u128| state ^ other;
        sum_by!(words, state, added, round) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{Pool, Region};

    /// [`digest_of`] the right sums.
    const DIGEST: u64 = 0xa114_3780_c716_6118;

    /// Sums of the first words of a sequence, for many counts, as one number. Each step of the fold
    /// is a bijection, so one wrong sum always changes the result.
    fn digest_of(path: impl Fn(&[u64]) -> u64) -> u64 {
        let words: Vec<u64> = (1..=300u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let counts = (0..=72).chain([127, 128, 129, 255, 256, 300]);
        counts.fold(0, |digest: u64, count| {
            (digest.rotate_left(29) ^ path(&words[..count])).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        })
    }

    /// The same constant on every system: here for the path that this system takes, and the table.
    #[test]
    fn the_paths_agree_with_those_of_every_other_system() {
        assert_eq!(digest_of(of), DIGEST, "by instructions: {}", has_instructions());
        assert_eq!(digest_of(by_table::of), DIGEST, "by table");
    }

    /// Sums that are computed while the words are copied.
    #[test]
    fn sums_of_copies_are_those_of_every_other_system() {
        let mut region = Region::heap(64 + 4096);
        region.set_pool(Pool { at: 64, words_at: 0, segment_shift: 12, segment_count: 1 });
        for from in [1, 2] {
            let digest = digest_of(|words| {
                // A copy has at least two words.
                let from = if words.is_empty() { 2 } else { from };
                region.copy_in(64 + 8 * from as u64, words);
                let mut target = vec![0; from + words.len()];
                let sum = region.segment_slice(64).unwrap().copy_out_summed(&mut target, from, 0);
                assert_eq!(target[from..], *words);
                sum.expect("a segment that is long enough")
            });
            assert_eq!(digest, DIGEST, "from word {from}");
        }
        let digest = digest_of(|words| {
            let sum = region.copy_in_summed(72, words);
            let mut target = vec![0; words.len()];
            region.copy_out(72, &mut target);
            assert_eq!(target, *words);
            sum
        });
        assert_eq!(digest, DIGEST, "into the region");
    }

    #[test]
    fn one_wrong_bit_of_one_sum_is_noticed() {
        for (count, bit) in [(0, 0), (1, 63), (7, 9), (72, 31), (300, 32)] {
            let broken = |words: &[u64]| of(words) ^ u64::from(words.len() == count) << bit;
            assert_ne!(digest_of(broken), DIGEST, "{count} words");
        }
    }

    /// Count and sum of the words 1, 2, 3 and so on.
    const KNOWN: [(usize, u64); 7] = [
        (0, 0xc3f0_b91b_102f_cc2b),
        (1, 0xb7a9_8b23_3635_a484),
        (2, 0x70c8_86b1_b18d_b9da),
        (7, 0x6ee1_6b47_a064_1a98),
        (8, 0x3c89_b1a7_b84a_76ec),
        (16, 0x6617_c78c_3bda_e2d6),
        (25, 0x6e75_6f50_c3f6_0db0),
    ];

    /// FIPS 197, appendix B: the first round of the example.
    #[test]
    fn a_round_is_the_one_of_the_standard() {
        let bytes = |hex: u128| u128::from_be_bytes(hex.to_le_bytes());
        let start = bytes(0x193d_e3be_a0f4_e22b_9ac6_8d2a_e9f8_4808);
        let key = bytes(0xa0fa_fe17_8854_2cb1_23a3_3939_2a6c_7605);
        let second = bytes(0xa49c_7ff2_689f_352b_6b5b_ea43_026a_5049);
        assert_eq!(by_table::round(start, key), second);
    }

    #[test]
    fn instruction_and_table_agree() {
        let words: Vec<u64> = (1..100u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for count in 0..words.len() {
            assert_eq!(of(&words[..count]), by_table::of(&words[..count]), "{count}");
        }
    }

    /// For authors of other programs for these files; docs/explanation/format.md has one of these
    /// sums.
    #[test]
    fn the_sums_are_those_of_every_build() {
        let words: Vec<u64> = (1..26).collect();
        for (count, sum) in KNOWN {
            assert_eq!((by_table::of(&words[..count]), of(&words[..count])), (sum, sum), "{count}");
        }
    }

    /// Bytes that one round brings together in one column: with too few final rounds two of them
    /// could be lost.
    #[test]
    #[cfg_attr(miri, ignore = "only arithmetic, and much of it")]
    fn changes_of_bytes_that_come_together_count() {
        let mut words: Vec<u64> =
            (0..16).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let sum = of(&words);
        let mut chance = 1u64;
        for trial in 0..800_000 {
            let (block, diagonal) = (trial % 8, trial / 8 % 4);
            chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let mut change = [0; 16];
            for (row, byte) in (chance >> 32).to_le_bytes()[..4].iter().enumerate() {
                change[(diagonal + row) % 4 * 4 + row] = *byte;
            }
            let change = u128::from_le_bytes(change);
            let halves = [change as u64, (change >> 64) as u64];
            for half in [0, 1] {
                words[2 * block + half] ^= halves[half];
            }
            assert!(change == 0 || sum != of(&words), "{change:032x} of block {block}");
            for half in [0, 1] {
                words[2 * block + half] ^= halves[half];
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "only arithmetic, and much of it")]
    fn every_bit_counts() {
        for count in [1, 2, 3, 7, 8, 25, 64] {
            let words = vec![0u64; count];
            let sum = of(&words);
            for bit in 0..64 * count {
                let mut other = words.clone();
                other[bit / 64] ^= 1 << (bit % 64);
                // For every bit, nearly all bytes of the sum differ.
                let same =
                    (sum ^ of(&other)).to_le_bytes().iter().filter(|byte| **byte == 0).count();
                assert!(same <= 2, "{count} words, bit {bit}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "only arithmetic, and much of it")]
    fn the_same_change_in_two_words_counts() {
        for (count, bit) in [(25, 0), (24, 63), (32, 7), (31, 40), (64, 17)] {
            let words: Vec<u64> = (0..count).map(|n| n * n).collect();
            let sum = of(&words);
            for one in 0..words.len() {
                for other in 0..one {
                    let mut changed = words.clone();
                    changed[one] ^= 1 << bit;
                    changed[other] ^= 1 << bit;
                    assert_ne!(sum, of(&changed), "bit {bit} of {one} and {other} of {count}");
                    let mut moved = words.clone();
                    moved.swap(one, other);
                    assert_ne!(sum, of(&moved), "{one} and {other} of {count}");
                }
            }
        }
    }
}
