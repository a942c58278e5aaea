//! The characters of a `str`, where CPython has them.
//!
//! A call for them costs a get a twentieth of its time; the figures are in `docs/decisions/`. Owns the
//! unsafe code that this needs, and knows nothing of keys.

use pyo3::prelude::*;
use pyo3::types::PyString;

/// The characters of a string that has no lone surrogates.
#[inline(always)]
pub fn utf8<'a>(text: &'a Bound<'_, PyString>) -> Option<&'a str> {
    match ascii(text) {
        Some(text) => Some(text),
        None => text.to_str().ok(),
    }
}

/// The same of one that has nothing but ASCII, as it lies in the object.
#[cfg(not(Py_3_14))]
#[inline(always)]
fn ascii<'a>(text: &'a Bound<'_, PyString>) -> Option<&'a str> {
    use pyo3::ffi;

    let object = text.as_ptr();
    // SAFETY: the object is a string, and the GIL is held.
    if unsafe { ffi::PyUnicode_IS_COMPACT_ASCII(object) } == 0 {
        return None;
    }
    // SAFETY: a string of this kind has so many bytes of ASCII behind its head, which do not change, and
    // `text` holds it.
    unsafe {
        let len_bytes = ffi::PyUnicode_GET_LENGTH(object) as usize;
        let bytes = std::slice::from_raw_parts(ffi::PyUnicode_1BYTE_DATA(object), len_bytes);
        Some(std::str::from_utf8_unchecked(bytes))
    }
}

/// From Python 3.14 on PyO3 does not tell how a string lies in memory.
#[cfg(Py_3_14)]
#[inline(always)]
fn ascii<'a>(_text: &'a Bound<'_, PyString>) -> Option<&'a str> {
    None
}
