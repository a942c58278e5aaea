//! LEB128, for lengths and counts: seven bits per byte, lowest first.

/// Bytes of the longest encoding.
const BYTES_MAX: usize = 10;

/// Appends a number.
#[inline]
pub fn append(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Inserts at `start` the length of the bytes after it.
pub fn insert(bytes: &mut Vec<u8>, start: usize) {
    let end = bytes.len();
    append(bytes, (end - start) as u64);
    let length = bytes.len() - end;
    bytes[start..].rotate_right(length);
}

/// Takes a number from the front; `None` if the bytes end too early or it does not fit 64 bits.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for (index, byte) in bytes.iter().take(BYTES_MAX).enumerate() {
        let bits = u64::from(byte & 0x7F);
        if index == BYTES_MAX - 1 && bits > 1 {
            return None;
        }
        number |= bits << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_comes_back(number: u64, rest: Vec<u8>) {
            let mut bytes = Vec::new();
            append(&mut bytes, number);
            bytes.extend_from_slice(&rest);
            let mut left = &bytes[..];
            prop_assert_eq!(take(&mut left), Some(number));
            prop_assert_eq!(left, &rest[..]);
        }

        #[test]
        fn any_bytes_are_a_number_or_none(bytes: Vec<u8>) {
            let mut left = &bytes[..];
            let _ = take(&mut left);
            prop_assert!(left.len() <= bytes.len());
        }

        #[test]
        fn an_inserted_length_is_in_front(before: Vec<u8>, content in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = before.clone();
            bytes.extend_from_slice(&content);
            insert(&mut bytes, before.len());
            prop_assert_eq!(&bytes[..before.len()], &before[..]);
            let mut left = &bytes[before.len()..];
            prop_assert_eq!(take(&mut left), Some(content.len() as u64));
            prop_assert_eq!(left, &content[..]);
        }
    }
}
