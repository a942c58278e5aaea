//! Two sums of a string of 17 to 64 bytes, for a hash. Must not know what the bytes are.
//!
//! They are sums of NH (J. Black, S. Halevi, H. Krawczyk, T. Krovetz and P. Rogaway, "UMAC: Fast and
//! Secure Message Authentication", 1999): each 32-bit word is added to a word of the key, modulo 2^32,
//! and the sum of the products of word pairs is taken, modulo 2^64. Here the pairs add to two sums in
//! turn. For whoever does not know the key, two strings of one length have the same two sums with odds of
//! 2^-32 at most.
//!
//! Products of similar numbers are equal more often than random words would be. So each keyed
//! pair is also added, as one word, to the sum that does not have its product, as XXH3 does for long
//! inputs.
//!
//! The algorithm is specified in `docs/explanation/format.md`, "Index". It is in this crate because
//! code for one kind of processor is unsafe to call; it does not touch shared memory.

/// The bytes that one step takes.
const STEP_BYTES: usize = 16;
const WORDS: usize = STEP_BYTES / 4;

/// The least length of a string in bytes.
pub const LEN_MIN: usize = STEP_BYTES + 1;
/// The greatest length of a string in bytes.
pub const LEN_MAX: usize = 4 * STEP_BYTES;

/// Random words for a step. Aligned so that an instruction can read them from memory.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub struct Row(pub [u32; WORDS]);

/// A row for each step.
pub type Key = [Row; 4];

/// The two sums of a string of [`LEN_MIN`] to [`LEN_MAX`] bytes. Its steps overlap unless it has a multiple
/// of 16 bytes.
///
/// # Panics
/// If the string has another length.
#[inline(always)]
pub fn of(key: &Key, string: &[u8]) -> [u64; 2] {
    #[cfg(all(target_arch = "x86_64", not(portable)))]
    return sum_by::<x86_64::Sums>(key, string);
    #[allow(unreachable_code, reason = "reached on other processors")]
    sum_by::<Words>(key, string)
}

/// Two sums, and how a processor adds to them.
trait Sums {
    fn none() -> Self;
    fn add(self, step: &[u8; STEP_BYTES], row: &Row) -> Self;
    fn words(self) -> [u64; 2];
}

#[inline(always)]
fn sum_by<S: Sums>(key: &Key, string: &[u8]) -> [u64; 2] {
    let len = string.len();
    assert!((LEN_MIN..=LEN_MAX).contains(&len), "longer and shorter strings have another hash");
    let step = |at: usize| string[at..].first_chunk().expect("a whole step");
    let [first, last, second, last_but_one] = key;
    let mut sums = S::none();
    if len > 2 * STEP_BYTES {
        sums = sums.add(step(STEP_BYTES), second);
        sums = sums.add(step(len - 2 * STEP_BYTES), last_but_one);
    }
    sums.add(step(0), first).add(step(len - STEP_BYTES), last).words()
}

/// The sums of the products, and those of the keyed pairs.
struct Words([u64; 2], [u64; 2]);

impl Sums for Words {
    fn none() -> Words {
        Words([0; 2], [0; 2])
    }

    #[inline(always)]
    fn add(self, step: &[u8; STEP_BYTES], row: &Row) -> Words {
        let keyed = |index: usize| {
            let bytes = step[4 * index..].first_chunk().expect("a whole word");
            u64::from(u32::from_le_bytes(*bytes).wrapping_add(row.0[index]))
        };
        let product = |pair: usize| keyed(2 * pair) * keyed(2 * pair + 1);
        let joined = |pair: usize| keyed(2 * pair) | keyed(2 * pair + 1) << 32;
        Words(
            [0, 1].map(|pair| self.0[pair].wrapping_add(product(pair))),
            [0, 1].map(|pair| self.1[pair].wrapping_add(joined(pair))),
        )
    }

    fn words(self) -> [u64; 2] {
        [0, 1].map(|pair| self.0[pair].wrapping_add(self.1[1 - pair]))
    }
}

/// SSE2, which every processor of this kind has.
#[cfg(all(target_arch = "x86_64", not(portable)))]
#[allow(unused_unsafe, reason = "most are not unsafe any more since Rust 1.87")]
mod x86_64 {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_add_epi64, _mm_cvtsi128_si64, _mm_load_si128, _mm_loadu_si128,
        _mm_mul_epu32, _mm_setzero_si128, _mm_shuffle_epi32, _mm_unpackhi_epi64,
    };

    use super::{Row, STEP_BYTES};

    /// The sums of the products, and those of the keyed pairs.
    pub struct Sums(__m128i, __m128i);

    impl super::Sums for Sums {
        #[inline(always)]
        fn none() -> Sums {
            // SAFETY: the processor has the instruction.
            unsafe { Sums(_mm_setzero_si128(), _mm_setzero_si128()) }
        }

        #[inline(always)]
        fn add(self, step: &[u8; STEP_BYTES], row: &Row) -> Sums {
            // SAFETY: the processor has the instructions. Both references are to 16 bytes, and a row
            // is aligned.
            unsafe {
                let row = _mm_load_si128(row.0.as_ptr().cast());
                let keyed = _mm_add_epi32(_mm_loadu_si128(step.as_ptr().cast()), row);
                let odd_words = _mm_shuffle_epi32(keyed, 0b11_11_01_01);
                let products = _mm_mul_epu32(keyed, odd_words);
                Sums(_mm_add_epi64(self.0, products), _mm_add_epi64(self.1, keyed))
            }
        }

        #[inline(always)]
        fn words(self) -> [u64; 2] {
            // SAFETY: the processor has the instructions.
            unsafe {
                let swapped = _mm_shuffle_epi32(self.1, 0b01_00_11_10);
                let sums = _mm_add_epi64(self.0, swapped);
                let second = _mm_unpackhi_epi64(sums, sums);
                [sums, second].map(|sum| _mm_cvtsi128_si64(sum) as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        let word = |number: usize| (number as u32 + 1).wrapping_mul(0x9e37_79b1);
        std::array::from_fn(|row| Row(std::array::from_fn(|index| word(WORDS * row + index))))
    }

    fn string(seed: u32, len: usize) -> Vec<u8> {
        (1..=len as u32).map(|n| (n.wrapping_mul(0x9e37_79b1 ^ seed) >> 24) as u8).collect()
    }

    #[test]
    fn instructions_and_words_agree() {
        for len in LEN_MIN..=LEN_MAX {
            for seed in 0..20 {
                let string = string(seed, len);
                assert_eq!(of(&key(), &string), sum_by::<Words>(&key(), &string), "{string:?}");
            }
        }
    }

    /// The definition, for one whole string and the words of the key in the order of the steps.
    #[test]
    fn sums_are_those_of_the_definition() {
        let string = string(7, LEN_MAX);
        let [first, last, second, last_but_one] = key().map(|row| row.0);
        let keys = [first, second, last_but_one, last].concat();
        let mut sums = [0u64; 2];
        for (pair, bytes) in string.chunks_exact(8).enumerate() {
            let word = |half: usize| {
                let word = u32::from_le_bytes(bytes[4 * half..][..4].try_into().unwrap());
                u64::from(word.wrapping_add(keys[2 * pair + half]))
            };
            sums[pair % 2] = sums[pair % 2].wrapping_add(word(0) * word(1));
            sums[1 - pair % 2] = sums[1 - pair % 2].wrapping_add(word(0) + (word(1) << 32));
        }
        assert_eq!(of(&key(), &string), sums);
    }

    /// Without words of the key these two have the same products.
    #[test]
    fn equal_products_have_other_sums() {
        let none = [Row([0; WORDS]); 4];
        let of_words = |words: [u32; 2]| {
            let mut string = [0; 24];
            string[..4].copy_from_slice(&words[0].to_le_bytes());
            string[4..8].copy_from_slice(&words[1].to_le_bytes());
            of(&none, &string)
        };
        let [one, other] = [[2, 6], [3, 4]].map(of_words);
        assert_eq!(one[0], other[0]);
        assert_ne!(one[1], other[1]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "only arithmetic, and much of it")]
    fn every_bit_counts() {
        for len in LEN_MIN..=LEN_MAX {
            let string = string(3, len);
            let sums = of(&key(), &string);
            for bit in 0..8 * len {
                let mut other = string.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(of(&key(), &other), sums, "bit {bit} of {len} bytes");
            }
        }
    }

    #[test]
    #[should_panic(expected = "another hash")]
    fn other_lengths_are_refused() {
        of(&key(), &string(1, LEN_MAX + 1));
    }
}
