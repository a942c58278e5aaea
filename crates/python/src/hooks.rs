//! Functions for tests, which only builds with the feature `hooks` have.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tuckbox_engine::{Ttl, Value, VALUE_TAG_COUNT};

use crate::codec;
use crate::core::Core;

/// Adds the functions to the module.
///
/// # Errors
/// Exceptions of Python.
pub fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Not `add_function`, which would make them part of `__all__`.
    module.setattr("_encoded", wrap_pyfunction!(encoded, module)?)?;
    module.setattr("_plant", wrap_pyfunction!(plant, module)?)
}

/// Return the tag and the bytes of an encoded value. Not for plain `bytes`, `str` and 64-bit `int`,
/// which are not encoded.
#[pyfunction]
#[pyo3(name = "_encoded")]
fn encoded<'py>(
    core: &Bound<'py, Core>,
    value: &Bound<'py, PyAny>,
) -> PyResult<(u8, Bound<'py, PyBytes>)> {
    let mut bytes = Vec::new();
    let opened = core.get().opened()?;
    codec::encode_whole(value, opened.rules(), opened.entry(b"key"), &mut bytes)
        .map_err(|refusal| refusal.raised(core.py(), None))?;
    Ok((bytes[0], PyBytes::new(core.py(), &bytes[1..])))
}

/// Store arbitrary bytes as an encoded key and value, as another program could.
#[pyfunction]
#[pyo3(name = "_plant")]
fn plant(core: &Bound<'_, Core>, key: &[u8], tag: u8, bytes: &[u8]) -> PyResult<()> {
    if tag >= VALUE_TAG_COUNT {
        return Err(PyValueError::new_err(format!("{tag} is not a valid tag")));
    }
    let opened = core.get().opened()?;
    let stored = opened.cache.set(key, Value::Bytes { tag, bytes }, Ttl::Never);
    stored.map_err(|error| opened.refused(core.py(), error))
}
