//! The output buffer for large `bytes` values: the engine reads them directly into the Python
//! object that `get` returns.

use std::any::Any;
use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tuckbox_engine::{Error, OutputBuffer};

use crate::codec;

/// Creates a `bytes` object for each large value.
#[derive(Default)]
pub struct BytesOutput {
    filled: Option<Py<PyBytes>>,
}

impl BytesOutput {
    /// Takes the object with the last value.
    pub fn take(&mut self) -> Option<Py<PyBytes>> {
        self.filled.take()
    }
}

impl OutputBuffer for BytesOutput {
    fn accepts(&self, tag: u8) -> bool {
        codec::is_bytes(tag)
    }

    fn receive(
        &mut self,
        len_bytes: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> tuckbox_engine::Result<bool> {
        self.filled = None;
        Python::attach(|py| {
            let made = filled_bytes(py, len_bytes, fill);
            let (object, is_whole) =
                made.map_err(|_| Error::OutOfMemory { wanted_bytes: len_bytes })?;
            self.filled = is_whole.then(|| object.unbind());
            Ok(is_whole)
        })
    }

    fn bytes(&self) -> &[u8] {
        Python::attach(|py| self.filled.as_ref().map_or(&[][..], |object| object.as_bytes(py)))
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Creates a `bytes` object and has its memory filled; also returns whether that succeeded.
///
/// As `PyBytes::new_with`, which however holds the GIL while it clears the memory: other threads
/// would wait for half a millisecond for each MiB.
///
/// # Errors
/// `MemoryError`.
fn filled_bytes<'py>(
    py: Python<'py>,
    len_bytes: usize,
    fill: &mut dyn FnMut(&mut [u8]) -> bool,
) -> PyResult<(Bound<'py, PyBytes>, bool)> {
    let wanted_bytes = len_bytes.try_into()?;
    // SAFETY: without a pointer, CPython allocates an object of this length, or returns null. Its
    // memory is uninitialised, and nobody else has seen it. It is cleared before it is lent as `u8`.
    unsafe {
        let made = ffi::PyBytes_FromStringAndSize(std::ptr::null(), wanted_bytes);
        let object = Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked::<PyBytes>();
        let first = ffi::PyBytes_AsString(made).cast::<MaybeUninit<u8>>();
        let memory = std::slice::from_raw_parts_mut(first, len_bytes);
        py.detach(|| memory.fill(MaybeUninit::new(0)));
        let is_whole = fill(std::slice::from_raw_parts_mut(first.cast(), len_bytes));
        Ok((object, is_whole))
    }
}
