//! Entries that are stored once and never touched. They have to be there at the end. A loss of
//! unchanged entries shows in them first.

use tuckbox_engine::{Buffer, Cache, Error, Ttl, Value};
use tuckbox_testkit::stamp::{self, Stamp};

use super::Lie;

/// The number of entries that the supervisor stores first and nobody touches.
pub const CANARIES: usize = 1000;

/// The key of a canary.
pub fn canary_key(index: usize) -> Vec<u8> {
    format!("canary/{index}").into_bytes()
}

/// Stores the canary of this number.
///
/// # Errors
/// As [`Cache::set`].
pub fn store_canary(cache: &Cache, index: usize) -> Result<(), Error> {
    let key = canary_key(index);
    let mut value = Vec::new();
    stamp::make(&key, Stamp { writer: 0, sequence: index as u64 }, 100 + index % 400, &mut value);
    cache.set(&key, Value::bytes(&value), Ttl::Never)
}

/// How many canaries are there and have the right value.
///
/// # Errors
/// As [`Cache::get`].
pub fn count_canaries(cache: &Cache, lie: Option<Lie>) -> Result<usize, Error> {
    let mut buffer = Buffer::new();
    let mut count = 0;
    for index in 0..CANARIES {
        let key = canary_key(index);
        let expected = Ok(Stamp { writer: 0, sequence: index as u64 });
        if let Some(entry) = cache.get(&key, &mut buffer)? {
            if let Value::Bytes { bytes, .. } = entry.value {
                count += usize::from(stamp::read(&key, bytes) == expected);
            }
        }
    }
    Ok(if lie == Some(Lie::Miss) { 0 } else { count })
}
