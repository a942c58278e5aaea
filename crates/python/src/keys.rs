//! Encoding of keys.
//!
//! Two keys have the same bytes exactly if they are equal. This holds in every process, on every
//! machine and in every version, whatever the hash seed.
//!
//! | key | bytes |
//! |---|---|
//! | `str` | its UTF-8; a lone surrogate as the three bytes that UTF-8 would use |
//! | `bytes` | `FF 62`, the bytes |
//! | `int` | `FF 69`, two's complement, little-endian, in `bit_length() // 8 + 1` bytes |
//! | `tuple` | `FF 74`, then for each item the length of its encoding (LEB128) and its encoding |
//!
//! UTF-8 never contains the byte FF, so a `str` needs no type byte.
//!
//! As in a dict, keys that are `==` are one key: `True` is the key 1, and an instance of a subclass
//! (an `IntEnum` member, a named tuple, a safe string) is the plain key that it equals. Subclasses
//! with their own `__eq__` or `__hash__` raise `KeyTypeError`, and so do floats.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyInt, PyString, PyTuple, PyType};

use crate::errors::classes::{EntryCorrupt, KeyTooLong, KeyTypeError};
use crate::errors::Quick;
use crate::names;
use crate::{text, varint};

/// First byte of every key that is not a `str`.
const OTHER: u8 = 0xFF;
const BYTES: u8 = b'b';
const INT: u8 = b'i';
const TUPLE: u8 = b't';
/// The maximum nesting depth of tuples.
const DEPTH_MAX: usize = 64;
/// The longest key that needs no allocation. A 64-bit `int` takes 11 bytes.
const SHORT_BYTES: usize = 22;

/// An encoded key.
pub enum Key<'a> {
    /// The bytes of the Python object itself.
    Borrowed(&'a [u8]),
    /// Up to [`SHORT_BYTES`], and their number.
    Short([u8; SHORT_BYTES], u8),
    /// More bytes.
    Long(Vec<u8>),
}

impl Key<'_> {
    /// The bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Key::Borrowed(bytes) => bytes,
            Key::Short(bytes, length) => &bytes[..usize::from(*length)],
            Key::Long(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Key<'_> {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// Encodes a key.
///
/// # Errors
/// `KeyTypeError` for other types. `KeyTooLong`, before more bytes are copied than a key may have;
/// a plain `str` is not copied, and the engine checks its length.
#[inline(always)]
pub fn encode<'a>(key: &'a Bound<'_, PyAny>) -> Quick<Key<'a>> {
    match plain(key) {
        Some(text) => Ok(Key::Borrowed(text.as_bytes())),
        None => Ok(encode_other(key)?),
    }
}

/// Returns the UTF-8 of a plain `str`, which is its encoding. `None` for another type, and for a
/// `str` with lone surrogates.
#[inline(always)]
pub fn plain<'a>(key: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    text::utf8(key.cast_exact::<PyString>().ok()?)
}

#[inline(never)]
fn encode_other<'a>(key: &Bound<'_, PyAny>) -> PyResult<Key<'a>> {
    if let Ok(number) = key.cast_exact::<PyInt>() {
        if let Ok(number) = number.extract::<i64>() {
            let (digits, length) = int_bytes(number);
            let mut bytes = [0; SHORT_BYTES];
            bytes[0] = OTHER;
            bytes[1] = INT;
            bytes[2..2 + digits.len()].copy_from_slice(&digits);
            return Ok(Key::Short(bytes, 2 + length));
        }
    }
    let mut bytes = Vec::new();
    append(key, &mut bytes, key, 0)?;
    Ok(Key::Long(bytes))
}

/// Returns the two's complement, little-endian, and the number of bytes used.
fn int_bytes(number: i64) -> ([u8; 9], u8) {
    let bit_length = 64 - number.unsigned_abs().leading_zeros();
    let mut digits = [0; 9];
    digits.copy_from_slice(&i128::from(number).to_le_bytes()[..9]);
    (digits, (bit_length / 8 + 1) as u8)
}

/// Appends the encoding of `key`, which is `whole` or nested in it.
fn append(
    key: &Bound<'_, PyAny>,
    bytes: &mut Vec<u8>,
    whole: &Bound<'_, PyAny>,
    depth: usize,
) -> PyResult<()> {
    let py = key.py();
    if let Ok(text) = key.cast::<PyString>() {
        check_equality::<PyString>(key, whole)?;
        // Before encoding: a character takes at least one byte.
        check_length(bytes, text.len()?)?;
        match text.to_str() {
            Ok(text) => {
                check_length(bytes, text.len())?;
                bytes.extend_from_slice(text.as_bytes());
            }
            Err(_) => bytes.extend_from_slice(surrogates_to_bytes(text)?.as_bytes()),
        }
    } else if let Ok(content) = key.cast::<PyBytes>() {
        check_equality::<PyBytes>(key, whole)?;
        check_length(bytes, 2 + content.as_bytes().len())?;
        bytes.extend_from_slice(&[OTHER, BYTES]);
        bytes.extend_from_slice(content.as_bytes());
    } else if let Ok(number) = key.cast::<PyInt>() {
        check_equality::<PyInt>(key, whole)?;
        bytes.extend_from_slice(&[OTHER, INT]);
        match number.extract::<i64>() {
            Ok(number) => {
                let (digits, length) = int_bytes(number);
                bytes.extend_from_slice(&digits[..usize::from(length)]);
            }
            Err(_) => {
                check_length(bytes, big_int_len_bytes(number)?)?;
                bytes.extend_from_slice(big_int_to_bytes(number)?.as_bytes());
            }
        }
    } else if let Ok(items) = key.cast::<PyTuple>() {
        check_equality::<PyTuple>(key, whole)?;
        if depth == DEPTH_MAX {
            return Err(KeyTypeError::new_err(format!(
                "key {} has tuples nested more than {DEPTH_MAX} deep; flatten it",
                names::of_object(whole)
            )));
        }
        bytes.extend_from_slice(&[OTHER, TUPLE]);
        for item in items.iter_borrowed() {
            let start = bytes.len();
            append(&item, bytes, whole, depth + 1)?;
            varint::insert(bytes, start);
            // A small tuple can contain another one many times, and so have a long encoding.
            check_length(bytes, 0)?;
        }
    } else {
        return Err(refuse(py, key, whole));
    }
    Ok(())
}

/// Raises `KeyTooLong` before a key that is too long is copied.
fn check_length(bytes: &[u8], more_bytes: usize) -> PyResult<()> {
    let len_bytes = bytes.len().saturating_add(more_bytes);
    let most_bytes = tuckbox_engine::KEY_BYTES_MAX;
    if len_bytes <= most_bytes {
        return Ok(());
    }
    let error = tuckbox_engine::Error::KeyTooLong { len_bytes, most_bytes };
    Err(KeyTooLong::new_err(error.to_string()))
}

/// Checks that a subclass inherits `==` and `hash` from its base, so that a dict would also treat
/// the instance as the plain key.
fn check_equality<T: pyo3::PyTypeInfo>(
    key: &Bound<'_, PyAny>,
    whole: &Bound<'_, PyAny>,
) -> PyResult<()> {
    if key.is_exact_instance_of::<T>() {
        return Ok(());
    }
    let py = key.py();
    let (kind, base) = (key.get_type(), T::type_object(py));
    let inherits = |name: &Bound<'_, PyString>| -> PyResult<bool> {
        Ok(kind.getattr(name)?.is(&base.getattr(name)?))
    };
    if inherits(intern!(py, "__eq__"))? && inherits(intern!(py, "__hash__"))? {
        return Ok(());
    }
    Err(refuse_subclass(key, whole, &base))
}

#[cold]
fn refuse_subclass(
    key: &Bound<'_, PyAny>,
    whole: &Bound<'_, PyAny>,
    base: &Bound<'_, PyType>,
) -> PyErr {
    let (kind, base) = (names::of_type(key), names::of(base));
    KeyTypeError::new_err(format!(
        "{}{kind} cannot be a key, because it is a subclass of {base} with its own __eq__ or \
         __hash__; use {base}(...) of it",
        location(key, whole)
    ))
}

#[cold]
fn refuse(py: Python<'_>, key: &Bound<'_, PyAny>, whole: &Bound<'_, PyAny>) -> PyErr {
    let advice = if key.is_none() {
        "; use a string that stands for it"
    } else if key.is_instance_of::<pyo3::types::PyFloat>() {
        "; use an int, or its repr()"
    } else if key.is_instance_of::<pyo3::types::PyList>() {
        "; use a tuple"
    } else if key.is_instance_of::<pyo3::types::PyByteArray>()
        || key.is_instance(&py.get_type::<pyo3::types::PyMemoryView>()).unwrap_or(false)
    {
        "; use bytes(...) of it"
    } else {
        ""
    };
    KeyTypeError::new_err(format!(
        "{}{} cannot be a key; keys are str, bytes, int and tuples of these{advice}",
        location(key, whole),
        names::of_type(key),
    ))
}

fn location(key: &Bound<'_, PyAny>, whole: &Bound<'_, PyAny>) -> String {
    if key.is(whole) {
        String::new()
    } else {
        format!("in key {}: ", names::of_object(whole))
    }
}

/// Encodes a `str` as UTF-8, with lone surrogates as three bytes each.
pub fn surrogates_to_bytes<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyBytes>> {
    let py = text.py();
    // The method of `str`, because a subclass may override `encode`.
    py.get_type::<PyString>()
        .call_method1(intern!(py, "encode"), (text, "utf-8", "surrogatepass"))?
        .cast_into::<PyBytes>()
        .map_err(PyErr::from)
}

/// Decodes the result of [`surrogates_to_bytes`].
pub fn surrogates_from_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    PyBytes::new(py, bytes).call_method1(intern!(py, "decode"), ("utf-8", "surrogatepass"))
}

/// The length of the result of [`big_int_to_bytes`].
pub fn big_int_len_bytes(number: &Bound<'_, PyInt>) -> PyResult<usize> {
    let py = number.py();
    let class = py.get_type::<PyInt>();
    let bit_length: usize = class.call_method1(intern!(py, "bit_length"), (number,))?.extract()?;
    Ok(bit_length / 8 + 1)
}

/// Encodes an int of any size: two's complement, little-endian.
pub fn big_int_to_bytes<'py>(number: &Bound<'py, PyInt>) -> PyResult<Bound<'py, PyBytes>> {
    let py = number.py();
    let signed = [("signed", true)].into_py_dict(py)?;
    let arguments = (number, big_int_len_bytes(number)?, "little");
    py.get_type::<PyInt>()
        .call_method(intern!(py, "to_bytes"), arguments, Some(&signed))?
        .cast_into::<PyBytes>()
        .map_err(PyErr::from)
}

/// Decodes the result of [`big_int_to_bytes`].
pub fn big_int_from_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let signed = [("signed", true)].into_py_dict(py)?;
    let arguments = (PyBytes::new(py, bytes), "little");
    py.get_type::<PyInt>().call_method(intern!(py, "from_bytes"), arguments, Some(&signed))
}

/// Decodes a key.
///
/// # Errors
/// `EntryCorrupt` if the bytes are not an encoded key.
pub fn decode<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    decode_at(py, bytes, 0)
}

fn decode_at<'py>(py: Python<'py>, bytes: &[u8], depth: usize) -> PyResult<Bound<'py, PyAny>> {
    match bytes {
        [OTHER, BYTES, content @ ..] => Ok(PyBytes::new(py, content).into_any()),
        [OTHER, INT, digits @ ..] if !digits.is_empty() => {
            if digits.len() <= 8 {
                let sign = if digits[digits.len() - 1] & 0x80 == 0 { 0x00 } else { 0xFF };
                let mut number = [sign; 8];
                number[..digits.len()].copy_from_slice(digits);
                return Ok(i64::from_le_bytes(number).into_pyobject(py)?.into_any());
            }
            big_int_from_bytes(py, digits)
        }
        [OTHER, TUPLE, rest @ ..] if depth < DEPTH_MAX => {
            let mut rest = rest;
            let mut items = Vec::new();
            while !rest.is_empty() {
                let length = varint::take(&mut rest).ok_or_else(|| corrupt(bytes))?;
                let length = usize::try_from(length).ok().filter(|length| *length <= rest.len());
                let (item, after) = rest.split_at(length.ok_or_else(|| corrupt(bytes))?);
                items.push(decode_at(py, item, depth + 1)?);
                rest = after;
            }
            Ok(PyTuple::new(py, items)?.into_any())
        }
        [OTHER, ..] => Err(corrupt(bytes)),
        text => match std::str::from_utf8(text) {
            Ok(text) => Ok(PyString::new(py, text).into_any()),
            Err(_) => surrogates_from_bytes(py, text).map_err(|_| corrupt(bytes)),
        },
    }
}

#[cold]
fn corrupt(bytes: &[u8]) -> PyErr {
    const SHOWN_BYTES: usize = 32;
    let shown: String = bytes.iter().take(SHOWN_BYTES).map(|byte| format!("{byte:02x}")).collect();
    EntryCorrupt::new_err(format!(
        "a key cannot be decoded (its {} bytes start with {shown}): another program or a newer \
         version stored it, or it is damaged; run check() to remove damaged entries, or clear()",
        bytes.len()
    ))
}
