//! Large values of bytes: read straight into the object that the program gets. Knows nothing of keys,
//! nor of where a value comes from.

use std::any::Any;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tuckbox_engine::{Error, OutputBuffer};

use crate::codec;

/// Where they land.
#[derive(Default)]
pub struct BytesOutput {
    made: Option<Py<PyBytes>>,
}

impl BytesOutput {
    /// The object that was made for what landed last.
    pub fn take(&mut self) -> Option<Py<PyBytes>> {
        self.made.take()
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
        self.made = None;
        Python::attach(|py| {
            let mut is_whole = false;
            let made = PyBytes::new_with(py, len_bytes, |memory| {
                is_whole = fill(memory);
                Ok(())
            });
            let made = made.map_err(|_| Error::OutOfMemory { wanted_bytes: len_bytes })?;
            self.made = is_whole.then(|| made.unbind());
            Ok(is_whole)
        })
    }

    fn bytes(&self) -> &[u8] {
        Python::attach(|py| self.made.as_ref().map_or(&[][..], |made| made.as_bytes(py)))
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
