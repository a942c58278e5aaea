//! The platform on Linux. Must not know what is in the file.

pub mod advice;
mod cgroups;
pub mod clock;
pub mod directory;
pub mod faults;
pub mod files;
pub mod forks;
pub mod liveness;
mod network;
pub mod random;
pub mod space;
mod trust;
mod users;
#[cfg(not(loom))]
pub mod wait;

use std::io;
use std::os::unix::fs::MetadataExt;

/// A call is given up after this many interruptions by signals.
const INTERRUPTIONS_MAX: u32 = 1000;
/// Attempts of a call whose error may be transient.
const ATTEMPTS: u32 = 3;

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Repeats a call that a signal interrupts. Bounded: signals may come faster than the file system
/// works, and each one can make it begin again.
fn repeated(call: impl Fn() -> libc::c_int) -> io::Result<()> {
    for _ in 0..INTERRUPTIONS_MAX {
        match checked(call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(|_| ()),
        }
    }
    checked(call()).map(|_| ())
}

/// None if the file or process does not exist.
fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Ok(None),
            _ => Err(error),
        },
    }
}

/// 0 if the kernel or `/proc` has none.
fn namespace_inode(name: &str) -> io::Result<u64> {
    let data = if_exists(std::fs::metadata(format!("/proc/self/ns/{name}")))?;
    Ok(data.map_or(0, |data| data.ino()))
}
