//! Each thread's memory for copies of records. Must not know what is copied.

use std::cell::Cell;

use crate::error::{Error, Result};
use crate::format::Shape;

thread_local! {
    static SCRATCH: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
    /// Capacity of [`SCRATCH`] in words.
    static SCRATCH_WORDS: Cell<usize> = const { Cell::new(0) };
}

/// Makes sure that this thread can copy any record of a cache without allocating. Called before a
/// lock is taken, because an operation under a lock cannot be undone. Unused memory is not touched.
///
/// # Errors
/// [`Error::OutOfMemory`].
#[inline]
pub fn reserve_scratch(shape: &Shape) -> Result<()> {
    // One more word, for an expiry that may be inserted.
    let words = shape.record_words_max + 1;
    if SCRATCH_WORDS.get() >= words {
        return Ok(());
    }
    reserve_more(words)
}

#[cold]
fn reserve_more(words: usize) -> Result<()> {
    let mut scratch = SCRATCH.take();
    scratch.clear();
    let reserved = scratch.try_reserve_exact(words);
    SCRATCH.set(scratch);
    reserved.map_err(|_| Error::OutOfMemory { wanted_bytes: words * 8 })?;
    SCRATCH_WORDS.set(words);
    Ok(())
}

/// Lends a vector that keeps its memory between calls: see [`reserve_scratch`]. Must not be nested.
pub fn with_scratch<R>(work: impl FnOnce(&mut Vec<u64>) -> R) -> R {
    let mut scratch = SCRATCH.take();
    let result = work(&mut scratch);
    SCRATCH.set(scratch);
    result
}

/// The first words of a scratch vector, with any content: clearing what will be overwritten would take
/// a part of the time of copying it.
pub fn uncleared(words: &mut Vec<u64>, count: usize) -> &mut [u64] {
    if words.len() < count {
        words.resize(count, 0);
    }
    &mut words[..count]
}
