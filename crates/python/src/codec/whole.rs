//! Whole values as the bytes of their entry: plain, encoded by a codec or pickled, compressed.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tuckbox_engine::Value;

use super::encode::{encode, encode_plain, encoded, Rules};
use super::refusal::Refusal;
use super::{code, decode};
use crate::errors::classes::EntryRefused;
use crate::errors::Quick;
use crate::objects::{Entry, Objects, Takes};
use crate::varint;

/// A compressed value may always be this long, even if the cache has become smaller than that.
const RAW_BYTES_MAX: usize = 64 << 20;

/// A value as it is stored.
pub enum Stored<'a> {
    /// Its own memory, or a number.
    Plain(Value<'a>),
    /// In the buffer, its code first.
    Encoded {
        /// Whether it was encoded for this entry of this cache alone.
        is_bound: bool,
    },
}

/// Encodes the value of an entry, if necessary into `bytes`.
///
/// # Errors
/// A [`Refusal`], with the exceptions of pickling, the codec or the compression.
pub fn encode_whole<'a>(
    value: &'a Bound<'_, PyAny>,
    rules: Rules<'_>,
    entry: Entry<'_>,
    bytes: &mut Vec<u8>,
) -> Result<Stored<'a>, Box<Refusal>> {
    let plain = encode_plain(value);
    if let Some(Value::Int(_)) = plain {
        return Ok(Stored::Plain(plain.expect("just found")));
    }
    let takes = entry.objects.map_or(Takes::Nothing, |objects| objects.takes);
    let mut is_bound = false;
    let mut is_encoded = false;
    if let (Some(objects), Takes::Everything) = (entry.objects, takes) {
        if !objects.is_registered(value)? {
            is_encoded = by_object(objects, value, entry, bytes)?;
            is_bound = is_encoded;
        }
    }
    if !is_encoded && plain.is_none() {
        match encode(value, rules, bytes) {
            Ok(number @ Value::Int(_)) => return Ok(Stored::Plain(number_of(number))),
            Ok(_) => is_encoded = true,
            Err(refusal) if takes == Takes::NotPlain && refusal.is_of_a_type() => {
                let objects = entry.objects.expect("it takes something");
                is_encoded = by_object(objects, value, entry, bytes)?;
                is_bound = is_encoded;
                if !is_encoded {
                    return Err(refusal);
                }
            }
            Err(refusal) => return Err(refusal),
        }
    }
    let raw = match plain {
        Some(plain) if !is_encoded => plain,
        _ => encoded(bytes),
    };
    if let Some(compressed) = compressed(value.py(), raw, rules, entry)? {
        *bytes = compressed;
        is_encoded = true;
    }
    Ok(match plain {
        Some(plain) if !is_encoded => Stored::Plain(plain),
        _ => Stored::Encoded { is_bound },
    })
}

/// Gives a number another lifetime.
fn number_of<'a>(value: Value<'_>) -> Value<'a> {
    match value {
        Value::Int(number) => Value::Int(number),
        Value::Bytes { .. } => unreachable!("only called for a number"),
    }
}

/// Whether the Python object has encoded the value into `bytes`.
fn by_object(
    objects: &Objects,
    value: &Bound<'_, PyAny>,
    entry: Entry<'_>,
    bytes: &mut Vec<u8>,
) -> PyResult<bool> {
    let Some((code, content)) = objects.encode(value, entry)? else { return Ok(false) };
    bytes.clear();
    bytes.push(code);
    bytes.extend_from_slice(content.as_bytes());
    Ok(true)
}

/// The code and the compressed form of a value, if it is long enough and becomes shorter.
fn compressed(
    py: Python<'_>,
    value: Value<'_>,
    rules: Rules<'_>,
    entry: Entry<'_>,
) -> PyResult<Option<Vec<u8>>> {
    let (Some(objects), Value::Bytes { tag, bytes: raw }) = (entry.objects, value) else {
        return Ok(None);
    };
    // The engine refuses what is too long.
    if raw.len() < objects.compress_min_bytes || raw.len() > rules.bytes_max {
        return Ok(None);
    }
    let Some((algorithm, content)) = objects.compress(py, raw)? else { return Ok(None) };
    let content = content.as_bytes();
    let mut bytes = Vec::with_capacity(content.len() + 16);
    bytes.extend_from_slice(&[code::COMPRESSED, algorithm, tag]);
    varint::append(&mut bytes, raw.len() as u64);
    bytes.extend_from_slice(content);
    Ok(Some(bytes))
}

/// Decodes a compressed value.
///
/// # Errors
/// `EntryRefused` if it claims to be longer than any value of this cache; as [`Objects::decompress`].
pub fn decode_compressed<'py>(
    py: Python<'py>,
    bytes: &[u8],
    objects: &Objects,
    entry: Entry<'_>,
) -> Quick<Bound<'py, PyAny>> {
    let corrupt = || decode::corrupt("its compressed form is invalid");
    let (&[algorithm, tag], mut rest) = bytes.split_first_chunk().ok_or_else(corrupt)?;
    let len_bytes = varint::take(&mut rest).ok_or_else(corrupt)?;
    let most_bytes = entry.cache.latest().value_bytes_max().max(RAW_BYTES_MAX);
    if len_bytes > most_bytes as u64 {
        return Err(EntryRefused::new_err(format!(
            "its compressed value would have {len_bytes} bytes, and the limit is {most_bytes}; \
             delete it: this cache did not store it"
        ))
        .into());
    }
    let raw: Bound<'py, PyBytes> = objects.decompress(py, algorithm, rest, len_bytes as usize)?;
    match tag {
        code::BYTES => Ok(raw.into_any()),
        code::COMPRESSED => Err(corrupt().into()),
        _ => decode::decode(py, Value::Bytes { tag, bytes: raw.as_bytes() }, || entry),
    }
}
