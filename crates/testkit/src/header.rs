//! The header of a closed cache's file as bytes, for tests that change it. Must not know more of
//! the file than the header and where the process slots are.

use tuckbox_arena::layout::{header, process, HEADER_BYTES};
use twox_hash::XxHash3_64;

use crate::stamp::Stream;

/// The header's checksum covers this many bytes, and follows them.
pub const SEALED_BYTES: usize = header::CHECKSUM as usize;

fn put(bytes: &mut [u8], at: u64, word: u64) {
    bytes[at as usize..at as usize + 8].copy_from_slice(&word.to_ne_bytes());
}

/// Writes the checksum of the header's fixed words.
pub fn seal(bytes: &mut [u8]) {
    let checksum = XxHash3_64::oneshot(&bytes[..SEALED_BYTES]);
    put(bytes, header::CHECKSUM, checksum);
}

/// Replaces the random words and the creation time of an empty cache, so that caches made from it
/// are the same in every run.
pub fn fix_identity(bytes: &mut [u8]) {
    let mut random = Stream::new(1);
    for at in (header::CACHE_ID..header::FEATURES_REQUIRED).step_by(8) {
        put(bytes, at, random.next_word());
    }
    put(bytes, header::CREATED_US, 0);
    seal(bytes);
}

/// Clears what processes left in a cache's file: their slots and the clock rows.
pub fn forget_processes(bytes: &mut [u8]) {
    let count = bytes[header::PROCESS_COUNT as usize..][..8].try_into().expect("eight bytes");
    let slots = HEADER_BYTES..HEADER_BYTES + u64::from_ne_bytes(count) * process::SLOT_BYTES;
    for part in [header::HEADER_LOCK..header::CHANGING_END, slots] {
        bytes[part.start as usize..part.end as usize].fill(0);
    }
}
