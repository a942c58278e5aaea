//! Sums of products of short byte strings: NH, the first step of UMAC (J. Black, S. Halevi,
//! H. Krawczyk, T. Krovetz and P. Rogaway, "UMAC: Fast and Secure Message Authentication", 1999;
//! RFC 4418, section 5.2.2). Must not know what the bytes are.
//!
//! Each 32-bit word is added to a word of the key, modulo 2^32. Words are multiplied in pairs, and the
//! products added, modulo 2^64. Whoever does not know the key cannot choose two strings of one length
//! that have the same sum with better odds than 2^-32.
//!
//! The algorithm is specified in `docs/explanation/format.md`, "Notation". It is in this crate because
//! code for one kind of processor is unsafe to call; it does not touch shared memory.

/// The bytes that one step takes.
const STEP_BYTES: usize = 16;
const WORDS: usize = STEP_BYTES / 4;

/// The least length of a string in bytes.
pub const LEN_MIN: usize = STEP_BYTES + 1;
/// The greatest length of a string in bytes.
pub const LEN_MAX: usize = 4 * STEP_BYTES;

/// The words of a key, for each step others. Aligned so that an instruction can take a step's straight
/// from memory.
#[repr(align(16))]
pub struct Key(pub [[u32; WORDS]; 4]);

/// Two sums for a string of [`LEN_MIN`] to [`LEN_MAX`] bytes: of the first products of all steps, and of
/// the second ones. Of the last two steps each may overlap those before it.
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
    fn add(self, step: &[u8; STEP_BYTES], key: &[u32; WORDS]) -> Self;
    fn words(self) -> [u64; 2];
}

#[inline(always)]
fn sum_by<S: Sums>(key: &Key, string: &[u8]) -> [u64; 2] {
    let len = string.len();
    assert!((LEN_MIN..=LEN_MAX).contains(&len), "longer and shorter strings have another hash");
    let step = |at: usize| string[at..].first_chunk().expect("a whole step");
    let [first, last, second, last_but_one] = &key.0;
    let mut sums = S::none();
    if len > 2 * STEP_BYTES {
        sums = sums.add(step(STEP_BYTES), second);
        sums = sums.add(step(len - 2 * STEP_BYTES), last_but_one);
    }
    sums.add(step(0), first).add(step(len - STEP_BYTES), last).words()
}

struct Words([u64; 2]);

impl Sums for Words {
    fn none() -> Words {
        Words([0; 2])
    }

    #[inline(always)]
    fn add(self, step: &[u8; STEP_BYTES], key: &[u32; WORDS]) -> Words {
        let keyed = |index: usize| {
            let bytes = step[4 * index..].first_chunk().expect("a whole word");
            u64::from(u32::from_le_bytes(*bytes).wrapping_add(key[index]))
        };
        Words([0, 1].map(|pair| self.0[pair].wrapping_add(keyed(2 * pair) * keyed(2 * pair + 1))))
    }

    fn words(self) -> [u64; 2] {
        self.0
    }
}

/// SSE2, which every processor of this kind has.
#[cfg(all(target_arch = "x86_64", not(portable)))]
#[allow(unused_unsafe, reason = "most are not unsafe any more since Rust 1.87")]
mod x86_64 {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_add_epi64, _mm_cvtsi128_si64, _mm_loadu_si128, _mm_mul_epu32,
        _mm_setzero_si128, _mm_shuffle_epi32, _mm_unpackhi_epi64,
    };

    use super::{STEP_BYTES, WORDS};

    pub struct Sums(__m128i);

    impl super::Sums for Sums {
        #[inline(always)]
        fn none() -> Sums {
            // SAFETY: the processor has the instruction.
            Sums(unsafe { _mm_setzero_si128() })
        }

        #[inline(always)]
        fn add(self, step: &[u8; STEP_BYTES], key: &[u32; WORDS]) -> Sums {
            // SAFETY: the processor has the instructions. Both references are to 16 bytes.
            Sums(unsafe {
                let key = _mm_loadu_si128(key.as_ptr().cast());
                let keyed = _mm_add_epi32(_mm_loadu_si128(step.as_ptr().cast()), key);
                let odd_words = _mm_shuffle_epi32(keyed, 0b11_11_01_01);
                _mm_add_epi64(self.0, _mm_mul_epu32(keyed, odd_words))
            })
        }

        #[inline(always)]
        fn words(self) -> [u64; 2] {
            // SAFETY: the processor has the instructions.
            unsafe {
                let second = _mm_unpackhi_epi64(self.0, self.0);
                [self.0, second].map(|sum| _mm_cvtsi128_si64(sum) as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        let word = |number: usize| (number as u32 + 1).wrapping_mul(0x9e37_79b1);
        Key(std::array::from_fn(|step| std::array::from_fn(|index| word(WORDS * step + index))))
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

    /// The definition of UMAC for one whole string, with the words of the key in the order of the steps.
    #[test]
    fn sums_are_those_of_the_definition() {
        let string = string(7, LEN_MAX);
        let [first, last, second, last_but_one] = key().0;
        let keys = [first, second, last_but_one, last].concat();
        let words = string.chunks_exact(4).zip(keys).map(|(bytes, key)| {
            u64::from(u32::from_le_bytes(bytes.try_into().unwrap()).wrapping_add(key))
        });
        let words: Vec<u64> = words.collect();
        let sum = |from: usize| {
            (from..words.len())
                .step_by(4)
                .fold(0, |sum: u64, at| sum.wrapping_add(words[at] * words[at + 1]))
        };
        assert_eq!(of(&key(), &string), [sum(0), sum(2)]);
    }

    #[test]
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
