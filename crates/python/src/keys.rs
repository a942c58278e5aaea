//! Python keys as bytes, and back.
//!
//! Equal keys are equal bytes: in every process, on every machine, in every version, whatever the
//! hash seed. Different keys are different bytes. What each key becomes:
//!
//! | key | bytes |
//! |---|---|
//! | `str` | its UTF-8, a lone surrogate as the three bytes that UTF-8 would give it |
//! | `bytes` | `FF 62`, the bytes |
//! | `int` | `FF 69`, two's complement, little-endian, in `bit_length() // 8 + 1` bytes |
//! | `tuple` | `FF 74`, then for each item the length of its encoding (LEB128) and its encoding |
//!
//! UTF-8 never holds the byte FF, so that a `str` cannot be mistaken for one of the others, and
//! needs no mark of its own.
//!
//! What `==` calls equal is one key, as in a dict: `True` is the key 1, and an instance of a
//! subclass (a member of `IntEnum`, a named tuple, a marked-up string) is the plain key that it
//! equals. A subclass with its own idea of equality is refused. Floats are refused altogether.

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
/// How deep tuples may lie in tuples.
const DEPTH_MAX: usize = 64;
/// Bytes of a key that need no allocation; an `int` of 64 bits takes 11.
const SHORT_BYTES: usize = 22;

/// The bytes of a key.
pub enum Key<'a> {
    /// Where the Python object has them.
    Borrowed(&'a [u8]),
    /// A few bytes.
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

/// The bytes of a key.
///
/// # Errors
/// `KeyTypeError` for what cannot be a key, and `KeyTooLong` before more is copied than a key may
/// have. The length of a plain `str`, which is not copied, is for the engine to refuse.
#[inline(always)]
pub fn encode<'a>(key: &'a Bound<'_, PyAny>) -> Quick<Key<'a>> {
    match plain(key) {
        Some(text) => Ok(Key::Borrowed(text.as_bytes())),
        None => Ok(encode_other(key)?),
    }
}

/// A plain `str`, whose bytes are those of the key; none if it has lone surrogates or is no plain `str`.
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

/// Two's complement, little-endian, and how many of the bytes count.
fn int_bytes(number: i64) -> ([u8; 9], u8) {
    let bit_length = 64 - number.unsigned_abs().leading_zeros();
    let mut digits = [0; 9];
    digits.copy_from_slice(&i128::from(number).to_le_bytes()[..9]);
    (digits, (bit_length / 8 + 1) as u8)
}

/// Appends the encoding of `key`, which is `whole` or lies in it.
fn append(
    key: &Bound<'_, PyAny>,
    bytes: &mut Vec<u8>,
    whole: &Bound<'_, PyAny>,
    depth: usize,
) -> PyResult<()> {
    let py = key.py();
    if let Ok(text) = key.cast::<PyString>() {
        demand_equality_of::<PyString>(key, whole)?;
        // A character takes a byte at least.
        demand_room(bytes, text.len()?)?;
        match text.to_str() {
            Ok(text) => {
                demand_room(bytes, text.len())?;
                bytes.extend_from_slice(text.as_bytes());
            }
            Err(_) => bytes.extend_from_slice(surrogates_to_bytes(text)?.as_bytes()),
        }
    } else if let Ok(content) = key.cast::<PyBytes>() {
        demand_equality_of::<PyBytes>(key, whole)?;
        demand_room(bytes, 2 + content.as_bytes().len())?;
        bytes.extend_from_slice(&[OTHER, BYTES]);
        bytes.extend_from_slice(content.as_bytes());
    } else if let Ok(number) = key.cast::<PyInt>() {
        demand_equality_of::<PyInt>(key, whole)?;
        bytes.extend_from_slice(&[OTHER, INT]);
        match number.extract::<i64>() {
            Ok(number) => {
                let (digits, length) = int_bytes(number);
                bytes.extend_from_slice(&digits[..usize::from(length)]);
            }
            Err(_) => {
                demand_room(bytes, big_int_len_bytes(number)?)?;
                bytes.extend_from_slice(big_int_to_bytes(number)?.as_bytes());
            }
        }
    } else if let Ok(items) = key.cast::<PyTuple>() {
        demand_equality_of::<PyTuple>(key, whole)?;
        if depth == DEPTH_MAX {
            return Err(KeyTypeError::new_err(format!(
                "tuples in the key {} lie more than {DEPTH_MAX} deep in each other; flatten it",
                names::of_object(whole)
            )));
        }
        bytes.extend_from_slice(&[OTHER, TUPLE]);
        for item in items.iter_borrowed() {
            let start = bytes.len();
            append(&item, bytes, whole, depth + 1)?;
            varint::insert(bytes, start);
            // A few tuples that lie in each other many times can be very long.
            demand_room(bytes, 0)?;
        }
    } else {
        return Err(refuse(py, key, whole));
    }
    Ok(())
}

/// Refuses a key that is too long, before it takes as much memory again.
fn demand_room(bytes: &[u8], more_bytes: usize) -> PyResult<()> {
    let len_bytes = bytes.len().saturating_add(more_bytes);
    let most_bytes = tuckbox_engine::KEY_BYTES_MAX;
    if len_bytes <= most_bytes {
        return Ok(());
    }
    let error = tuckbox_engine::Error::KeyTooLong { len_bytes, most_bytes };
    Err(KeyTooLong::new_err(error.to_string()))
}

/// A subclass may be a key if `==` and `hash` are those of its base, for then a dict would take
/// it for the base as well.
fn demand_equality_of<T: pyo3::PyTypeInfo>(
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
        "{}{kind} cannot be a key: it is a {base} with its own __eq__ or __hash__, and a key must \
         equal its {base} in every process; use {base}(...) of it",
        place_in(key, whole)
    ))
}

#[cold]
fn refuse(py: Python<'_>, key: &Bound<'_, PyAny>, whole: &Bound<'_, PyAny>) -> PyErr {
    let advice = if key.is_none() {
        "; for \"nothing\" use a string of your own"
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
        "{}{} cannot be a key; keys are str, bytes, int and tuples of them{advice}",
        place_in(key, whole),
        names::of_type(key),
    ))
}

fn place_in(key: &Bound<'_, PyAny>, whole: &Bound<'_, PyAny>) -> String {
    if key.is(whole) {
        String::new()
    } else {
        format!("in the key {}: ", names::of_object(whole))
    }
}

/// UTF-8 with lone surrogates as if they were characters.
pub fn surrogates_to_bytes<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyBytes>> {
    let py = text.py();
    // By the class, because a subclass may have an `encode` of its own.
    py.get_type::<PyString>()
        .call_method1(intern!(py, "encode"), (text, "utf-8", "surrogatepass"))?
        .cast_into::<PyBytes>()
        .map_err(PyErr::from)
}

/// The reverse.
pub fn surrogates_from_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    PyBytes::new(py, bytes).call_method1(intern!(py, "decode"), ("utf-8", "surrogatepass"))
}

/// How many bytes [`big_int_to_bytes`] gives.
pub fn big_int_len_bytes(number: &Bound<'_, PyInt>) -> PyResult<usize> {
    let py = number.py();
    let class = py.get_type::<PyInt>();
    let bit_length: usize = class.call_method1(intern!(py, "bit_length"), (number,))?.extract()?;
    Ok(bit_length / 8 + 1)
}

/// Two's complement, little-endian, of an int of any size.
pub fn big_int_to_bytes<'py>(number: &Bound<'py, PyInt>) -> PyResult<Bound<'py, PyBytes>> {
    let py = number.py();
    let signed = [("signed", true)].into_py_dict(py)?;
    let arguments = (number, big_int_len_bytes(number)?, "little");
    py.get_type::<PyInt>()
        .call_method(intern!(py, "to_bytes"), arguments, Some(&signed))?
        .cast_into::<PyBytes>()
        .map_err(PyErr::from)
}

/// The reverse.
pub fn big_int_from_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let signed = [("signed", true)].into_py_dict(py)?;
    let arguments = (PyBytes::new(py, bytes), "little");
    py.get_type::<PyInt>().call_method(intern!(py, "from_bytes"), arguments, Some(&signed))
}

/// The key whose bytes these are.
///
/// # Errors
/// `EntryCorrupt` if they are no key's.
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
        "an entry's key cannot be read (its {} bytes begin with {shown}): it was stored by another \
         program or a newer version, or is damaged; check() finds damage, clear() removes it",
        bytes.len()
    ))
}
