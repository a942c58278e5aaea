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
//! with their own `__eq__` or `__hash__` raise `KeyTypeError`. An object with `__index__` is its int.
//!
//! Other objects cannot be stored as keys. To look one up works as in a dict: `1.0` finds the key 1,
//! any other hashable object finds nothing, and an unhashable one raises `KeyTypeError`.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyInt, PyString, PyTuple};
use pyo3::PyTypeInfo;

use crate::errors::classes::{EntryCorrupt, KeyTooLong, KeyTypeError};
use crate::errors::Quick;
use crate::{advice, names, numbers, text, varint};

/// First byte of every key that is not a `str`.
const OTHER: u8 = 0xFF;
const BYTES: u8 = b'b';
const INT: u8 = b'i';
const TUPLE: u8 = b't';
/// What a lookup of an object that no key equals looks for: no key is encoded like this.
const ABSENT: [u8; 2] = [OTHER, OTHER];
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

/// Encodes a key to store.
///
/// # Errors
/// `KeyTypeError` for other types. `KeyTooLong`, before more bytes are copied than a key may have;
/// a plain `str` is not copied, and the engine checks its length.
#[inline(always)]
pub fn encode<'a>(key: &'a Bound<'_, PyAny>) -> Quick<Key<'a>> {
    match plain(key) {
        Some(text) => Ok(Key::Borrowed(text.as_bytes())),
        None => Ok(encode_other(key, false)?),
    }
}

/// Encodes a key to look up.
///
/// # Errors
/// As [`encode`]; of other types, only those that are not hashable raise `KeyTypeError`.
#[inline(always)]
pub fn encode_lookup<'a>(key: &'a Bound<'_, PyAny>) -> Quick<Key<'a>> {
    match plain(key) {
        Some(text) => Ok(Key::Borrowed(text.as_bytes())),
        None => Ok(encode_other(key, true)?),
    }
}

/// Returns the UTF-8 of a plain `str`, which is its encoding. `None` for another type, and for a
/// `str` with lone surrogates.
#[inline(always)]
pub fn plain<'a>(key: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    text::utf8(key.cast_exact::<PyString>().ok()?)
}

#[inline(never)]
fn encode_other<'a>(key: &Bound<'_, PyAny>, is_lookup: bool) -> PyResult<Key<'a>> {
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
    let mut encoder = Encoder { bytes: Vec::new(), whole: key, is_lookup, is_absent: false };
    encoder.append(key, 0)?;
    Ok(Key::Long(if encoder.is_absent { ABSENT.to_vec() } else { encoder.bytes }))
}

/// Returns the two's complement, little-endian, and the number of bytes used.
fn int_bytes(number: i64) -> ([u8; 9], u8) {
    let bit_length = 64 - number.unsigned_abs().leading_zeros();
    let mut digits = [0; 9];
    digits.copy_from_slice(&i128::from(number).to_le_bytes()[..9]);
    (digits, (bit_length / 8 + 1) as u8)
}

struct Encoder<'k, 'py> {
    bytes: Vec<u8>,
    /// The key, for messages about its parts.
    whole: &'k Bound<'py, PyAny>,
    is_lookup: bool,
    /// Whether a lookup met an object that no key equals.
    is_absent: bool,
}

impl<'py> Encoder<'_, 'py> {
    /// Appends the encoding of the key, or of an item in `depth` tuples.
    fn append(&mut self, key: &Bound<'py, PyAny>, depth: usize) -> PyResult<()> {
        if let Ok(text) = key.cast::<PyString>() {
            if !inherits_equality::<PyString>(key)? {
                return self.append_unequal::<PyString>(key, depth);
            }
            // Before encoding: a character takes at least one byte.
            self.check_length(text.len()?)?;
            match text.to_str() {
                Ok(text) => {
                    self.check_length(text.len())?;
                    self.bytes.extend_from_slice(text.as_bytes());
                }
                Err(_) => self.bytes.extend_from_slice(surrogates_to_bytes(text)?.as_bytes()),
            }
        } else if let Ok(content) = key.cast::<PyBytes>() {
            if !inherits_equality::<PyBytes>(key)? {
                return self.append_unequal::<PyBytes>(key, depth);
            }
            self.check_length(2 + content.as_bytes().len())?;
            self.bytes.extend_from_slice(&[OTHER, BYTES]);
            self.bytes.extend_from_slice(content.as_bytes());
        } else if let Ok(number) = key.cast::<PyInt>() {
            if !inherits_equality::<PyInt>(key)? {
                return self.append_unequal::<PyInt>(key, depth);
            }
            self.bytes.extend_from_slice(&[OTHER, INT]);
            match number.extract::<i64>() {
                Ok(number) => {
                    let (digits, length) = int_bytes(number);
                    self.bytes.extend_from_slice(&digits[..usize::from(length)]);
                }
                Err(_) => {
                    self.check_length(big_int_len_bytes(number)?)?;
                    self.bytes.extend_from_slice(big_int_to_bytes(number)?.as_bytes());
                }
            }
        } else if let Ok(items) = key.cast::<PyTuple>() {
            if !inherits_equality::<PyTuple>(key)? {
                return self.append_unequal::<PyTuple>(key, depth);
            }
            if depth == DEPTH_MAX {
                return Err(KeyTypeError::new_err(format!(
                    "key {} has tuples nested more than {DEPTH_MAX} deep; flatten it",
                    names::of_object(self.whole)
                )));
            }
            self.bytes.extend_from_slice(&[OTHER, TUPLE]);
            for item in items.iter_borrowed() {
                let start = self.bytes.len();
                self.append(&item, depth + 1)?;
                varint::insert(&mut self.bytes, start);
                // A small tuple can contain another one many times, and so have a long encoding.
                self.check_length(0)?;
            }
        } else if let Some(plain) = numbers::plain(key)? {
            self.append(&plain, depth)?;
        } else if self.is_lookup {
            let hash = key.hash().map_err(|error| {
                let is_unhashable = error.is_instance_of::<PyTypeError>(key.py());
                if is_unhashable {
                    self.refuse(key)
                } else {
                    error
                }
            })?;
            match equal_int(key, hash)? {
                Some(number) => self.append(&number.into_pyobject(key.py())?.into_any(), depth)?,
                None => self.is_absent = true,
            }
        } else {
            return Err(self.refuse(key));
        }
        Ok(())
    }

    /// Appends an instance of a subclass with its own `__eq__` or `__hash__`, if a plain object is
    /// known to equal it.
    #[cold]
    fn append_unequal<T: PyTypeInfo>(
        &mut self,
        key: &Bound<'py, PyAny>,
        depth: usize,
    ) -> PyResult<()> {
        if let Some(plain) = numbers::plain(key)? {
            return self.append(&plain, depth);
        }
        let base = T::type_object(key.py());
        let advice = advice::on_key_of_subclass(key, &base)?;
        Err(KeyTypeError::new_err(format!(
            "key {}: {} cannot be a key, because it is a subclass of {} with its own __eq__ or \
             __hash__; use {advice}",
            names::of_object(self.whole),
            names::of_type(key),
            names::of(&base),
        )))
    }

    /// Raises `KeyTooLong` before a key that is too long is copied.
    fn check_length(&self, more_bytes: usize) -> PyResult<()> {
        let len_bytes = self.bytes.len().saturating_add(more_bytes);
        let most_bytes = tuckbox_engine::KEY_BYTES_MAX;
        if len_bytes <= most_bytes {
            return Ok(());
        }
        let error = tuckbox_engine::Error::KeyTooLong { len_bytes, most_bytes };
        Err(KeyTooLong::new_err(error.to_string()))
    }

    #[cold]
    fn refuse(&self, key: &Bound<'_, PyAny>) -> PyErr {
        advice::on_key(key).map_or_else(
            |error| error,
            |advice| {
                KeyTypeError::new_err(format!(
                    "key {}: {} cannot be a key; keys are str, bytes, int and tuples of these; \
                     {advice}",
                    names::of_object(self.whole),
                    names::of_type(key),
                ))
            },
        )
    }
}

/// The int that an object of another type equals, as a dict would find it. An int below 2^61 - 1 is
/// its own hash, except -1, whose hash is -2.
fn equal_int(key: &Bound<'_, PyAny>, hash: isize) -> PyResult<Option<isize>> {
    for number in [hash, hash + isize::from(hash == -2)] {
        if key.eq(number)? {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// Whether the class of the key inherits `==` and `hash` from this base, so that a dict would also
/// treat the key as the plain one.
fn inherits_equality<T: PyTypeInfo>(key: &Bound<'_, PyAny>) -> PyResult<bool> {
    if key.is_exact_instance_of::<T>() {
        return Ok(true);
    }
    let py = key.py();
    let (kind, base) = (key.get_type(), T::type_object(py));
    for name in [intern!(py, "__eq__"), intern!(py, "__hash__")] {
        if !kind.getattr(name)?.is(&base.getattr(name)?) {
            return Ok(false);
        }
    }
    Ok(true)
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
