//! Memory that a thread uses again from one operation to the next.
//!
//! Decoding a value can run other Python code on the same thread (a finalizer, a signal handler),
//! which may use a cache in turn: whoever comes second gets memory of its own.

use std::cell::{Cell, RefCell};

use tuckbox_engine::Buffer;

use crate::output_buffer::BytesOutput;

/// Memory larger than this is given back after use.
const KEPT_BYTES: usize = 4 << 20;

thread_local! {
    static BUFFER: Kept = const { Kept(Cell::new(None)) };
    static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[cold]
fn new_buffer() -> Box<Buffer> {
    Box::new(Buffer::with_output(Box::new(BytesOutput::default())))
}

/// What became of the buffer: `read_bytes` were read into it.
pub struct Used<T> {
    /// What the operation returns.
    pub result: T,
    /// How long the value was.
    pub read_bytes: usize,
}

/// This thread's buffer, if nobody has it.
pub struct Kept(Cell<Option<Box<Buffer>>>);

impl Kept {
    /// Runs an operation that reads into a buffer.
    #[inline(always)]
    pub fn with_buffer<T>(&self, operation: impl FnOnce(&mut Buffer) -> Used<T>) -> T {
        let mut buffer = self.0.take().unwrap_or_else(new_buffer);
        let used = operation(&mut buffer);
        // Whoever came second on this thread may have kept his.
        if used.read_bytes <= KEPT_BYTES {
            if let Some(second) = self.0.replace(Some(buffer)) {
                give_back(second);
            }
        } else {
            give_back(buffer);
        }
        used.result
    }
}

/// Gives this thread's buffer to an operation: for whoever does the work in a function of its own, so
/// that what is handed over stays in registers.
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
fn give_back(buffer: Box<Buffer>) {
    drop(buffer);
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
