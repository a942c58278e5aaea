//! How many bytes a folder occupies.
//!
//! Owns that measure. Must not know whose folder it is.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use walkdir::WalkDir;

const BLOCK_BYTES: u64 = 512;

/// The bytes of all blocks allocated to the files below `folder`. What vanishes meanwhile counts as
/// nothing.
pub(crate) fn bytes_occupied(folder: &Path) -> u64 {
    WalkDir::new(folder)
        .into_iter()
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .filter(|data| data.is_file())
        .map(|data| data.blocks() * BLOCK_BYTES)
        .sum()
}
