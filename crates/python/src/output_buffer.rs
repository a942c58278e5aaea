//! The output buffer for large `bytes` values: the engine reads them directly into the Python
//! object that `get` returns.

use std::any::Any;

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
            let mut is_whole = false;
            let object = PyBytes::new_with(py, len_bytes, |memory| {
                is_whole = fill(memory);
                Ok(())
            });
            let object = object.map_err(|_| Error::OutOfMemory { wanted_bytes: len_bytes })?;
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
