//! Random numbers. Must not know what they are for.

use std::fs::File;
use std::io::{self, Read};

/// A random number without the system call for them.
pub fn other_source() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}
