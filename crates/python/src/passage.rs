//! `Passage`: sets a plain value under a `str` through the gate, in one call; and `Core._plain_value`, which
//! gets one. Both do what the slower way of `tuckbox.compat.diskcache` does for such an entry, or nothing:
//! then that way is taken, and raises what there is to raise. Must not know what a gate is for (`gate`).

use std::cell::Cell;
use std::ffi::CStr;
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use tuckbox_engine::{Made, Value};

use crate::codec::{self, Stamp};
use crate::core::Core;
use crate::errors::Quick;
use crate::fastcall::{self, Argument, Method};
use crate::keys;
use crate::scratch::{self, Used};

/// What became of a change; `tuckbox.compat.diskcache.passing` has the same numbers.
#[derive(Clone, Copy)]
enum Outcome {
    Refused = 0,
    Passed = 1,
    /// It was made, and there is too much now.
    Over = 3,
}

/// What an entry takes besides its key and its value, as `bytes_of` counts it.
const ENTRY_BYTES: i64 = 64;
/// The characters that the key of a queue's item ends with, a hyphen and digits.
const ITEM_CHARACTERS: usize = 16;

/// What holds while the gate has a word.
#[pyclass(frozen, module = "tuckbox._engine")]
pub struct Passage {
    core: Py<Core>,
    gate: u64,
    /// The earliest expiry of any entry; infinite if none expires.
    soonest_s: f64,
    /// Bytes of the values that are files.
    file_bytes: i64,
    has_queues: bool,
    /// How many bytes the entries may take before the file must grow.
    most_bytes: i64,
    /// The longest key, in characters.
    key_length_max: usize,
    /// One more than the characters or bytes of the longest value.
    value_length_end: usize,
    /// The bytes of all entries from which on there are too many.
    size_limit: i64,
}

#[pymethods]
impl Passage {
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        core: Py<Core>,
        gate: u64,
        soonest_s: Option<f64>,
        file_bytes: i64,
        has_queues: bool,
        most_bytes: i64,
        key_length_max: usize,
        value_length_end: usize,
        size_limit: i64,
    ) -> Passage {
        let soonest_s = soonest_s.unwrap_or(f64::INFINITY);
        Passage {
            core,
            gate,
            soonest_s,
            file_bytes,
            has_queues,
            most_bytes,
            key_length_max,
            value_length_end,
            size_limit,
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.core)
    }
}

impl Passage {
    /// Sets a value, or does nothing.
    #[inline(always)]
    fn put(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Option<Outcome> {
        let opened = self.core.get().opened().ok()?;
        let text = keys::plain(key)?;
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        if self.soonest_s < now_s || opened.space.is_some() || opened.cache.gate() != self.gate {
            return None;
        }
        let bytes = text.as_bytes();
        let read_bytes = Cell::new(0);
        let mut make = |old: Option<Value<'_>>, encoded: &mut Vec<u8>| {
            read_bytes.set(old.as_ref().map_or(0, Value::len));
            let stamp = match old {
                Some(old) => codec::stamp_of(old)?,
                None if self.has_queues && may_be_item(text) => return None,
                // Only a new entry has a new place in the order. One that is replaced is the same to
                // all who remember entries, apart from its time, which they look at again.
                None => Stamp {
                    length: -ENTRY_BYTES - self.key_length(text)?,
                    number: opened.cache.next_number() as i64,
                },
            };
            let (tag, length) =
                codec::encode_stamped(value, stamp.number, now_s, self.value_length_end, encoded)?;
            Some(Made { tag, delta: length - stamp.length })
        };
        let weight = scratch::with_bytes(|encoded| {
            scratch::with_buffer(|buffer| {
                let stored =
                    opened.cache.replace_passing(bytes, self.gate, buffer, encoded, &mut make);
                Used { result: stored.ok().flatten(), read_bytes: read_bytes.get() }
            })
        })?;
        let is_over = weight >= self.most_bytes || weight + self.file_bytes >= self.size_limit;
        Some(if is_over { Outcome::Over } else { Outcome::Passed })
    }

    /// The number of characters, if they are not too many.
    fn key_length(&self, text: &str) -> Option<i64> {
        let length = if text.is_ascii() { text.len() } else { text.chars().count() };
        (length <= self.key_length_max).then_some(length as i64)
    }
}

/// Whether a key may be that of a queue's item. True for some others, too.
fn may_be_item(text: &str) -> bool {
    let bytes = text.as_bytes();
    !text.is_ascii() || bytes.len().checked_sub(ITEM_CHARACTERS).is_some_and(|at| bytes[at] == b'-')
}

/// `Passage.put`.
struct Put;

impl Method<Passage, 2> for Put {
    const NAME: &'static CStr = c"put";
    const DOC: &'static CStr = c"put($self, key, value)\n--\n\n\
        Set a str, bytes, int or float under a str that has such a value or none.\n\n\
        Args:\n    \
            key: The key.\n    \
            value: The value.\n\n\
        Returns:\n    \
            0 if nothing was done; 1 if the value was set; 3 if there is too much now.\n";
    const PARAMETERS: [&'static str; 2] = ["key", "value"];
    const REQUIRED: usize = 2;

    #[inline(always)]
    fn call<'py>(
        py: Python<'py>,
        passage: &Bound<'py, Passage>,
        arguments: [Argument<'_, 'py>; 2],
    ) -> Quick<Bound<'py, PyAny>> {
        let outcome = (|| {
            let [Some(key), Some(value)] = arguments else {
                return None;
            };
            passage.get().put(&key, &value)
        })();
        let outcome = outcome.unwrap_or(Outcome::Refused) as u8;
        Ok(outcome.into_pyobject(py).map_err(PyErr::from)?.into_any())
    }
}

/// `Core._plain_value`.
struct PlainValue;

impl Method<Core, 1> for PlainValue {
    const NAME: &'static CStr = c"_plain_value";
    const DOC: &'static CStr = c"_plain_value($self, key)\n--\n\n\
        Return the str or bytes that `Passage.put` has stored under a str, or None.\n";
    const PARAMETERS: [&'static str; 1] = ["key"];
    const REQUIRED: usize = 1;

    #[inline(always)]
    fn call<'py>(
        py: Python<'py>,
        core: &Bound<'py, Core>,
        [key]: [Argument<'_, 'py>; 1],
    ) -> Quick<Bound<'py, PyAny>> {
        let found = (|| {
            let key = key?;
            let opened = core.get().opened().ok()?;
            let text = keys::plain(&key).filter(|_| opened.space.is_none())?;
            scratch::with_buffer(|buffer| match opened.cache.get(text.as_bytes(), buffer) {
                Ok(Some(entry)) => Used {
                    result: codec::stamped_value(py, entry.value),
                    read_bytes: entry.value.len(),
                },
                Ok(None) | Err(_) => Used { result: None, read_bytes: 0 },
            })
        })();
        Ok(found.unwrap_or_else(|| py.None().into_bound(py)))
    }
}

/// Adds the methods to their classes.
///
/// # Errors
/// Exceptions of Python.
pub fn install_methods(py: Python<'_>) -> PyResult<()> {
    fastcall::install::<Core, PlainValue, 1>(py)?;
    fastcall::install::<Passage, Put, 2>(py)
}
