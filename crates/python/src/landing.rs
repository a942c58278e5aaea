//! Large values of bytes: read straight into the object that the program gets. Knows nothing of keys,
//! nor of where a value comes from.

use std::any::Any;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tuckbox_engine::{Error, Landing};

use crate::codec;

/// Where they land.
#[derive(Default)]
pub struct BytesLanding {
    landed: Option<Py<PyBytes>>,
}

impl BytesLanding {
    /// The object that was made for what landed last.
    pub fn take(&mut self) -> Option<Py<PyBytes>> {
        self.landed.take()
    }
}

impl Landing for BytesLanding {
    fn takes(&self, tag: u8) -> bool {
        codec::is_bytes(tag)
    }

    fn land(
        &mut self,
        len_bytes: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> tuckbox_engine::Result<bool> {
        self.landed = None;
        Python::attach(|py| {
            let mut is_whole = false;
            let made = PyBytes::new_with(py, len_bytes, |memory| {
                is_whole = fill(memory);
                Ok(())
            });
            let made = made.map_err(|_| Error::OutOfMemory { wanted_bytes: len_bytes })?;
            self.landed = is_whole.then(|| made.unbind());
            Ok(is_whole)
        })
    }

    fn landed(&self) -> &[u8] {
        Python::attach(|py| self.landed.as_ref().map_or(&[][..], |landed| landed.as_bytes(py)))
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
