//! Keys of 36 characters, like UUIDs, and values of 160 bytes that name their key.
//!
//! Must not know who stores them.

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 36;
/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 160;

/// The keys numbered from `first`.
pub(crate) fn keys(first: usize, count: usize) -> Vec<String> {
    (first..first + count).map(key).collect()
}

/// The key of a number.
pub(crate) fn key(number: usize) -> String {
    // An odd factor maps numbers one to one.
    let high = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let low = high.wrapping_mul(0xf39c_c060_5ced_c835);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// The value of a key: the key's bytes, filled up with a byte computed from them.
pub(crate) fn value_of(key: &str) -> Vec<u8> {
    value_of_len(key, VALUE_BYTES)
}

/// As [`value_of`], of this length.
pub(crate) fn value_of_len(key: &str, value_bytes: usize) -> Vec<u8> {
    let mut value = key.as_bytes().to_vec();
    let filling = value.iter().fold(0, |sum: u8, byte| sum.wrapping_mul(31).wrapping_add(*byte));
    value.resize(value_bytes, filling);
    value
}

/// The same keys in another order, as new objects: programs seldom look up the object they stored.
pub(crate) fn shuffled(keys: &[String]) -> Vec<String> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    order.into_iter().map(|index| keys[index].clone()).collect()
}
