//! A tuple of a plain value, a number and a time, without Python objects for the tuple and the number.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyString};
use tuckbox_engine::Value;

use super::code;
use super::encode::{append_float, append_int, append_text};
use crate::{text, varint};

/// The items of such a tuple.
const COUNT: u8 = 3;
/// What [`Stamp::length`] is for a number.
const NUMBER_LENGTH: i64 = 8;

/// What is known of a stored tuple.
pub struct Stamp {
    /// The characters of a `str`, the bytes of a `bytes`; 8 for a number.
    pub length: i64,
    /// The number.
    pub number: i64,
}

/// Encodes the tuple into `bytes`. Returns the tag, and the length of `value` as in [`Stamp`]; none, if it
/// is no `str` without lone surrogates, `bytes`, `float` or 64-bit `int`, or
/// has `length_max` or more characters or bytes.
pub fn encode_stamped(
    value: &Bound<'_, PyAny>,
    number: i64,
    time_s: f64,
    length_max: usize,
    bytes: &mut Vec<u8>,
) -> Option<(u8, i64)> {
    bytes.clear();
    bytes.push(COUNT);
    let length = if let Ok(string) = value.cast_exact::<PyString>() {
        let length = string.len().ok()?;
        let content = text::utf8(string)?;
        if length >= length_max {
            return None;
        }
        append_text(bytes, content);
        length as i64
    } else if let Ok(content) = value.cast_exact::<PyBytes>() {
        let content = content.as_bytes();
        if content.len() >= length_max {
            return None;
        }
        bytes.push(code::BYTES);
        varint::append(bytes, content.len() as u64);
        bytes.extend_from_slice(content);
        content.len() as i64
    } else if let Ok(float) = value.cast_exact::<PyFloat>() {
        append_float(bytes, float.value());
        NUMBER_LENGTH
    } else {
        append_int(bytes, value.cast_exact::<PyInt>().ok()?.extract().ok()?);
        NUMBER_LENGTH
    };
    append_int(bytes, number);
    append_float(bytes, time_s);
    Some((code::TUPLE, length))
}

/// Reads what [`encode_stamped`] wrote; none if the value is anything else. Bytes after the number are
/// not looked at.
pub fn stamp_of(value: Value<'_>) -> Option<Stamp> {
    let Value::Bytes { tag: code::TUPLE, bytes: [COUNT, code, rest @ ..] } = value else {
        return None;
    };
    let mut rest = rest;
    let length = match *code {
        code::SMALL_INT.. => NUMBER_LENGTH,
        code::SHORT_STR.. => {
            let length_bytes = u64::from(*code - code::SHORT_STR);
            text_length(take(&mut rest, length_bytes)?)
        }
        code::STR => {
            let length_bytes = varint::take(&mut rest)?;
            text_length(take(&mut rest, length_bytes)?)
        }
        code::BYTES => {
            let length_bytes = varint::take(&mut rest)?;
            take(&mut rest, length_bytes)?.len() as i64
        }
        code::INT => {
            varint::take(&mut rest)?;
            NUMBER_LENGTH
        }
        code::FLOAT => {
            take(&mut rest, 8)?;
            NUMBER_LENGTH
        }
        _ => return None,
    };
    let number = match take(&mut rest, 1)?[0] {
        small @ code::SMALL_INT.. => i64::from(small - code::SMALL_INT),
        code::INT => {
            let zigzag = varint::take(&mut rest)?;
            (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
        }
        _ => return None,
    };
    Some(Stamp { length, number })
}

/// The value of what [`encode_stamped`] wrote, if it is a `str` or `bytes`. What follows it is not looked
/// at.
pub fn stamped_value<'py>(py: Python<'py>, value: Value<'_>) -> Option<Bound<'py, PyAny>> {
    let Value::Bytes { tag: code::TUPLE, bytes: [COUNT, code, rest @ ..] } = value else {
        return None;
    };
    let mut rest = rest;
    match *code {
        code::SHORT_STR..code::SMALL_INT => {
            let content = take(&mut rest, u64::from(*code - code::SHORT_STR))?;
            PyString::from_bytes(py, content).ok().map(Bound::into_any)
        }
        code::STR => {
            let length_bytes = varint::take(&mut rest)?;
            PyString::from_bytes(py, take(&mut rest, length_bytes)?).ok().map(Bound::into_any)
        }
        code::BYTES => {
            let length_bytes = varint::take(&mut rest)?;
            Some(PyBytes::new(py, take(&mut rest, length_bytes)?).into_any())
        }
        _ => None,
    }
}

fn take<'b>(rest: &mut &'b [u8], length_bytes: u64) -> Option<&'b [u8]> {
    let (taken, left) = rest.split_at_checked(usize::try_from(length_bytes).ok()?)?;
    *rest = left;
    Some(taken)
}

/// The number of characters of UTF-8: all bytes but those that continue one.
fn text_length(content: &[u8]) -> i64 {
    // In pieces whose number fits a byte, so that many bytes are added at a time.
    let begins = |piece: &[u8]| piece.iter().map(|byte| u8::from(*byte & 0xC0 != 0x80)).sum::<u8>();
    content.chunks(255).map(|piece| i64::from(begins(piece))).sum()
}
