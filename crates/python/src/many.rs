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
use crate::opened::Opened;
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
    let lookup_key = |object| Ok(opened.encoded_lookup(py, object)?);
    let EncodedKeys { plain, others } = encoded_keys(opened, &objects, lookup_key)?;
    let encoded = joined_keys(plain, &others);
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
            let (object, key) = (&objects[index], encoded[index]);
            let value = opened.decoded(py, object, key, entry.value)?;
            found.set_item(object, value).map_err(Raised::from)?;
            Ok(())
        });
        Used { result, read_bytes }
    });
    match result {
        Ok(()) => Ok(found),
        Err(GetError::Engine(error)) => {
            // The engine checks the lengths of all keys, and does not say which is too long.
            let too_long = encoded.iter().position(|key| key.len() > KEY_BYTES_MAX);
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
    let lookup_key = |object| opened.encoded_lookup(py, object);
    let checked = |object| checked_key(core, py, object, lookup_key);
    let EncodedKeys { plain, others } = encoded_keys(opened, &objects, checked)?;
    for (index, key) in joined_keys(plain, &others).into_iter().enumerate() {
        let deleted = opened.cache.delete(key).map_err(|error| {
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
        let EncodedPairs { plain, others, is_any_bound } = encoded_pairs(core, py, &pairs)?;
        let stored = joined(plain, &others);
        let all_bytes = stored.iter().map(|(_, value)| value.len()).sum();
        given
            .with(Condition::Always, |terms| {
                let set =
                    |cache: &Handle| cache.set_each_with(&stored, terms.ttl, &terms.attributes);
                opened.write(py, all_bytes, set).or_else(|error| opened.with_room(py, error, set))
            })
            .map_err(|error| opened.refused(py, error))?;
        // In another file, some of the values could not be read.
        if !is_any_bound || id == Some(opened.cache.latest().id()) {
            return Ok(());
        }
    }
}

/// As [`Opened::plain_key`]. None for a key that is too long, too.
#[inline(always)]
fn plain_key<'a>(opened: &Opened, object: &'a Bound<'_, PyAny>) -> Option<&'a [u8]> {
    opened.plain_key(object).filter(|bytes| bytes.len() <= KEY_BYTES_MAX)
}

/// Encoded keys.
// Apart: moving a `Key`, which has three forms, takes longer than encoding the usual one.
struct EncodedKeys<'a> {
    /// Those of [`plain_key`], as most are; empty ones in the places of all others.
    plain: Vec<&'a [u8]>,
    /// All others and their places.
    others: Vec<(usize, Key<'a>)>,
}

/// Encodes all keys; those that are not plain by `encode`.
fn encoded_keys<'a, 'py>(
    opened: &Opened,
    objects: &'a [Bound<'py, PyAny>],
    encode: impl Fn(&'a Bound<'py, PyAny>) -> PyResult<Key<'a>>,
) -> PyResult<EncodedKeys<'a>> {
    let (mut plain, mut others) = (Vec::with_capacity(objects.len()), Vec::new());
    for (place, object) in objects.iter().enumerate() {
        let key = plain_key(opened, object);
        plain.push(key.unwrap_or_default());
        if key.is_none() {
            others.push((place, encode(object)?));
        }
    }
    Ok(EncodedKeys { plain, others })
}

/// All keys in the order of the objects.
fn joined_keys<'a>(mut plain: Vec<&'a [u8]>, others: &'a [(usize, Key<'_>)]) -> Vec<&'a [u8]> {
    for (place, key) in others {
        plain[*place] = key.bytes();
    }
    plain
}

/// Encoded keys and values.
struct EncodedPairs<'a> {
    /// Those of a [`plain_key`] and a value that needs no encoding, either; an empty key and value in
    /// the places of all others.
    plain: Vec<EngineEntry<'a>>,
    /// All others and their places.
    others: Vec<(usize, Key<'a>, Encoded<'a>)>,
    /// Whether any value is for this file alone.
    is_any_bound: bool,
}

/// A key and its value, as the engine takes them.
type EngineEntry<'a> = (&'a [u8], Value<'a>);

/// All entries in the order of the pairs.
fn joined<'a>(
    mut plain: Vec<EngineEntry<'a>>,
    others: &'a [(usize, Key<'_>, Encoded<'_>)],
) -> Vec<EngineEntry<'a>> {
    for (place, key, value) in others {
        plain[*place] = (key.bytes(), value.value());
    }
    plain
}

/// Encodes all keys and values.
fn encoded_pairs<'a, 'py>(
    core: &Core,
    py: Python<'py>,
    pairs: &'a [Pair<'py>],
) -> PyResult<EncodedPairs<'a>> {
    let opened = core.opened()?;
    let value_bytes_max = opened.value_bytes_max();
    let plain_below_bytes = opened.direct_bytes.min(value_bytes_max.saturating_add(1));
    let mut plain = Vec::with_capacity(pairs.len());
    let (mut others, mut is_any_bound) = (Vec::new(), false);
    for (place, (object, value)) in pairs.iter().enumerate() {
        let_others_run_at(py, place);
        let key = plain_key(opened, object).filter(|_| plain_below_bytes > 0);
        if let Some(entry) = key.and_then(|key| Some((key, codec::encode_plain(value)?))) {
            if entry.1.len() < plain_below_bytes {
                plain.push(entry);
                continue;
            }
        }
        let key = checked_key(core, py, object, |object| opened.encoded_key(py, object))?;
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
        if len_bytes > value_bytes_max {
            let error = Error::ValueTooLarge { len_bytes, most_bytes: value_bytes_max };
            return Err(opened.refused_entry(py, error, object));
        }
        plain.push((&[], Value::bytes(&[])));
        others.push((place, key, value));
    }
    Ok(EncodedPairs { plain, others, is_any_bound })
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
