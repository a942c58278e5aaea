//! Buffers that a thread reuses from one operation to the next.
//!
//! Decoding a value can run other Python code on the same thread (a finalizer, a signal handler),
//! which may itself use a cache. Such a nested operation gets a new buffer.

use std::cell::{Cell, RefCell};

use tuckbox_engine::Buffer;

use crate::output_buffer::BytesOutput;

/// A larger buffer is freed after use.
const KEPT_BYTES: usize = 4 << 20;

thread_local! {
    static BUFFER: Kept = const { Kept(Cell::new(None)) };
    static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[cold]
fn new_buffer() -> Box<Buffer> {
    Box::new(Buffer::with_output(Box::new(BytesOutput::default())))
}

/// The end of an operation that used the buffer.
pub struct Used<T> {
    /// The return value of the operation.
    pub result: T,
    /// How many bytes it read into the buffer.
    pub read_bytes: usize,
}

/// This thread's buffer, unless an operation is using it.
pub struct Kept(Cell<Option<Box<Buffer>>>);

impl Kept {
    /// Runs an operation that reads into the buffer.
    #[inline(always)]
    pub fn with_buffer<T>(&self, operation: impl FnOnce(&mut Buffer) -> Used<T>) -> T {
        let mut buffer = self.0.take().unwrap_or_else(new_buffer);
        let used = operation(&mut buffer);
        if used.read_bytes <= KEPT_BYTES {
            // A nested operation may have left its buffer here.
            if let Some(nested) = self.0.replace(Some(buffer)) {
                free(nested);
            }
        } else {
            free(buffer);
        }
        used.result
    }
}

/// Passes this thread's buffer to an operation. For callers that read in a function of their own,
/// so that the arguments stay in registers.
#[inline(always)]
pub fn with_kept<T>(operation: impl FnOnce(&Kept) -> T) -> T {
    BUFFER.with(operation)
}

/// Runs an operation that reads into this thread's buffer.
#[inline(always)]
pub fn with_buffer<T>(operation: impl FnOnce(&mut Buffer) -> Used<T>) -> T {
    with_kept(|kept| kept.with_buffer(operation))
}

#[cold]
fn free(buffer: Box<Buffer>) {
    drop(buffer);
}

/// Runs an operation that encodes a value into this thread's byte buffer.
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
