//! Iteration over all entries, `peekitem` and `popitem`.

use std::mem::take;
use std::sync::Mutex;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use tuckbox_engine::{Error, Item, Order, Walk};

use crate::core::Core;
use crate::errors::classes;
use crate::opened::Opened;
use crate::scratch::{self, Used};
use crate::{codec, dumps, keys, opened, spaces};

/// The part of an entry that an iterator yields.
#[derive(Clone, Copy)]
pub enum Part {
    /// Keys.
    Key,
    /// Values.
    Value,
    /// Pairs of key and value.
    Item,
    /// Tuples for [`crate::dumps`]: also of the namespaces in this cache or namespace.
    Encoded,
}

/// Iterator over the keys, values or items of a cache or a namespace. An ordered cache
/// yields them in the order of insertion, others in no particular order.
///
/// Yields each entry that exists during the whole iteration exactly once. Entries stored meanwhile
/// may be missing. Expired entries are skipped.
#[pyclass(frozen, module = "tuckbox._engine")]
pub struct Scan {
    cache: Py<Core>,
    part: Part,
    /// The tag of all entries, if any.
    tag: Option<String>,
    // Locked during one step, because threads may share an iterator.
    state: Mutex<Walk>,
}

impl Scan {
    /// An iterator at the first entry.
    pub fn new(cache: Py<Core>, part: Part, tag: Option<String>) -> Scan {
        Scan { cache, part, tag, state: Mutex::default() }
    }

    /// An iterator over an ordered cache.
    pub fn in_order(cache: Py<Core>, part: Part, newest_first: bool) -> Scan {
        let state = Mutex::new(Walk::new(Order { newest_first, window: 0 }));
        Scan { cache, part, tag: None, state }
    }
}

#[pymethods]
impl Scan {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    // For the garbage collector: a cache may refer to an iterator over itself.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.cache)
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let core = self.cache.get();
        let opened = core.opened()?;
        scratch::with_buffer(|buffer| {
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(_) => return Used { result: Err(busy()), read_bytes: 0 },
            };
            let item = loop {
                // Another era may have begun.
                let prefix = match opened.prefix(py) {
                    Ok(prefix) => prefix,
                    Err(error) => return Used { result: Err(error), read_bytes: 0 },
                };
                let found = opened.cache.scan_next(&mut state, buffer).and_then(|item| {
                    let wanted = |item| self.is_wanted(opened, item, &prefix);
                    Ok((item.as_ref().map_or(Ok(true), wanted)?, item))
                });
                match found {
                    Ok((false, _)) => {}
                    Ok((true, item)) => break Ok(item.map(|item| (prefix.len(), item))),
                    Err(error) => break Err(core.refused(py, error)),
                }
            };
            let item = match item {
                Ok(item) => item,
                Err(error) => return Used { result: Err(error), read_bytes: 0 },
            };
            // Decoding may run other Python code, which may call this iterator.
            drop(state);
            let read_bytes = item.as_ref().map_or(0, |(_, item)| item.entry.value.len());
            let decoded = |(prefix_len, item)| self.decoded(py, opened, prefix_len, item);
            Used { result: item.map(decoded).transpose(), read_bytes }
        })
    }
}

impl Scan {
    fn is_wanted(
        &self,
        opened: &Opened,
        item: &Item<'_>,
        prefix: &[u8],
    ) -> tuckbox_engine::Result<bool> {
        if matches!(self.part, Part::Encoded) {
            let is_inside = item.key.starts_with(prefix);
            return Ok(is_inside && !spaces::is_of_former_era(&opened.cache, item.key)?);
        }
        let has_tag = |tag: &String| { item.tags }.any(|one| one == tag.as_bytes());
        Ok(spaces::own_part(item.key, prefix).is_some() && self.tag.as_ref().is_none_or(has_tag))
    }

    fn decoded<'py>(
        &self,
        py: Python<'py>,
        opened: &Opened,
        prefix_len: usize,
        item: Item<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let own = &item.key[prefix_len..];
        match self.part {
            Part::Key => keys::decode(py, own),
            Part::Value => {
                let value = codec::decode(py, item.entry.value, || opened.entry(item.key));
                Ok(value.map_err(|raised| match keys::decode(py, own) {
                    Ok(key) => opened::with_key(py, raised.into(), &key),
                    Err(_) => raised.into(),
                })?)
            }
            Part::Item => {
                let key = keys::decode(py, own)?;
                let value = opened.decoded(py, &key, item.key, item.entry.value)?;
                Ok((key, value).into_pyobject(py)?.into_any())
            }
            Part::Encoded => dumps::encoded(py, &item),
        }
    }
}

/// A key and a value.
type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Keys that `popitem` lists at a time in an ordered cache.
const POPPED_AT_ONCE: usize = 256;
/// Keys that `peekitem` lists: the first may be deleted before it is read.
const PEEKED_AT_ONCE: usize = 8;

/// The walk of `popitem` or `peekitem`. A namespace has its entries among those of others.
fn begin(opened: &Opened, newest_first: bool, at_once: usize) -> Walk {
    let window = if opened.space.is_some() { 0 } else { at_once };
    Walk::new(Order { newest_first, window })
}

/// The newest or the oldest entry of an ordered cache; `None` if it has none. Deletes it if asked for,
/// unless it has changed since: then it looks again. See `Core._peekitem` and `Core.popitem`.
fn first_of<'py>(
    opened: &Opened,
    py: Python<'py>,
    mut walk: Walk,
    is_wanted: impl Fn(&[u8], u64) -> tuckbox_engine::Result<bool>,
    new: impl Fn() -> Walk,
) -> (PyResult<Option<Pair<'py>>>, Walk) {
    let mut is_from_start = false;
    let none = |result| Used { result, read_bytes: 0 };
    let found = scratch::with_buffer(|buffer| loop {
        let prefix = match opened.prefix(py) {
            Ok(prefix) => prefix,
            Err(error) => return none(Err(error)),
        };
        let item = match opened.cache.scan_next(&mut walk, buffer) {
            Ok(Some(item)) if spaces::own_part(item.key, &prefix).is_none() => continue,
            Ok(Some(item)) => item,
            // The end, or another file.
            Ok(None) | Err(Error::ScanLost { .. }) if !is_from_start => {
                (walk, is_from_start) = (new(), true);
                continue;
            }
            Ok(None) => return none(Ok(None)),
            Err(error) => return none(Err(opened.refused(py, error))),
        };
        match is_wanted(item.key, item.entry.version) {
            Ok(true) => {}
            // It was replaced or deleted meanwhile.
            Ok(false) => {
                walk = new();
                continue;
            }
            Err(error) => return none(Err(opened.refused(py, error))),
        }
        let read_bytes = item.entry.value.len();
        let pair = keys::decode(py, &item.key[prefix.len()..]).and_then(|key| {
            let value = opened.decoded(py, &key, item.key, item.entry.value)?;
            Ok(Some((key, value)))
        });
        return Used { result: pair, read_bytes };
    });
    (found, walk)
}

/// The newest or the oldest entry of an ordered cache; `None` if it has none. See `Core._peekitem`.
pub fn peek<'py>(core: &Core, py: Python<'py>, newest: bool) -> PyResult<Option<Pair<'py>>> {
    let opened = core.opened()?;
    let new = || begin(opened, newest, PEEKED_AT_ONCE);
    first_of(opened, py, new(), |_, _| Ok(true), new).0
}

/// Deletes the newest or the oldest entry of an ordered cache and returns it; `None` if it has none.
fn pop_first<'py>(core: &Core, py: Python<'py>, newest: bool) -> PyResult<Option<Pair<'py>>> {
    let opened = core.opened()?;
    let new = || begin(opened, newest, POPPED_AT_ONCE);
    let kept = core.popped.try_lock().ok().and_then(|mut kept| kept.take());
    // From the oldest entry on, whatever is inserted comes later.
    let is_usable = |walk: &Walk| !newest || opened.cache.has_newest(walk);
    let kept = kept.filter(|(of_newest, walk)| *of_newest == newest && is_usable(walk));
    let walk = kept.map_or_else(new, |(_, walk)| walk);
    let delete = |key: &[u8], version| opened.cache.delete_version(key, version);
    let (found, walk) = first_of(opened, py, walk, delete, new);
    if let Ok(mut kept) = core.popped.try_lock() {
        *kept = Some((newest, walk));
    }
    found
}

/// Deletes any entry and returns it; `None` if the cache has none. Of an ordered cache it is the newest
/// or the oldest one. See `Core.popitem`.
pub fn pop_next<'py>(core: &Core, py: Python<'py>, newest: bool) -> PyResult<Option<Pair<'py>>> {
    let opened = core.opened()?;
    if opened.settings().is_ordered {
        return pop_first(core, py, newest);
    }
    if !newest {
        return Err(classes::InvalidArgument::new_err(
            "popitem(last=False) needs an ordered cache: create it with ordered=True",
        ));
    }
    // Goes on from where the last call ended: to empty a cache would otherwise visit its empty
    // buckets again for each entry. A second thread starts at the beginning.
    let kept = core.popped.try_lock().ok().and_then(|mut kept| kept.take());
    let mut state = kept.map_or_else(Walk::default, |(_, walk)| walk);
    let mut is_from_start = false;
    let none = |result| Used { result, read_bytes: 0 };
    scratch::with_buffer(|buffer| loop {
        let prefix = match opened.prefix(py) {
            Ok(prefix) => prefix,
            Err(error) => return none(Err(error)),
        };
        let key = match opened.cache.scan_next(&mut state, buffer) {
            Ok(Some(item)) if spaces::own_part(item.key, &prefix).is_none() => continue,
            Ok(Some(item)) => item.key.to_vec(),
            // The end, or another file.
            Ok(None) | Err(Error::ScanLost { .. }) if !is_from_start => {
                (state, is_from_start) = (Walk::default(), true);
                continue;
            }
            Ok(None) => return none(Ok(None)),
            Err(error) => return none(Err(opened.refused(py, error))),
        };
        match opened.cache.pop(&key, buffer) {
            Ok(Some(entry)) => {
                if let Ok(mut kept) = core.popped.try_lock() {
                    *kept = Some((newest, take(&mut state)));
                }
                let read_bytes = entry.value.len();
                let bytes = &key;
                let pair = keys::decode(py, &key[prefix.len()..]).and_then(|key| {
                    let value = opened.decoded(py, &key, bytes, entry.value)?;
                    Ok(Some((key, value)))
                });
                return Used { result: pair, read_bytes };
            }
            // Another thread or process was faster.
            Ok(None) => {}
            Err(error) => return none(Err(opened.refused(py, error))),
        }
    })
}

/// Counts the entries of a namespace.
pub fn count(core: &Core, py: Python<'_>) -> PyResult<usize> {
    let opened = core.opened()?;
    let (mut walk, mut count) = (Walk::default(), 0);
    scratch::with_buffer(|buffer| loop {
        let result = opened.prefix(py).and_then(|prefix| {
            let item = opened.cache.scan_next(&mut walk, buffer);
            let item = item.map_err(|error| opened.refused(py, error))?;
            Ok(item.map(|item| spaces::own_part(item.key, &prefix).is_some()))
        });
        match result {
            Ok(Some(is_own)) => count += usize::from(is_own),
            Ok(None) => return Used { result: Ok(count), read_bytes: 0 },
            Err(error) => return Used { result: Err(error), read_bytes: 0 },
        }
    })
}

#[cold]
fn busy() -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err(
        "another thread is using this iterator; create one iterator per thread",
    )
}
