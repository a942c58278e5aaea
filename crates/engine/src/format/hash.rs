//! Hashes and checksums, keyed with random numbers of the file. Must not know what is hashed.
//!
//! NH and XXH3 with a secret for each file: without the file's key nobody can choose colliding keys.
//! Someone who can read the file can, but buckets have bounded length and the whole key is compared. This
//! is no authentication.

use tuckbox_arena::products;
use twox_hash::XxHash3_64;

const SECRET_BYTES: usize = 192;
/// Odd, so that the low bits of the product differ for tags that differ there.
pub(super) const TAG_FACTOR: u32 = 0x9e37_79b1;

/// The keyed hash of one file.
pub struct Hasher {
    products: products::Key,
    secret: [u8; SECRET_BYTES],
    mixers: [u64; 5],
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Both halves of the product, XORed into one word.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// A key's hash, and its parts for different uses.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// The shard among `count`; from the highest bits.
    #[inline(always)]
    pub fn shard(self, count: u64) -> u64 {
        ((self.0 >> 48) * count) >> 16
    }

    /// For the first choice of a bucket.
    #[inline(always)]
    pub fn first(self) -> u32 {
        self.0 as u32
    }

    /// For the second choice. The tag tells one choice from the other, so that an entry can move
    /// between its buckets without a look at its key.
    #[inline(always)]
    pub fn second(self) -> u32 {
        self.first() ^ choices_apart(self.tag())
    }

    /// The tag in the slot: 16 bits on which the first choice does not depend.
    #[inline(always)]
    pub fn tag(self) -> u64 {
        let moved = u64::from(tuckbox_arena::mutants::is_on("other-tag"));
        self.0 >> (32 + moved) & 0xffff
    }

    /// A pseudo-random number for each `turn`. Not for secrets.
    pub fn chance(self, turn: u64) -> u64 {
        fold(self.0 ^ turn.wrapping_mul(0xbf58_476d_1ce4_e5b9), 0x9e37_79b9_7f4a_7c15)
    }

    /// The fingerprint of a ghost: 12 bits, never 0.
    pub fn fingerprint(self) -> u16 {
        ((self.0 >> 36) as u16 & 0xfff).max(1)
    }
}

/// The bits in which the two choices of a key with this tag differ.
#[inline(always)]
pub fn choices_apart(tag: u64) -> u32 {
    (tag as u32).wrapping_mul(TAG_FACTOR)
}

/// Where a record begins, and the use of its segment in which it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlace {
    /// Its offset.
    pub offset: u64,
    /// The generation of its segment.
    pub generation: u64,
}

impl Hasher {
    /// From the random key of the file.
    pub fn new(key: [u64; 2]) -> Hasher {
        let mut state = key[0];
        let mut secret = [0; SECRET_BYTES];
        for (index, chunk) in secret.chunks_exact_mut(8).enumerate() {
            let word = split_mix(&mut state) ^ key[1].rotate_left(index as u32);
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        let mut words = secret
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
        let rows = [[(); 4]; 4].map(|row| row.map(|()| words.next().expect("a word")));
        let mixers = [0; 5].map(|_: u64| split_mix(&mut state) ^ key[1]);
        Hasher { products: rows.map(products::Row), secret, mixers }
    }

    /// Hashes a key, by NH if it has 17 to 64 bytes. Two keys of one file can have the same hash.
    #[inline(always)]
    pub fn key(&self, key: &[u8]) -> KeyHash {
        if !(products::LEN_MIN..=products::LEN_MAX).contains(&key.len()) {
            return KeyHash(self.bytes(key));
        }
        let [first, second] = products::of(&self.products, key);
        let [.., for_first, for_second] = self.mixers;
        KeyHash(fold(first ^ for_first, second ^ for_second ^ key.len() as u64))
    }

    /// Hashes other bytes, or a key where another hash than [`Hasher::key`]'s is needed, by XXH3.
    #[inline(always)]
    pub fn bytes(&self, bytes: &[u8]) -> u64 {
        XxHash3_64::oneshot_with_secret(&self.secret, bytes).expect("the secret is long enough")
    }

    /// The checksum of a record: of its key, content, word 0 and place, so that a record of another
    /// place or an earlier use of the segment does not match.
    #[inline(always)]
    pub fn checksum(&self, key: KeyHash, content: u64, sequence: u64, place: RecordPlace) -> u32 {
        let state = sequence ^ place.generation.rotate_left(48);
        let first = fold(key.0 ^ self.mixers[0], state ^ self.mixers[1]);
        fold(first ^ content ^ place.offset, self.mixers[2] | 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: RecordPlace = RecordPlace { offset: 4096, generation: 7 };

    #[test]
    fn files_hash_differently() {
        let (one, two) = (Hasher::new([1, 2]), Hasher::new([1, 3]));
        assert_ne!(one.key(b"key"), two.key(b"key"));
        assert_eq!(one.key(b"key"), Hasher::new([1, 2]).key(b"key"));
    }

    /// The hash has other code for each processor. This constant is the same on all of them.
    #[test]
    fn hashes_are_those_of_every_other_system() {
        let hasher = Hasher::new([5, 6]);
        let bytes: Vec<u8> =
            (0..1500u32).map(|n| (n.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        // Each step is a bijection, so one wrong hash or checksum changes the result.
        let digest = (0..=bytes.len()).fold(0u64, |digest, count| {
            let (key, other) = (hasher.key(&bytes[..count]), hasher.bytes(&bytes[..count]));
            let sum = hasher.checksum(key, other, count as u64, PLACE);
            (digest.rotate_left(29) ^ key.0)
                .wrapping_add(u64::from(sum))
                .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        });
        assert_eq!(digest, 0x0032_9e69_cd27_9dcd);
    }

    #[test]
    fn a_checksum_depends_on_every_part() {
        let hasher = Hasher::new([5, 6]);
        let base = hasher.checksum(KeyHash(1), 2, 5, PLACE);
        for other in [
            hasher.checksum(KeyHash(9), 2, 5, PLACE),
            hasher.checksum(KeyHash(1), 9, 5, PLACE),
            hasher.checksum(KeyHash(1), 2, 9, PLACE),
            hasher.checksum(KeyHash(1), 2, 5, RecordPlace { offset: 4104, ..PLACE }),
            hasher.checksum(KeyHash(1), 2, 5, RecordPlace { generation: 8, ..PLACE }),
        ] {
            assert_ne!(base, other);
        }
    }

    /// Keys that differ little, of several lengths: binary and decimal numbers, and pairs of small
    /// numbers, many of which have the same product.
    fn similar_keys() -> [Vec<Vec<u8>>; 5] {
        let numbers = 0..10_000u32;
        let decimal = |before: usize, after: usize| {
            let key = move |n| format!("{n:>before$}{:>after$}", "").into_bytes();
            numbers.clone().map(key).collect()
        };
        let grid = numbers.clone().map(|n| {
            let words = [n / 100, n % 100, 0, 0, 0, 0];
            words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
        });
        [
            numbers.clone().map(|n| n.to_le_bytes().to_vec()).collect(),
            decimal(12, 8),
            decimal(20, 16),
            decimal(64, 0),
            grid.collect(),
        ]
    }

    #[test]
    fn the_choices_of_a_bucket_are_unrelated() {
        let hasher = Hasher::new([7, 8]);
        for keys in similar_keys() {
            let same = keys
                .iter()
                .map(|key| hasher.key(key))
                .filter(|hash| hash.first() % 64 == hash.second() % 64)
                .count();
            assert!((80..240).contains(&same), "{same} of 10000, 156 expected");
        }
    }

    /// Each of the 64 values of any six adjacent bits of the hash is taken by about as many keys.
    #[test]
    fn similar_keys_are_spread_evenly() {
        let hasher = Hasher::new([7, 8]);
        for keys in similar_keys() {
            let hashes: Vec<u64> = keys.iter().map(|key| hasher.key(key).0).collect();
            for from in 0..=58 {
                let mut counts = [0u32; 64];
                for hash in &hashes {
                    counts[(hash >> from & 63) as usize] += 1;
                }
                let expected = keys.len() as f64 / 64.0;
                let chi_squared: f64 = counts
                    .iter()
                    .map(|count| (f64::from(*count) - expected).powi(2) / expected)
                    .sum();
                // 63 degrees of freedom: below 126 in all but four of a million cases.
                let example = String::from_utf8_lossy(&keys[77]);
                assert!(chi_squared < 126.0, "{chi_squared} from bit {from}, as of {example:?}");
            }
        }
    }
}
