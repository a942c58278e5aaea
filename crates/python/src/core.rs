//! The class that `tuckbox.Cache` is built on: each method converts its arguments, asks the
//! engine, and converts the answer.
//!
//! Owns the methods and what their arguments may be. What is open, and when the GIL is let go, is
//! [`crate::opened`]'s.

use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};
use tuckbox_engine::{Cache, Clock, Config, Entry, Error, Favour, Place, Rights, Value};

use crate::clock::ManualClock;
use crate::errors::{self, classes, Quick};
use crate::fastcall::{self, Argument, Method};
use crate::keys;
use crate::opened::{decoded, Opened};
use crate::scan::{Part, Scan};
use crate::scratch::{self, Used};
use crate::waiter::{self, PythonWaiter};
use crate::{codec, many, names, numbers, reports, ttl};

/// What can be favoured, by name.
const FAVOURS: [(&str, Favour); 3] =
    [("balanced", Favour::Balanced), ("hits", Favour::Hits), ("bytes", Favour::Bytes)];

fn favour_of(given: &Bound<'_, PyAny>) -> PyResult<Favour> {
    let name = given.extract::<std::borrow::Cow<'_, str>>().ok();
    let known = FAVOURS.iter().find(|(known, _)| name.as_deref() == Some(known));
    known.map(|(_, favour)| *favour).ok_or_else(|| {
        let names = FAVOURS.map(|(name, _)| format!("'{name}'")).join(", ");
        classes::InvalidFavour::new_err(format!(
            "favour must be one of {names}, not {}",
            names::of_object(given)
        ))
    })
}

/// The operations of a cache. Use `tuckbox.Cache`, which opens it.
#[pyclass(frozen, subclass, module = "tuckbox._engine")]
pub struct Core {
    // Set by `__init__`, so that a subclass can have an `__init__` with arguments of its own.
    opened: OnceLock<Opened>,
}

impl Core {
    /// The open handle. It may have been closed since: the engine refuses then.
    #[inline(always)]
    pub fn opened(&self) -> Quick<&Opened> {
        self.opened.get().ok_or_else(|| errors::never_opened().into())
    }

    /// The exception for what the engine refused.
    #[cold]
    pub fn refused(&self, py: Python<'_>, error: Error) -> PyErr {
        match self.opened.get() {
            Some(opened) => opened.refused(py, error),
            None => errors::never_opened(),
        }
    }

    /// The open handle, for operations that the engine does not refuse by itself once it is closed.
    fn alive(&self) -> PyResult<&Opened> {
        let opened = self.opened()?;
        if opened.cache.is_closed() {
            return Err(errors::closed(opened.path()));
        }
        Ok(opened)
    }
}

#[cold]
fn missing(key: &Bound<'_, PyAny>) -> PyErr {
    // One argument, also if the key is a tuple.
    PyKeyError::new_err((key.clone().unbind(),))
}

/// An optional argument for which None is a value as well.
struct Given<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Given<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Given(Some(object.to_owned())))
    }
}

/// What `incr` adds.
struct Delta(i64);

impl<'py> FromPyObject<'_, 'py> for Delta {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        numbers::signed(&object, "delta").map(Delta)
    }
}

fn entry_of<'py>(
    py: Python<'py>,
    key: &Bound<'_, PyAny>,
    entry: &Entry<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let expiry_s = entry.expiry_us.map(|us| us as f64 / 1e6);
    let value = decoded(py, key, entry.value)?;
    CLASS.import(py, "tuckbox.results", "Entry")?.call1((value, expiry_s, entry.version))
}

/// `Core.get`.
struct Get;

impl Method<Core, 2> for Get {
    const NAME: &'static CStr = c"get";
    const DOC: &'static CStr = c"get($self, key, default=None)\n--\n\n\
        Return the value of `key`, or `default` if there is none.";
    const PARAMETERS: [&'static str; 2] = ["key", "default"];
    const REQUIRED: usize = 1;

    #[inline(always)]
    fn call<'py>(
        py: Python<'py>,
        core: &Core,
        [key, default]: [Argument<'_, 'py>; 2],
    ) -> Quick<Bound<'py, PyAny>> {
        let key = key.ok_or_else(not_given)?;
        let opened = core.opened()?;
        let found = match keys::plain(&key) {
            Some(text) => opened.read(py, &key, text.as_bytes()),
            None => opened.read_other(py, &key),
        };
        match found? {
            Some(value) => Ok(value),
            None => Ok(default.map_or_else(|| py.None().into_bound(py), |given| given.to_owned())),
        }
    }
}

/// `Core.set`.
struct Set;

impl Method<Core, 3> for Set {
    const NAME: &'static CStr = c"set";
    const DOC: &'static CStr = c"set($self, key, value, ttl=None)\n--\n\n\
        Store `value` under `key`, for `ttl` seconds if given.";
    const PARAMETERS: [&'static str; 3] = ["key", "value", "ttl"];
    const REQUIRED: usize = 2;

    #[inline(always)]
    fn call<'py>(
        py: Python<'py>,
        core: &Core,
        [key, value, ttl]: [Argument<'_, 'py>; 3],
    ) -> Quick<Bound<'py, PyAny>> {
        let (key, value) = (key.ok_or_else(not_given)?, value.ok_or_else(not_given)?);
        let key = keys::encode(&key)?;
        let ttl = ttl.filter(|ttl| !ttl.is_none());
        let ttl = ttl::parse(ttl.as_deref())?;
        core.opened()?.store(py, &value, |cache, value| cache.set(key.bytes(), value, ttl))?;
        Ok(py.None().into_bound(py))
    }
}

#[cold]
fn not_given() -> PyErr {
    PyRuntimeError::new_err("a required argument was not given")
}

/// Completes the class.
///
/// # Errors
/// What Python answers.
pub fn install_methods(py: Python<'_>) -> PyResult<()> {
    fastcall::install::<Core, Get, 2>(py)?;
    fastcall::install::<Core, Set, 3>(py)
}

#[pymethods]
impl Core {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Core {
        Core { opened: OnceLock::new() }
    }

    /// Opens the file at `path`, or makes it; without a path a private cache, or the private cache
    /// of another process that is `shown` there.
    #[pyo3(signature = (path=None, *, shown=None, size_bytes=None, max_entries=None, favour=None, lock_timeout_s=1.0, read_only=false, group=None, clock=None))]
    #[allow(clippy::too_many_arguments)]
    fn __init__(
        &self,
        py: Python<'_>,
        path: Option<PathBuf>,
        shown: Option<PathBuf>,
        size_bytes: Option<u64>,
        max_entries: Option<u64>,
        favour: Option<&Bound<'_, PyAny>>,
        lock_timeout_s: f64,
        read_only: bool,
        group: Option<u32>,
        clock: Option<&Bound<'_, ManualClock>>,
    ) -> PyResult<()> {
        let defaults = Config::default();
        let rights = Rights { group, read_only };
        let config = Config {
            size_bytes: size_bytes.unwrap_or(defaults.size_bytes),
            max_entries,
            favour: favour.map_or(Ok(Favour::default()), favour_of)?,
            rights,
            lock_limit: Duration::try_from_secs_f64(lock_timeout_s).map_err(|_| {
                classes::InvalidLockTimeout::new_err(format!(
                    "lock_timeout must be a number of seconds from 0, got {lock_timeout_s}"
                ))
            })?,
            clock: clock.map_or(Clock::System, |clock| clock.get().clock()),
            waiter: Arc::new(PythonWaiter),
        };
        let place = match (path, shown) {
            (Some(path), _) => Place::Path(path),
            (None, Some(path)) => Place::Shown(path),
            (None, None) => Place::Private,
        };
        let opened = Opened::open(py, place, &config, lock_timeout_s)?;
        self.opened.set(opened).map_err(|_| {
            PyRuntimeError::new_err("this cache is open already; make a new one for another file")
        })
    }

    /// Return the Entry of `key`: its value, expiry and version; None if there is none.
    fn get_entry<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let opened = self.opened()?;
        let bytes = keys::encode(key)?;
        scratch::with_buffer(|buffer| match opened.cache.get(bytes.bytes(), buffer) {
            Ok(Some(entry)) => {
                Used { result: entry_of(py, key, &entry).map(Some), read_bytes: entry.value.len() }
            }
            Ok(None) => Used { result: Ok(None), read_bytes: 0 },
            Err(error) => Used { result: Err(opened.refused(py, error)), read_bytes: 0 },
        })
    }

    /// Store `value` unless `key` has a value; tell whether it was stored.
    #[pyo3(signature = (key, value, ttl=None))]
    fn add<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> Quick<bool> {
        let key = keys::encode(key)?;
        let ttl = ttl::parse(ttl)?;
        self.opened()?.store(py, value, |cache, value| cache.add(key.bytes(), value, ttl))
    }

    /// Store `value` only if `key` has a value; tell whether it was stored.
    #[pyo3(signature = (key, value, ttl=None))]
    fn replace<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> Quick<bool> {
        let key = keys::encode(key)?;
        let ttl = ttl::parse(ttl)?;
        self.opened()?.store(py, value, |cache, value| cache.replace(key.bytes(), value, ttl))
    }

    /// Store `value` only if the entry of `key` still has this `version`; tell whether it was
    /// stored.
    #[pyo3(signature = (key, value, version, ttl=None))]
    fn cas<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        version: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> Quick<bool> {
        let key = keys::encode(key)?;
        let ttl = ttl::parse(ttl)?;
        let version = numbers::version(version)?;
        self.opened()?.store(py, value, |cache, value| {
            cache.compare_and_set(key.bytes(), value, ttl, version)
        })
    }

    /// Remove `key`; tell whether it had a value.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let opened = self.opened()?;
        let key = keys::encode(key)?;
        opened.cache.delete(key.bytes()).map_err(|error| opened.refused(py, error))
    }

    /// Remove `key` and return its value; without one return `default`, or raise KeyError if that
    /// is not given.
    #[pyo3(signature = (key, default=Given(None)))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Given<'py>,
    ) -> Quick<Bound<'py, PyAny>> {
        let opened = self.opened()?;
        let bytes = keys::encode(key)?;
        scratch::with_buffer(|buffer| match opened.cache.pop(bytes.bytes(), buffer) {
            Ok(Some(entry)) => {
                Used { result: decoded(py, key, entry.value), read_bytes: entry.value.len() }
            }
            Ok(None) => {
                Used { result: default.0.ok_or_else(|| missing(key).into()), read_bytes: 0 }
            }
            Err(error) => Used { result: Err(opened.refused(py, error).into()), read_bytes: 0 },
        })
    }

    /// Give `key` a new time to live; tell whether it has a value.
    #[pyo3(signature = (key, ttl=None))]
    fn touch<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<bool> {
        let opened = self.opened()?;
        let key = keys::encode(key)?;
        let ttl = ttl::parse(ttl)?;
        opened.cache.touch(key.bytes(), ttl).map_err(|error| opened.refused(py, error))
    }

    /// Add `delta` to the int of `key` and return the sum. Without a value, start from `default`
    /// with `ttl`, or raise KeyError if that is not given.
    #[pyo3(signature = (key, delta=Delta(1), default=None, ttl=None))]
    #[pyo3(text_signature = "($self, key, delta=1, default=None, ttl=None)")]
    fn incr<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        delta: Delta,
        default: Option<&Bound<'py, PyAny>>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<i64> {
        self.add_to(py, key, delta.0, default, ttl)
    }

    /// Subtract `delta` from the int of `key`, and otherwise do as `incr`.
    #[pyo3(signature = (key, delta=Delta(1), default=None, ttl=None))]
    #[pyo3(text_signature = "($self, key, delta=1, default=None, ttl=None)")]
    fn decr<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        delta: Delta,
        default: Option<&Bound<'py, PyAny>>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<i64> {
        let delta = delta.0.checked_neg().ok_or_else(|| {
            classes::IntegerOverflow::new_err(format!(
                "delta must lie in the range of 64-bit integers when negated, got {}",
                delta.0
            ))
        })?;
        self.add_to(py, key, delta, default, ttl)
    }

    /// Return the values of those `keys` that have one, as a dict.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        many::get(self, py, keys)
    }

    /// Store all values of `mapping` under their keys, for `ttl` seconds if given.
    #[pyo3(signature = (mapping, ttl=None))]
    fn set_many<'py>(
        &self,
        py: Python<'py>,
        mapping: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        many::set(self, py, mapping, ttl::parse(ttl)?)
    }

    /// Remove `keys`; tell how many had a value.
    fn delete_many(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        many::delete(self, py, keys)
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Quick<Bound<'py, PyAny>> {
        let found = self.opened()?.read(py, key, keys::encode(key)?.bytes())?;
        found.ok_or_else(|| missing(key).into())
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> Quick<()> {
        let key = keys::encode(key)?;
        let never = tuckbox_engine::Ttl::Never;
        self.opened()?.store(py, value, |cache, value| cache.set(key.bytes(), value, never))
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.delete(py, key)? {
            return Ok(());
        }
        Err(missing(key))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let opened = self.opened()?;
        let key = keys::encode(key)?;
        opened.cache.contains(key.bytes()).map_err(|error| opened.refused(py, error))
    }

    /// Entries present, including expired ones that were not collected yet.
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.alive()?.cache.len() as usize)
    }

    fn __iter__(slf: Bound<'_, Self>) -> PyResult<Scan> {
        Core::keys(slf)
    }

    /// Iterate over all keys.
    fn keys(slf: Bound<'_, Self>) -> PyResult<Scan> {
        slf.get().alive()?;
        Ok(Scan::new(slf.unbind(), Part::Key))
    }

    /// Iterate over all values.
    fn values(slf: Bound<'_, Self>) -> PyResult<Scan> {
        slf.get().alive()?;
        Ok(Scan::new(slf.unbind(), Part::Value))
    }

    /// Iterate over all pairs of key and value.
    fn items(slf: Bound<'_, Self>) -> PyResult<Scan> {
        slf.get().alive()?;
        Ok(Scan::new(slf.unbind(), Part::Item))
    }

    /// Remove all entries; return how many there were.
    fn clear(&self, py: Python<'_>) -> PyResult<u64> {
        self.opened()?.detached(py, Cache::clear)
    }

    /// Remove all expired entries, which are invisible already, to free their room; return how
    /// many there were.
    fn expire(&self, py: Python<'_>) -> PyResult<u64> {
        self.opened()?.detached(py, Cache::expire)
    }

    fn _stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reports::stats(py, &self.alive()?.cache.stats())
    }

    fn _check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reports::check(py, &self.opened()?.detached(py, Cache::check)?)
    }

    /// Close this handle. The file, and the handles of others, stay as they are.
    fn close(&self, py: Python<'_>) {
        if let Some(opened) = self.opened.get() {
            waiter::detached(py, || opened.cache.close());
        }
    }

    /// Whether this handle was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.opened.get().is_none_or(|opened| opened.cache.is_closed())
    }

    /// The path of the file; None for a private cache.
    #[getter]
    fn path(&self) -> PyResult<Option<&std::ffi::OsStr>> {
        Ok(match &self.opened()?.place {
            Place::Path(path) => Some(path.as_os_str()),
            Place::Private | Place::Shown(_) => None,
        })
    }

    /// The byte limit of the file.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.opened()?.size_bytes)
    }

    /// The limit of entries; None if there is none.
    #[getter]
    fn max_entries(&self) -> PyResult<Option<u64>> {
        Ok(Some(self.opened()?.max_entries).filter(|limit| *limit > 0))
    }

    /// What eviction favours.
    #[getter]
    fn favour(&self) -> PyResult<&'static str> {
        let own = self.opened()?.favour;
        let known = FAVOURS.iter().find(|(_, favour)| *favour == own);
        Ok(known.map_or(FAVOURS[0].0, |(name, _)| name))
    }

    /// How many seconds an operation waits for a lock at most.
    #[getter]
    fn lock_timeout(&self) -> PyResult<f64> {
        Ok(self.opened()?.lock_timeout_s)
    }

    /// The random bytes that tell this cache from every other one.
    #[getter]
    fn id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.opened()?.cache.id()))
    }

    /// The tag and bytes as which a value is stored that is not `bytes`, `str` or a short `int`.
    /// For tests.
    fn _encoded<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<(u8, Bound<'py, PyBytes>)> {
        let mut bytes = Vec::new();
        codec::encode(value, self.opened()?.value_bytes_max, &mut bytes)?;
        Ok((bytes[0], PyBytes::new(py, &bytes[1..])))
    }

    /// Stores any bytes as those of a key and of a value, as another program might, which need not
    /// know what Tuckbox makes of them. For tests.
    fn _plant(&self, py: Python<'_>, key: &[u8], tag: u8, bytes: &[u8]) -> PyResult<()> {
        let opened = self.opened()?;
        if tag >= tuckbox_engine::VALUE_TAG_COUNT {
            return Err(PyValueError::new_err(format!("{tag} is no tag")));
        }
        let never = tuckbox_engine::Ttl::Never;
        let value = Value::Bytes { tag, bytes };
        opened.cache.set(key, value, never).map_err(|error| opened.refused(py, error))
    }

    /// Whether this handle only reads.
    #[getter]
    fn read_only(&self) -> PyResult<bool> {
        Ok(self.opened()?.rights.read_only)
    }

    /// The number of the group that shares the file; None if it is its owner's alone.
    #[getter]
    fn group(&self) -> PyResult<Option<u32>> {
        Ok(self.opened()?.rights.group)
    }

    /// Where another process finds a private cache while this one lives.
    #[getter]
    fn _shown(&self) -> PyResult<Option<PathBuf>> {
        let opened = self.alive()?;
        Ok(match opened.place {
            Place::Path(_) => None,
            Place::Private | Place::Shown(_) => opened.cache.shown_path(),
        })
    }
}

impl Core {
    fn add_to(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        delta: i64,
        default: Option<&Bound<'_, PyAny>>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i64> {
        let opened = self.opened()?;
        let bytes = keys::encode(key)?;
        let initial = default.map(|default| numbers::signed(default, "default")).transpose()?;
        let ttl = ttl::parse(ttl)?;
        opened
            .cache
            .incr(bytes.bytes(), delta, initial, ttl)
            .map_err(|error| opened.refused(py, error))?
            .ok_or_else(|| missing(key))
    }
}
