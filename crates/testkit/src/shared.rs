//! Words that several processes of a test share: a file of 64-bit atomics that each of them maps.
//! Must not know what the words mean.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// A file of words, mapped shared.
#[derive(Debug)]
pub struct SharedWords {
    base: *mut AtomicU64,
    count: usize,
}

// SAFETY: the memory is a shared mapping that lives as long as the value, and is only accessed as
// atomic words.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Creates a file of `count` zero words, and maps it.
    ///
    /// # Errors
    /// The system's error; `path` must not exist.
    pub fn create(path: &Path, count: usize) -> io::Result<SharedWords> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len(count as u64 * 8)?;
        SharedWords::map(&file, count)
    }

    /// Maps a file by [`SharedWords::create`].
    ///
    /// # Errors
    /// The system's error.
    pub fn open(path: &Path) -> io::Result<SharedWords> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let count = (file.metadata()?.len() / 8) as usize;
        SharedWords::map(&file, count)
    }

    fn map(file: &File, count: usize) -> io::Result<SharedWords> {
        // SAFETY: a new mapping at an address of the kernel's choosing, of a file of that length.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                count * 8,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedWords { base: base.cast(), count })
    }

    /// Number of words.
    pub fn count(&self) -> usize {
        self.count
    }

    /// One word.
    ///
    /// # Panics
    /// If `index` is not below [`SharedWords::count`].
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.count, "word {index} of {}", self.count);
        // SAFETY: in bounds, aligned (a mapping begins on a page), and only accessed as atomics.
        unsafe { &*self.base.add(index) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.count * 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_show_the_same_words() {
        let path = std::env::temp_dir().join(format!("tuckbox-words-{}", std::process::id()));
        let one = SharedWords::create(&path, 100).unwrap();
        let two = SharedWords::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        one.word(99).store(7, Ordering::Relaxed);
        assert_eq!((two.count(), two.word(99).load(Ordering::Relaxed)), (100, 7));
    }
}
