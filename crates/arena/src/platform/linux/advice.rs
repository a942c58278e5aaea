//! What to do about errors whose remedy depends on the system. Must not know when they occur.

use std::path::Path;

/// A file system that cannot reserve space.
pub const NOT_GROWABLE: &str =
    "is on a file system without fallocate, so the cache cannot reserve \
    space to grow; choose a directory on ext4, XFS, Btrfs or tmpfs, for example in /dev/shm";

/// Where only this machine's processes find a file.
pub const LOCAL_FOLDERS: &str = "a directory on a local disk, or in /dev/shm";

/// How the file system of a file gets more space, as the end of a sentence; empty if that depends.
pub fn more_space(path: &Path) -> &'static str {
    match path.starts_with("/dev/shm") {
        true => ", or make /dev/shm larger (docker run --shm-size=1g)",
        false => "",
    }
}
