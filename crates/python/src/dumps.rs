//! Entries as `tuckbox.dumps` writes and reads them: with the bytes of their keys and values. Must not
//! know files.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyTuple};
use tuckbox_engine::{Attributes, Condition, Item, Terms, Ttl, Value, VALUE_TAG_COUNT};

use crate::codec;
use crate::opened::Opened;

/// How long an entry lives, and how long it took to make its value. Times are in microseconds.
#[derive(Clone, Copy)]
pub struct Life {
    /// The moment at which its ttl ends; none is never.
    pub expiry_us: Option<u64>,
    /// For how long after that it is kept as a stale one.
    pub stale_us: u64,
    /// How long it took to make its value, if that is known.
    pub made_us: Option<u64>,
    /// Whether it is never evicted.
    pub is_pinned: bool,
}

/// The key, the value, and the rest of an entry. The value is an int, or bytes with the code first.
///
/// # Errors
/// There is no memory.
pub fn encoded<'py>(py: Python<'py>, item: &Item<'_>) -> PyResult<Bound<'py, PyAny>> {
    let value = match item.entry.value {
        Value::Int(number) => number.into_pyobject(py)?.into_any(),
        Value::Bytes { tag, bytes } => {
            let fill = |memory: &mut [u8]| {
                memory[0] = tag;
                memory[1..].copy_from_slice(bytes);
                Ok(())
            };
            PyBytes::new_with(py, 1 + bytes.len(), fill)?.into_any()
        }
    };
    let tags = item.tags.filter_map(|tag| std::str::from_utf8(tag).ok());
    let tags = PyTuple::new(py, tags.collect::<Vec<_>>())?;
    let key = PyBytes::new(py, item.key);
    let life = (item.entry.expiry_us, item.stale_us, item.made_us);
    Ok((key, value, life.0, life.1, life.2, tags, item.is_pinned).into_pyobject(py)?.into_any())
}

/// Stores such an entry. Without `replaces`, a fresh entry of the key is kept. Whether it was stored;
/// none if it has expired.
///
/// # Errors
/// As `set`; `EntryCorrupt` if the value is none of this release.
pub fn store(
    opened: &Opened,
    py: Python<'_>,
    key: &[u8],
    value: &Bound<'_, PyAny>,
    life: Life,
    tags: &[String],
    replaces: bool,
) -> PyResult<Option<bool>> {
    let value = match value.cast::<PyInt>() {
        Ok(number) => Value::Int(number.extract()?),
        Err(_) => match value.cast::<PyBytes>()?.as_bytes() {
            &[tag, ..] if tag >= VALUE_TAG_COUNT => return Err(unknown()),
            [] => return Err(unknown()),
            bytes => codec::encoded(bytes),
        },
    };
    let names: Vec<&str> = tags.iter().map(String::as_str).collect();
    let condition = if replaces { Condition::Always } else { Condition::Absent };
    let store = |cache: &tuckbox_engine::Handle| {
        let now_us = cache.latest().now_us();
        let (ttl, stale_us) = match life.expiry_us {
            None => (Ttl::Never, life.stale_us),
            Some(end_us) if end_us > now_us => (Ttl::Us(end_us - now_us), life.stale_us),
            Some(end_us) => {
                let left_us = end_us.saturating_add(life.stale_us).saturating_sub(now_us);
                if left_us == 0 {
                    return Ok(None);
                }
                (Ttl::Us(0), left_us)
            }
        };
        let stale = (stale_us > 0).then_some(Ttl::Us(stale_us));
        let Life { made_us, is_pinned, .. } = life;
        let attributes =
            Attributes { tags: &names, stale, made_us, is_pinned, ..Attributes::default() };
        let terms = Terms { attributes, condition, ..Terms::plain(ttl) };
        cache.store(key, value, &terms).map(Some)
    };
    opened.write(py, value.len(), store).map_err(|error| opened.refused(py, error))
}

#[cold]
fn unknown() -> PyErr {
    codec::corrupt("its code is unknown")
}
