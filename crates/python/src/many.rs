//! Operations on many keys. All arguments are converted before the first write, so that an invalid
//! key or value changes nothing.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use tuckbox_engine::{ArenaError, Condition, Error, Handle, Value, BRIEF_BYTES, KEY_BYTES_MAX};

use crate::codec::Stored;
use crate::core::Core;
use crate::errors::classes::{KeyTypeError, WouldBlock};
use crate::errors::{Quick, Raised};
use crate::keys::Key;
use crate::scratch::{self, Used};
use crate::terms::OwnedTerms;
use crate::{codec, names, waiter};

/// Other threads may run once in this many entries.
const ENTRIES_AT_ONCE: usize = 512;
/// The most bytes of values that a brief `get_many` reads.
const BRIEF_MANY_BYTES: usize = 8 * BRIEF_BYTES;

/// See `Core.get_many`.
pub fn get<'py>(
    core: &Core,
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let opened = core.opened()?;
    let objects = collected(keys)?;
    let mut encoded = Vec::with_capacity(objects.len());
    for object in &objects {
        encoded.push(opened.lookup_key(py, object)?);
    }
    let found = PyDict::new(py);
    let result = scratch::with_buffer(|buffer| {
        let mut read_bytes = 0;
        let mut all_bytes = 0;
        let result = opened.cache.get_each(&encoded, buffer, |index, entry| {
            read_bytes = read_bytes.max(entry.value.len());
            all_bytes += entry.value.len();
            if all_bytes > BRIEF_MANY_BYTES && waiter::is_brief() {
                return Err(Error::from(ArenaError::WouldBlock { is_locked: false }).into());
            }
            let_others_run_at(py, index);
            let key = encoded[index].bytes();
            let value = opened.decoded(py, &objects[index], key, entry.value)?;
            found.set_item(&objects[index], value).map_err(Raised::from)?;
            Ok(())
        });
        Used { result, read_bytes }
    });
    match result {
        Ok(()) => Ok(found),
        Err(GetError::Engine(error)) => {
            // The engine checks the lengths of all keys, and does not say which is too long.
            let too_long = encoded.iter().position(|key| key.bytes().len() > KEY_BYTES_MAX);
            Err(match too_long {
                Some(index) => opened.refused_entry(py, error, &objects[index]),
                None => opened.refused(py, error),
            })
        }
        Err(GetError::Python(raised)) => Err(raised.into()),
    }
}

/// Why a `get_many` failed.
enum GetError {
    /// An error of the engine.
    Engine(Error),
    /// A Python exception.
    Python(Raised),
}

impl From<Error> for GetError {
    fn from(error: Error) -> GetError {
        GetError::Engine(error)
    }
}

impl From<Raised> for GetError {
    fn from(raised: Raised) -> GetError {
        GetError::Python(raised)
    }
}

/// See `Core.delete_many`.
pub fn delete(core: &Core, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
    let opened = core.opened()?;
    let objects = collected(keys)?;
    let mut deleted_count = 0;
    let lookup_key = |object| opened.lookup_key(py, object);
    let encoded: PyResult<Vec<Key<'_>>> =
        objects.iter().map(|object| checked_key(core, py, object, lookup_key)).collect();
    for (index, key) in encoded?.iter().enumerate() {
        let deleted = opened.cache.delete(key.bytes()).map_err(|error| {
            let error = opened.refused(py, error);
            told_progress(py, error, index, deleted_count)
        })?;
        deleted_count += usize::from(deleted);
        let_others_run_at(py, index);
    }
    Ok(deleted_count)
}

/// Notes in a `WouldBlock` how many keys are done, and how many of them had a value.
fn told_progress(py: Python<'_>, error: PyErr, done: usize, deleted_count: usize) -> PyErr {
    if error.is_instance_of::<WouldBlock>(py) {
        if let Err(other) = error.value(py).setattr("done", (done, deleted_count)) {
            return other;
        }
    }
    error
}

/// Lets other threads run once in many entries.
#[inline]
fn let_others_run_at(py: Python<'_>, index: usize) {
    if index % ENTRIES_AT_ONCE == ENTRIES_AT_ONCE - 1 {
        waiter::let_others_run(py);
    }
}

/// See `Core.set_many`.
pub fn set(
    core: &Core,
    py: Python<'_>,
    mapping: &Bound<'_, PyAny>,
    given: &OwnedTerms,
) -> PyResult<()> {
    let opened = core.opened()?;
    let pairs = pairs_of(mapping)?;
    loop {
        let id = opened.objects.as_ref().map(|_| opened.cache.latest().id());
        let (entries, is_bound) = encoded_pairs(core, py, &pairs)?;
        let stored: Vec<(&[u8], Value<'_>)> =
            entries.iter().map(|(key, value)| (key.bytes(), value.value())).collect();
        let all_bytes = stored.iter().map(|(_, value)| value.len()).sum();
        given
            .with(Condition::Always, |terms| {
                let set =
                    |cache: &Handle| cache.set_each_with(&stored, terms.ttl, &terms.attributes);
                opened.write(py, all_bytes, set).or_else(|error| opened.with_room(py, error, set))
            })
            .map_err(|error| opened.refused(py, error))?;
        // In another file, some of the values could not be read.
        if !is_bound || id == Some(opened.cache.latest().id()) {
            return Ok(());
        }
    }
}

/// A key and its value.
type Entry<'a> = (Key<'a>, Encoded<'a>);

/// Encodes all keys and values; also returns whether any value is for this file alone.
fn encoded_pairs<'a, 'py>(
    core: &Core,
    py: Python<'py>,
    pairs: &'a [Pair<'py>],
) -> PyResult<(Vec<Entry<'a>>, bool)> {
    let opened = core.opened()?;
    let mut entries = Vec::with_capacity(pairs.len());
    let mut is_any_bound = false;
    for (object, value) in pairs {
        let key = checked_key(core, py, object, |object| opened.key(py, object))?;
        let value = match codec::encode_plain(value) {
            Some(value) if value.len() < opened.direct_bytes => Encoded::Plain(value),
            _ => {
                let mut bytes = Vec::new();
                let entry = opened.entry(key.bytes());
                match codec::encode_whole(value, opened.rules(), entry, &mut bytes) {
                    Ok(Stored::Plain(value)) => Encoded::Plain(value),
                    Ok(Stored::Encoded { is_bound }) => {
                        is_any_bound |= is_bound;
                        Encoded::Item(bytes)
                    }
                    Err(refusal) => return Err(refusal.raised(py, Some(object))),
                }
            }
        };
        let len_bytes = value.value().len();
        if len_bytes > opened.value_bytes_max() {
            let most_bytes = opened.value_bytes_max();
            let error = Error::ValueTooLarge { len_bytes, most_bytes };
            return Err(opened.refused_entry(py, error, object));
        }
        entries.push((key, value));
        let_others_run_at(py, entries.len());
    }
    Ok((entries, is_any_bound))
}

enum Encoded<'a> {
    Plain(Value<'a>),
    Item(Vec<u8>),
}

impl Encoded<'_> {
    fn value(&self) -> Value<'_> {
        match self {
            Encoded::Plain(value) => *value,
            Encoded::Item(bytes) => codec::encoded(bytes),
        }
    }
}

fn collected<'py>(keys: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if keys.is_instance_of::<PyString>() || keys.is_instance_of::<PyBytes>() {
        return Err(KeyTypeError::new_err(format!(
            "keys must be an iterable of keys, not {}; put a single key in a list",
            names::of_type(keys)
        )));
    }
    // The usual case, without a Python iterator.
    if let Ok(list) = keys.cast_exact::<PyList>() {
        return Ok(list.iter().collect());
    }
    keys.try_iter()?.collect()
}

/// Encodes a key, and checks its length.
#[inline(always)]
fn checked_key<'a, 'py>(
    core: &Core,
    py: Python<'py>,
    object: &'a Bound<'py, PyAny>,
    encode: impl FnOnce(&'a Bound<'py, PyAny>) -> Quick<Key<'a>>,
) -> PyResult<Key<'a>> {
    let key = encode(object)?;
    let len_bytes = key.bytes().len();
    if len_bytes > KEY_BYTES_MAX {
        let error = Error::KeyTooLong { len_bytes, most_bytes: KEY_BYTES_MAX };
        return Err(core.opened()?.refused_entry(py, error, object));
    }
    Ok(key)
}

type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

fn pairs_of<'py>(mapping: &Bound<'py, PyAny>) -> PyResult<Vec<Pair<'py>>> {
    if let Ok(dict) = mapping.cast_exact::<PyDict>() {
        return Ok(dict.iter().collect());
    }
    let items = mapping.call_method0(intern!(mapping.py(), "items")).map_err(|_| {
        PyTypeError::new_err(format!(
            "mapping must be a mapping of keys to values, not {}",
            names::of_type(mapping)
        ))
    })?;
    items.try_iter()?.map(|pair| pair?.extract()).collect()
}
