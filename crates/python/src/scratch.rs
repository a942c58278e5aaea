//! Memory that a thread uses again from one operation to the next.
//!
//! Decoding a value can run other Python code on the same thread (a finalizer, a signal handler),
//! which may use a cache in turn: whoever comes second gets memory of its own.

use std::cell::{Cell, RefCell};

use tuckbox_engine::Buffer;

use crate::landing::BytesLanding;

/// Memory larger than this is given back after use.
const KEPT_BYTES: usize = 4 << 20;

thread_local! {
    static BUFFER: Cell<Option<Box<Buffer>>> = const { Cell::new(None) };
    static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[cold]
fn new_buffer() -> Box<Buffer> {
    Box::new(Buffer::with_landing(Box::new(BytesLanding::default())))
}

/// What became of the buffer: `read_bytes` were read into it.
pub struct Used<T> {
    /// What the operation returns.
    pub result: T,
    /// How long the value was.
    pub read_bytes: usize,
}

/// Takes the buffer to read into. For [`keep_buffer`] afterwards. A get does so itself: as a closure
/// for [`with_buffer`], what it does would be a call.
#[inline(always)]
pub fn take_buffer() -> Box<Buffer> {
    BUFFER.take().unwrap_or_else(new_buffer)
}

/// Keeps a buffer, into which `read_bytes` were read, for the next operation.
#[inline(always)]
pub fn keep_buffer(buffer: Box<Buffer>, read_bytes: usize) {
    if read_bytes > KEPT_BYTES {
        return give_back(buffer);
    }
    // Whoever came second on this thread may have kept his.
    if let Some(second) = BUFFER.replace(Some(buffer)) {
        give_back(second);
    }
}

#[cold]
fn give_back(buffer: Box<Buffer>) {
    drop(buffer);
}

/// Runs an operation that reads into a buffer.
#[inline]
pub fn with_buffer<T>(operation: impl FnOnce(&mut Buffer) -> Used<T>) -> T {
    let mut buffer = take_buffer();
    let used = operation(&mut buffer);
    keep_buffer(buffer, used.read_bytes);
    used.result
}

/// Runs an operation that writes an encoded value.
#[inline]
pub fn with_bytes<T>(operation: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    BYTES.with(|cell| match cell.try_borrow_mut() {
        Ok(mut bytes) => {
            let result = operation(&mut bytes);
            if bytes.capacity() > KEPT_BYTES {
                *bytes = Vec::new();
            }
            result
        }
        Err(_) => operation(&mut Vec::new()),
    })
}
