//! Where tests keep their files. Must not know what is in them.

use std::path::{Path, PathBuf};

/// A folder in memory if there is one, else the one for temporary files. `scripts/scratch` names
/// another, and removes it when the tests are over: a process that is killed removes nothing.
pub fn folder() -> PathBuf {
    match std::env::var_os("TUCKBOX_SCRATCH").filter(|named| !named.is_empty()) {
        Some(named) => named.into(),
        None => Some(Path::new("/dev/shm"))
            .filter(|folder| folder.is_dir())
            .map_or_else(std::env::temp_dir, Path::to_path_buf),
    }
}
