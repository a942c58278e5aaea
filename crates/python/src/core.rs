//! `Core`, the base class of `tuckbox.Cache`. Each method converts its arguments, calls the engine,
//! and converts the result. The open handle is in [`crate::opened`], `get` and `set` are in
//! [`crate::get_set`].

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};
use tuckbox_engine::{
    default_size, Changes, Clock, Condition, Config, Error, FullEntry, Handle, Pass, Place, Rights,
    Walk,
};

use crate::clock::ManualClock;
use crate::errors::{self, classes, Quick};
use crate::leases::{self, Lease};
use crate::objects::Objects;
use crate::opened::Opened;
use crate::scan::{self, Part, Scan};
use crate::scratch::{self, Used};
use crate::spaces;
use crate::terms::{self, OwnedTerms};
use crate::waiter::{self, PythonWaiter};
use crate::{choices, dumps, gate, get_set, many, numbers, reports, ttl};

/// The operations of a cache. Use the subclass `tuckbox.Cache` to open one.
#[derive(Default)]
#[pyclass(frozen, subclass, module = "tuckbox._engine")]
pub struct Core {
    // Set by `__init__`, not `__new__`, so that subclasses can have other arguments.
    opened: OnceLock<Opened>,
    /// Where the last `popitem` of this handle ended, and whether it was for the newest entry.
    pub popped: Mutex<Option<(bool, Walk)>>,
}

impl Core {
    /// Returns the handle. If it is closed, the engine refuses its operations.
    #[inline(always)]
    pub fn opened(&self) -> Quick<&Opened> {
        self.opened.get().ok_or_else(|| errors::never_opened().into())
    }

    /// Converts an engine error to an exception.
    #[cold]
    pub fn refused(&self, py: Python<'_>, error: Error) -> PyErr {
        match self.opened.get() {
            Some(opened) => opened.refused(py, error),
            None => errors::never_opened(),
        }
    }

    /// Returns the handle unless it is closed, for operations that the engine does not refuse.
    fn not_closed(&self) -> PyResult<&Opened> {
        let opened = self.opened()?;
        if opened.cache.is_closed() {
            return Err(errors::closed(opened.path()));
        }
        Ok(opened)
    }
}

#[cold]
fn already_open() -> PyErr {
    PyRuntimeError::new_err("this cache is already open; create another for another file")
}

#[cold]
fn missing(key: &Bound<'_, PyAny>) -> PyErr {
    // In a tuple, so that a key that is a tuple is one argument.
    PyKeyError::new_err((key.clone().unbind(),))
}

/// An optional argument for which None is a valid value.
struct Given<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Given<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Given(Some(object.to_owned())))
    }
}

/// The `delta` argument of `incr` and `decr`.
struct Delta(i64);

impl<'py> FromPyObject<'_, 'py> for Delta {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        numbers::signed(&object, "delta").map(Delta)
    }
}

/// The `default` argument of `incr` and `decr`.
struct Initial(Option<i64>);

impl<'py> FromPyObject<'_, 'py> for Initial {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let given = (!object.is_none()).then_some(object);
        given.map(|given| numbers::signed(&given, "default")).transpose().map(Initial)
    }
}

/// The `Entry` for an entry of the engine.
pub fn entry_of<'py>(
    py: Python<'py>,
    opened: &Opened,
    object: &Bound<'_, PyAny>,
    key: &[u8],
    full: &FullEntry<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let expiry_s = full.entry.expiry_us.map(|us| us as f64 / 1e6);
    let value = opened.decoded(py, object, key, full.entry.value)?;
    let tags = full.tags.filter_map(|tag| std::str::from_utf8(tag).ok());
    let tags = PyTuple::new(py, tags.collect::<Vec<_>>())?;
    let made_s = full.made_us.map(|us| us as f64 / 1e6);
    let fields = (value, expiry_s, full.entry.version, tags, full.is_stale, made_s, full.is_pinned);
    CLASS.import(py, "tuckbox.results", "Entry")?.call1(fields)
}

#[pymethods]
impl Core {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Core {
        Core::default()
    }

    /// Opens the file at `path`, and creates it if it does not exist. Without a path, opens the
    /// private cache of another process that is `shown` at that path, or a new private cache. With
    /// `exact`, numbers of other libraries are refused as values. `objects` stores values that are
    /// not plain (see `tuckbox.objects`). With `only_mine`, a file of another user is refused. With `resizes`, an existing file
    /// gets the given settings. With
    /// `creates_folder`, a removed file is created again together with its folder. With
    /// `local_bytes`, `get` keeps objects of about this many bytes in this process.
    #[pyo3(signature = (path=None, *, shown=None, size_bytes=None, max_entries=None, favour=None, after_power_cut=None, evict=None, ordered=None, lock_timeout_s=1.0, read_only=false, group=None, exact=false, objects=None, only_mine=false, clock=None, resizes=false, creates_folder=false, local_bytes=None))]
    #[allow(clippy::too_many_arguments)]
    fn __init__(
        &self,
        py: Python<'_>,
        path: Option<PathBuf>,
        shown: Option<PathBuf>,
        size_bytes: Option<u64>,
        max_entries: Option<u64>,
        favour: Option<&Bound<'_, PyAny>>,
        after_power_cut: Option<&Bound<'_, PyAny>>,
        evict: Option<bool>,
        ordered: Option<bool>,
        lock_timeout_s: f64,
        read_only: bool,
        group: Option<u32>,
        exact: bool,
        objects: Option<&Bound<'_, PyAny>>,
        only_mine: bool,
        clock: Option<&Bound<'_, ManualClock>>,
        resizes: bool,
        creates_folder: bool,
        local_bytes: Option<u64>,
    ) -> PyResult<()> {
        let rights = Rights { group, read_only, only_mine };
        let objects = objects.map(Objects::new).transpose()?;
        let place = match (path, shown) {
            (Some(path), _) => Place::Path(path),
            (None, Some(path)) => Place::Shown(path),
            (None, None) => Place::Private,
        };
        let given = Changes {
            size_bytes,
            max_entries,
            favour: favour.map(|favour| choices::favour_of(Some(favour))).transpose()?,
        };
        let config = Config {
            must_exist: false,
            changes: if resizes { given } else { Changes::default() },
            creates_folder,
            size_bytes: size_bytes.unwrap_or_else(|| default_size(&place).0),
            max_entries,
            favour: choices::favour_of(favour)?,
            after_power_cut: choices::after_power_cut_of(after_power_cut)?,
            evicts: evict.unwrap_or(true),
            is_ordered: ordered.unwrap_or(false),
            rights,
            lock_limit: Duration::try_from_secs_f64(lock_timeout_s).map_err(|_| {
                classes::InvalidLockTimeout::new_err(format!(
                    "lock_timeout must be a number of seconds from 0 to 1e19, got {lock_timeout_s}"
                ))
            })?,
            clock: clock.map_or(Clock::System, |clock| clock.get().clock()),
            waiter: Arc::new(PythonWaiter),
        };
        let opened = Opened::open(py, place, &config, lock_timeout_s, exact, objects, local_bytes)?;
        self.opened.set(opened).map_err(|_| already_open())
    }

    /// Return the entry of `key`, or None if it has no value.
    ///
    /// Args:
    ///     key: A str, bytes, int, or a tuple of these.
    ///     stale: If true, also return a stale entry.
    ///
    /// Returns:
    ///     An `Entry` (a named tuple), or None.
    ///
    /// Raises:
    ///     As `get`.
    ///
    /// Example:
    ///     >>> cache.set("user:42", "Ada")
    ///     >>> entry = cache.get_entry("user:42")
    ///     >>> entry.value, entry.expiry
    ///     ('Ada', None)
    #[pyo3(signature = (key, *, stale=false))]
    fn get_entry<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        stale: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let opened = self.opened()?;
        let mut spare = None;
        let bytes = opened.lookup_key(py, key, &mut spare)?;
        scratch::with_buffer(|buffer| match opened.cache.get_full(bytes, stale, buffer) {
            Ok(Some(full)) => Used {
                result: entry_of(py, opened, key, bytes, &full).map(Some),
                read_bytes: full.entry.value.len(),
            },
            Ok(None) => Used { result: Ok(None), read_bytes: 0 },
            Err(error) => Used { result: Err(opened.refused_entry(py, error, key)), read_bytes: 0 },
        })
    }

    /// Store `value` only if `key` has no value.
    ///
    /// Args:
    ///     key: A str, bytes, int, or a tuple of these.
    ///     value: An object of one of the types listed in `tuckbox.Cache`.
    ///     ttl: Seconds, text such as "5m", or a timedelta; None never expires, 0 expires at once.
    ///     tags, stale, pinned: As `set`.
    ///
    /// Returns:
    ///     True if the value was stored, False if the key has a value.
    ///
    /// Raises:
    ///     As `set`.
    ///
    /// Example:
    ///     >>> cache.add("seen:7", True, ttl=60), cache.add("seen:7", True, ttl=60)
    ///     (True, False)
    #[pyo3(signature = (key, value, ttl=None, *, tags=Given(None), stale=None, pinned=Given(None)))]
    #[pyo3(text_signature = "($self, key, value, ttl=None, *, tags=(), stale=None, pinned=False)")]
    #[allow(clippy::too_many_arguments)]
    fn add<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
        tags: Given<'py>,
        stale: Option<&Bound<'py, PyAny>>,
        pinned: Given<'py>,
    ) -> Quick<bool> {
        let given =
            OwnedTerms::new(ttl::parse(ttl)?, tags.0.as_ref(), stale, None, pinned.0.as_ref())?;
        self.store_on(py, key, value, &given, Condition::Absent)
    }

    /// Store `value` only if `key` already has a value.
    ///
    /// Args:
    ///     key: A str, bytes, int, or a tuple of these.
    ///     value: An object of one of the types listed in `tuckbox.Cache`.
    ///     ttl: Seconds, text such as "5m", or a timedelta; None never expires, 0 expires at once.
    ///     tags, stale, keep_ttl, pinned: As `set`.
    ///
    /// Returns:
    ///     True if the value was stored, False if the key has no value.
    ///
    /// Raises:
    ///     As `set`.
    ///
    /// Example:
    ///     >>> cache.replace("user:42", "Ada")
    ///     False
    #[pyo3(signature = (key, value, ttl=None, *, tags=Given(None), stale=None, keep_ttl=Given(None), pinned=Given(None)))]
    #[pyo3(
        text_signature = "($self, key, value, ttl=None, *, tags=(), stale=None, keep_ttl=False, pinned=False)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn replace<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
        tags: Given<'py>,
        stale: Option<&Bound<'py, PyAny>>,
        keep_ttl: Given<'py>,
        pinned: Given<'py>,
    ) -> Quick<bool> {
        let (tags, keep_ttl) = (tags.0.as_ref(), keep_ttl.0.as_ref());
        let given = OwnedTerms::new(ttl::parse(ttl)?, tags, stale, keep_ttl, pinned.0.as_ref())?;
        self.store_on(py, key, value, &given, Condition::Present)
    }

    /// Store `value` only if the entry of `key` still has this `version` (compare and set).
    ///
    /// Args:
    ///     key: A str, bytes, int, or a tuple of these.
    ///     value: An object of one of the types listed in `tuckbox.Cache`.
    ///     version: The `version` of the `Entry` that `get_entry` returned.
    ///     ttl: Seconds, text such as "5m", or a timedelta; None never expires, 0 expires at once.
    ///     tags, stale, keep_ttl, pinned: As `set`.
    ///
    /// Returns:
    ///     True if the value was stored, False if the value changed meanwhile or is missing.
    ///
    /// Raises:
    ///     InvalidVersion: `version` is not the version of an entry.
    ///     As `set`.
    ///
    /// Example:
    ///     >>> cache.set("cart", ["tea"])
    ///     >>> entry = cache.get_entry("cart")
    ///     >>> cache.cas("cart", entry.value + ["milk"], entry.version)
    ///     True
    ///     >>> cache.cas("cart", entry.value + ["salt"], entry.version)
    ///     False
    #[pyo3(signature = (key, value, version, ttl=None, *, tags=Given(None), stale=None, keep_ttl=Given(None), pinned=Given(None)))]
    #[pyo3(
        text_signature = "($self, key, value, version, ttl=None, *, tags=(), stale=None, keep_ttl=False, pinned=False)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn cas<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        version: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
        tags: Given<'py>,
        stale: Option<&Bound<'py, PyAny>>,
        keep_ttl: Given<'py>,
        pinned: Given<'py>,
    ) -> Quick<bool> {
        let (tags, keep_ttl) = (tags.0.as_ref(), keep_ttl.0.as_ref());
        let given = OwnedTerms::new(ttl::parse(ttl)?, tags, stale, keep_ttl, pinned.0.as_ref())?;
        let version = numbers::version(version)?;
        self.store_on(py, key, value, &given, Condition::Version(version))
    }

    /// Delete `key`.
    ///
    /// Args:
    ///     key: A str, bytes, int, or a tuple of these.
    ///     version: If given, delete the entry only if it still has this version (compare and
    ///         delete).
    ///
    /// Returns:
    ///     True if the key had a value, and that version; False if not.
    ///
    /// Raises:
    ///     KeyTypeError, KeyTooLong: The key is invalid.
    ///     InvalidVersion: `version` is not the version of an entry.
    ///     LockTimeout: A live process held the lock for longer than `lock_timeout`.
    ///     CacheReadOnly, CacheClosed, CacheLost: The cache cannot be written.
    ///
    /// Example:
    ///     >>> cache.set("user:42", "Ada")
    ///     >>> cache.delete("user:42"), cache.delete("user:42")
    ///     (True, False)
    #[pyo3(signature = (key, version=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        version: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let opened = self.opened()?;
        let mut spare = None;
        let bytes = opened.lookup_key(py, key, &mut spare)?;
        let deleted = match version.map(numbers::version).transpose()? {
            None => opened.cache.delete(bytes),
            Some(version) => opened.cache.delete_version(bytes, version),
        };
        deleted.map_err(|error| opened.refused_entry(py, error, key))
    }

    /// Delete `key` and return its value.
    ///
    /// Args:
    ///     key: A str, bytes, int, or a tuple of these.
    ///     default: Returned if the key has no value. Without it, raises KeyError.
    ///
    /// Returns:
    ///     The value, or `default`.
    ///
    /// Raises:
    ///     KeyError: The key has no value, and `default` was not given.
    ///     EntryCorrupt: The value cannot be decoded. The entry is deleted.
    ///     As `delete`.
    ///
    /// Example:
    ///     >>> cache.set("token", "abc")
    ///     >>> cache.pop("token"), cache.pop("token", None)
    ///     ('abc', None)
    #[pyo3(signature = (key, default=Given(None)))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Given<'py>,
    ) -> Quick<Bound<'py, PyAny>> {
        let opened = self.opened()?;
        let mut spare = None;
        let bytes = opened.lookup_key(py, key, &mut spare)?;
        scratch::with_buffer(|buffer| match opened.cache.pop(bytes, buffer) {
            Ok(Some(entry)) => {
                let result = opened.decoded(py, key, bytes, entry.value);
                Used { result, read_bytes: entry.value.len() }
            }
            Ok(None) => {
                Used { result: default.0.ok_or_else(|| missing(key).into()), read_bytes: 0 }
            }
            Err(error) => {
                Used { result: Err(opened.refused_entry(py, error, key).into()), read_bytes: 0 }
            }
        })
    }

    /// Give `key` a new time to live, counted from now.
    ///
    /// Args:
    ///     key: A str, bytes, int, or a tuple of these.
    ///     ttl: Seconds, text such as "5m", or a timedelta; None never expires, 0 expires at once.
    ///
    /// Returns:
    ///     True if the key has a value, False if not.
    ///
    /// Raises:
    ///     InvalidTTL: `ttl` is not a length of time.
    ///     CacheFull: There is no room for a first expiry. Entries that stay have it.
    ///     As `delete`.
    ///
    /// Example:
    ///     >>> cache.set("session", "abc", ttl=60)
    ///     >>> cache.touch("session", ttl=3600)
    ///     True
    #[pyo3(signature = (key, ttl=None))]
    fn touch<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<bool> {
        let opened = self.opened()?;
        let mut spare = None;
        let bytes = opened.lookup_key(py, key, &mut spare)?;
        let ttl = ttl::parse(ttl)?;
        opened.cache.touch(bytes, ttl).map_err(|error| opened.refused_entry(py, error, key))
    }

    /// Return the value of `key` and give it a new time to live, counted from now.
    ///
    /// Atomic over all processes. Takes a lock, which `get` does not.
    ///
    /// Args:
    ///     key: A str, bytes, int, or a tuple of these.
    ///     ttl: As for `touch`.
    ///     default: Returned if the key has no value.
    ///
    /// Returns:
    ///     The value, or `default`.
    ///
    /// Raises:
    ///     As `get` and `touch`.
    ///
    /// Example:
    ///     >>> cache.set("session", "abc", ttl=60)
    ///     >>> cache.get_and_touch("session", ttl=3600)
    ///     'abc'
    #[pyo3(signature = (key, ttl=None, default=None))]
    fn get_and_touch<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Quick<Bound<'py, PyAny>> {
        let opened = self.opened()?;
        let mut spare = None;
        let bytes = opened.lookup_key(py, key, &mut spare)?;
        let ttl = ttl::parse(ttl)?;
        scratch::with_buffer(|buffer| match opened.cache.get_and_touch(bytes, ttl, buffer) {
            Ok(Some(entry)) => {
                let result = opened.decoded(py, key, bytes, entry.value);
                Used { result, read_bytes: entry.value.len() }
            }
            Ok(None) => {
                let none = || py.None().into_bound(py);
                Used { result: Ok(default.unwrap_or_else(none)), read_bytes: 0 }
            }
            Err(error) => {
                Used { result: Err(opened.refused_entry(py, error, key).into()), read_bytes: 0 }
            }
        })
    }

    /// Return how long `key` has to live.
    ///
    /// Args:
    ///     key: A str, bytes, int, or a tuple of these.
    ///
    /// Returns:
    ///     Seconds as a float, `math.inf` if it never expires, or None if it has no value.
    ///
    /// Raises:
    ///     As `get`.
    ///
    /// Example:
    ///     >>> cache.set("session", "abc", ttl=60)
    ///     >>> round(cache.ttl("session"))
    ///     60
    fn ttl(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let opened = self.opened()?;
        let mut spare = None;
        let bytes = opened.lookup_key(py, key, &mut spare)?;
        scratch::with_buffer(|buffer| {
            let found = opened.cache.get_full(bytes, false, buffer);
            let read_bytes = match &found {
                Ok(Some(full)) => full.entry.value.len(),
                _ => 0,
            };
            let result = found.map_err(|error| opened.refused_entry(py, error, key));
            let left_s = |expiry_us: u64| {
                expiry_us.saturating_sub(opened.cache.latest().now_us()) as f64 / 1e6
            };
            let result = result
                .map(|full| full.map(|full| full.entry.expiry_us.map_or(f64::INFINITY, left_s)));
            Used { result, read_bytes }
        })
    }

    /// Add `delta` to the int stored under `key`, atomically over all processes.
    ///
    /// Args:
    ///     key: A str, bytes, int, or a tuple of these.
    ///     delta: The int to add; may be negative.
    ///     default: The int to start from if the key has no value; None raises KeyError then.
    ///     ttl: The time to live if the key had no value, as for `set`. An existing entry keeps its
    ///         expiry.
    ///
    /// Returns:
    ///     The sum.
    ///
    /// Raises:
    ///     KeyError: The key has no value, and `default` is None.
    ///     NotAnInteger: The value, `delta` or `default` is not an int. A bool is not an int here.
    ///     IntegerOverflow: The sum, `delta` or `default` does not fit a signed 64-bit integer.
    ///     As `set`.
    ///
    /// Example:
    ///     >>> cache.incr("visits"), cache.incr("visits")
    ///     (1, 2)
    #[pyo3(signature = (key, delta=Delta(1), default=Initial(Some(0)), ttl=None))]
    #[pyo3(text_signature = "($self, key, delta=1, default=0, ttl=None)")]
    fn incr<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        delta: Delta,
        default: Initial,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<i64> {
        self.add_to(py, key, delta.0, default, ttl)
    }

    /// Subtract `delta` from the int stored under `key`, atomically over all processes.
    ///
    /// Args:
    ///     key, delta, default, ttl: As `incr`.
    ///
    /// Returns:
    ///     The difference.
    ///
    /// Raises:
    ///     As `incr`.
    ///
    /// Example:
    ///     >>> cache.set("stock", 10)
    ///     >>> cache.decr("stock", 3)
    ///     7
    #[pyo3(signature = (key, delta=Delta(1), default=Initial(Some(0)), ttl=None))]
    #[pyo3(text_signature = "($self, key, delta=1, default=0, ttl=None)")]
    fn decr<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        delta: Delta,
        default: Initial,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<i64> {
        let delta = delta.0.checked_neg().ok_or_else(|| {
            classes::IntegerOverflow::new_err(format!(
                "delta must fit a signed 64-bit integer when negated, got {}",
                delta.0
            ))
        })?;
        self.add_to(py, key, delta, default, ttl)
    }

    /// Return the values of several keys.
    ///
    /// Args:
    ///     keys: An iterable of keys.
    ///
    /// Returns:
    ///     A dict of those keys that have a value.
    ///
    /// Raises:
    ///     KeyTypeError: A key is invalid, or `keys` is a single str or bytes.
    ///     As `get`.
    ///
    /// Example:
    ///     >>> cache.set("a", 1)
    ///     >>> cache.get_many(["a", "b"])
    ///     {'a': 1}
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        many::get(self, py, keys)
    }

    /// Store several values.
    ///
    /// Args:
    ///     mapping: A dict, or another mapping with `items`, of keys to values.
    ///     ttl: Seconds, text such as "5m", or a timedelta; None never expires, 0 expires at once.
    ///     tags, stale, pinned: As `set`.
    ///
    /// Raises:
    ///     TypeError: `mapping` is not a mapping.
    ///     As `set`. An invalid key or value raises before anything is stored. After any other
    ///         error, some of the values may be stored.
    ///
    /// Example:
    ///     >>> cache.set_many({"a": 1, "b": 2}, ttl=60)
    ///     >>> len(cache)
    ///     2
    #[pyo3(signature = (mapping, ttl=None, *, tags=Given(None), stale=None, pinned=Given(None)))]
    #[pyo3(text_signature = "($self, mapping, ttl=None, *, tags=(), stale=None, pinned=False)")]
    #[allow(clippy::too_many_arguments)]
    fn set_many<'py>(
        &self,
        py: Python<'py>,
        mapping: &Bound<'py, PyAny>,
        ttl: Option<&Bound<'py, PyAny>>,
        tags: Given<'py>,
        stale: Option<&Bound<'py, PyAny>>,
        pinned: Given<'py>,
    ) -> PyResult<()> {
        let given =
            OwnedTerms::new(ttl::parse(ttl)?, tags.0.as_ref(), stale, None, pinned.0.as_ref())?;
        many::set(self, py, mapping, &given)
    }

    /// Delete several keys.
    ///
    /// Args:
    ///     keys: An iterable of keys.
    ///
    /// Returns:
    ///     How many of them had a value.
    ///
    /// Raises:
    ///     KeyTypeError: A key is invalid, or `keys` is a single str or bytes. Nothing was deleted.
    ///     As `delete`. After any other error, some of the keys may be deleted.
    ///
    /// Example:
    ///     >>> cache.set("a", 1)
    ///     >>> cache.delete_many(["a", "b"])
    ///     1
    fn delete_many(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        many::delete(self, py, keys)
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Quick<Bound<'py, PyAny>> {
        get_set::found(py, self, key)?.ok_or_else(|| missing(key).into())
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> Quick<()> {
        let opened = self.opened()?;
        let mut spare = None;
        let bytes = opened.key(py, key, &mut spare)?;
        let never = tuckbox_engine::Ttl::Never;
        opened.store(py, key, bytes, value, |cache, value| cache.set(bytes, value, never))
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.delete(py, key, None)? {
            return Ok(());
        }
        Err(missing(key))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let opened = self.opened()?;
        let mut spare = None;
        let bytes = opened.lookup_key(py, key, &mut spare)?;
        scratch::with_buffer(|buffer| {
            let found = opened.cache.contains(bytes, buffer);
            let result = found.map_err(|error| opened.refused_entry(py, error, key));
            Used { result, read_bytes: buffer.value_bytes() }
        })
    }

    // The number of entries, those of namespaces and expired ones that were not yet removed
    // included; of a namespace, its own by a scan.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let opened = self.not_closed()?;
        match opened.space {
            None => Ok(opened.cache.len() as usize),
            Some(_) => scan::count(self, py),
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> PyResult<Scan> {
        slf.get().not_closed()?;
        Ok(Scan::new(slf.unbind(), Part::Key, None))
    }

    // `newest_first` is only for ordered caches.
    #[pyo3(signature = (newest_first=false))]
    fn _iter_keys(slf: Bound<'_, Self>, newest_first: bool) -> PyResult<Scan> {
        slf.get().not_closed()?;
        Ok(Scan::in_order(slf.unbind(), Part::Key, newest_first))
    }

    #[pyo3(signature = (newest_first=false))]
    fn _iter_values(slf: Bound<'_, Self>, newest_first: bool) -> PyResult<Scan> {
        slf.get().not_closed()?;
        Ok(Scan::in_order(slf.unbind(), Part::Value, newest_first))
    }

    #[pyo3(signature = (newest_first=false))]
    fn _iter_items(slf: Bound<'_, Self>, newest_first: bool) -> PyResult<Scan> {
        slf.get().not_closed()?;
        Ok(Scan::in_order(slf.unbind(), Part::Item, newest_first))
    }

    /// Return the newest or the oldest entry of an ordered cache, or None if it has none.
    fn _peekitem<'py>(
        &self,
        py: Python<'py>,
        newest: bool,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        scan::peek(self, py, newest)
    }

    fn _iter_encoded(slf: Bound<'_, Self>) -> PyResult<Scan> {
        slf.get().not_closed()?;
        Ok(Scan::new(slf.unbind(), Part::Encoded, None))
    }

    /// Store an entry that `_iter_encoded` has yielded, under a key with the prefix of its namespace.
    /// Return whether it was stored, or None if it has expired.
    #[allow(clippy::too_many_arguments)]
    fn _store_encoded(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyBytes>,
        value: &Bound<'_, PyAny>,
        expiry_us: Option<u64>,
        stale_us: u64,
        made_us: Option<u64>,
        tags: &Bound<'_, PyAny>,
        pinned: bool,
        replace: bool,
    ) -> PyResult<Option<bool>> {
        let tags = terms::tags_of(tags)?;
        let life = dumps::Life { expiry_us, stale_us, made_us, is_pinned: pinned };
        dumps::store(self.opened()?, py, key.as_bytes(), value, life, &tags, replace)
    }

    /// Return what the keys of this namespace begin with now; nothing without a namespace.
    fn _prefix<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.opened()?.prefix(py)?))
    }

    /// Copy the entries into a new file.
    fn _copy_to(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let opened = self.opened()?;
        opened.refuse_if_brief(py)?;
        waiter::detached(py, || opened.cache.copy_to(&path))
            .map_err(|error| errors::raised_by_open(py, error, &path, Rights::default()))
    }

    fn _iter_tagged(slf: Bound<'_, Self>, tag: &Bound<'_, PyAny>) -> PyResult<Scan> {
        slf.get().not_closed()?;
        let tag = terms::tag_of(tag)?;
        Ok(Scan::new(slf.unbind(), Part::Key, Some(tag)))
    }

    /// Delete any entry, or the newest or oldest of an ordered cache; return key and value.
    ///
    /// Atomic over all processes: of several callers only one gets the entry.
    ///
    /// Args:
    ///     last: Of an ordered cache: the entry that was inserted last (the default), or first.
    ///
    /// Returns:
    ///     A (key, value) tuple.
    ///
    /// Raises:
    ///     KeyError: The cache has no entries.
    ///     InvalidArgument: `last` is false, and the cache is not ordered.
    ///     EntryCorrupt: The key or the value cannot be decoded. The entry is deleted.
    ///     As `delete`.
    ///
    /// Example:
    ///     >>> cache.set("job", "mail")
    ///     >>> cache.popitem()
    ///     ('job', 'mail')
    #[pyo3(signature = (last=true))]
    fn popitem<'py>(
        &self,
        py: Python<'py>,
        last: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        scan::pop_next(self, py, last)?
            .ok_or_else(|| PyKeyError::new_err("popitem(): the cache has no entries"))
    }

    /// Delete all entries.
    ///
    /// Entries that other processes store meanwhile may be kept.
    ///
    /// Returns:
    ///     How many entries were deleted.
    ///
    /// Raises:
    ///     LockTimeout: A live process held a lock for longer than `lock_timeout`. Some of the
    ///         entries may be deleted.
    ///     CacheReadOnly, CacheClosed, CacheLost: The cache cannot be written.
    ///
    /// Example:
    ///     >>> cache.set_many({"a": 1, "b": 2})
    ///     >>> cache.clear()
    ///     2
    fn clear(&self, py: Python<'_>) -> PyResult<u64> {
        self.opened()?.detached(py, Handle::clear)
    }

    /// Delete all expired entries to free their space, and those that an eviction of a tag or a
    /// clear of a namespace has made missing. Reads never return them in any case.
    ///
    /// Returns:
    ///     How many entries were deleted.
    ///
    /// Raises:
    ///     As `clear`.
    ///
    /// Example:
    ///     >>> cache.set("a", 1, ttl=0)
    ///     >>> cache.expire()
    ///     1
    fn expire(&self, py: Python<'_>) -> PyResult<u64> {
        let opened = self.opened()?;
        opened.detached(py, |cache| Ok(cache.expire()? + spaces::expire(cache)?))
    }

    /// Make all entries with a tag missing, in a time that does not depend on their number.
    ///
    /// No entry that was stored before is returned after it, in any process. Entries stored later
    /// are not affected. A cache that has no room for more tags may evict those of others as well.
    ///
    /// Args:
    ///     tag: The tag, a str.
    ///     soft: If true, the entries become stale instead: only callers that accept stale entries
    ///         get them.
    ///
    /// Raises:
    ///     InvalidTag: `tag` is not a str, or is empty or longer than 255 bytes.
    ///     LockTimeout: A live process held the lock for longer than `lock_timeout`.
    ///     CacheReadOnly, CacheClosed, CacheLost: The cache cannot be written.
    ///
    /// Example:
    ///     >>> cache.set("user:42", "Ada", tags=["users"])
    ///     >>> cache.evict(tag="users")
    ///     >>> cache.get("user:42") is None
    ///     True
    #[pyo3(signature = (*, tag, soft=false))]
    fn evict(&self, py: Python<'_>, tag: &Bound<'_, PyAny>, soft: bool) -> PyResult<()> {
        let opened = self.opened()?;
        let tag = terms::tag_of(tag)?;
        opened.cache.evict(&tag, soft).map_err(|error| opened.refused(py, error))
    }

    // Leases and eras: see `tuckbox.contract`.

    fn _begin<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        force: bool,
    ) -> Quick<leases::Begun<'py>> {
        leases::begin(self, py, key, force)
    }

    #[allow(clippy::too_many_arguments)]
    fn _finish(
        &self,
        py: Python<'_>,
        token: &Bound<'_, Lease>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
        stale: Option<&Bound<'_, PyAny>>,
        tags: &Bound<'_, PyAny>,
        made_s: Option<f64>,
    ) -> PyResult<bool> {
        leases::finish(self, py, token.get(), key, value, ttl, stale, tags, made_s)
    }

    // May be called of a closed handle, because the lease has one of its own.
    #[staticmethod]
    fn _abandon(token: &Bound<'_, Lease>) {
        token.get().abandon();
    }

    fn _wait_made(&self, py: Python<'_>, key: &Bound<'_, PyAny>, timeout_s: f64) -> PyResult<bool> {
        leases::wait_made(self, py, key, timeout_s)
    }

    /// Become a namespace of another cache or namespace, whose handle it shares.
    fn _join(&self, parent: &Bound<'_, Core>, name: &str) -> PyResult<()> {
        let opened = parent.get().not_closed()?.within(name);
        self.opened.set(opened).map_err(|_| already_open())
    }

    /// Return the era of a namespace of this cache or namespace.
    fn _era(&self, py: Python<'_>, name: &str) -> PyResult<u64> {
        let opened = self.opened()?;
        let space = opened.within(name).space.unwrap_or_default();
        opened.cache.era(space.name()).map_err(|error| opened.refused(py, error))
    }

    /// Give a namespace an era that it never had, and return that.
    fn _advance_era(&self, py: Python<'_>, name: &str) -> PyResult<u64> {
        let opened = self.opened()?;
        let space = opened.within(name).space.unwrap_or_default();
        opened.cache.advance_era(space.name()).map_err(|error| opened.refused(py, error))
    }

    /// Give the file other settings; None keeps the present one, `max_entries=0` means no limit.
    #[pyo3(signature = (size_bytes=None, max_entries=None, favour=None))]
    fn _resize(
        &self,
        py: Python<'_>,
        size_bytes: Option<u64>,
        max_entries: Option<u64>,
        favour: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let favour = favour.map(|favour| choices::favour_of(Some(favour))).transpose()?;
        let changes = Changes { size_bytes, max_entries, favour };
        self.opened()?.detached(py, |cache| cache.resize(changes))
    }

    /// Why the file does not have the settings that were asked for, if it could have them.
    #[getter]
    fn _refusal(&self) -> PyResult<Option<&str>> {
        Ok(self.opened()?.refusal.as_deref())
    }

    /// The size of a file at this path for which none is chosen. If that is less than usual, also
    /// the reason and the remedy.
    #[staticmethod]
    fn _default_size(path: Option<PathBuf>) -> (u64, Option<String>) {
        let place = path.clone().map_or(Place::Private, Place::Path);
        let (size_bytes, space) = default_size(&place);
        let reason = space.map(|space| {
            let remedy = space.remedy(&path.unwrap_or_default());
            format!("{space}, and half of that is left to others; pass size{remedy}")
        });
        (size_bytes, reason)
    }

    fn _stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let opened = self.not_closed()?;
        let local = opened.local.as_ref().map_or((0, 0), |local| local.usage(py));
        reports::stats(py, &opened.cache.stats(), local)
    }

    fn _check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reports::check(py, &self.opened()?.detached(py, Handle::check)?)
    }

    /// Close this handle. The file and all other handles stay open.
    ///
    /// Every later operation raises CacheClosed. Closing twice does nothing.
    ///
    /// Example:
    ///     >>> cache.close()
    ///     >>> cache.closed
    ///     True
    fn close(&self, py: Python<'_>) {
        if let Some(opened) = self.opened.get() {
            waiter::detached(py, || opened.cache.close());
        }
    }

    /// Whether this handle is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.opened.get().is_none_or(|opened| opened.cache.is_closed())
    }

    /// The name of the file format of this release. A release whose name is another one cannot open
    /// the files of this release.
    #[classattr]
    fn file_format() -> String {
        tuckbox_engine::file_format()
    }

    /// The absolute path of the file; None for a private cache.
    #[getter]
    fn path(&self) -> PyResult<Option<&std::ffi::OsStr>> {
        let opened = self.opened()?;
        Ok(match &opened.place {
            Place::Path(_) => Some(opened.cache.latest().path().as_os_str()),
            Place::Private | Place::Shown(_) => None,
        })
    }

    /// The maximum length of the file, in bytes.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.opened()?.settings().size_bytes)
    }

    /// The maximum number of entries; None means no limit.
    #[getter]
    fn max_entries(&self) -> PyResult<Option<u64>> {
        Ok(Some(self.opened()?.settings().max_entries).filter(|limit| *limit > 0))
    }

    /// The goal of eviction: "balanced", "hits" or "bytes".
    #[getter]
    fn favour(&self) -> PyResult<&'static str> {
        Ok(choices::name_of_favour(self.opened()?.settings().favour))
    }

    /// What happens to the entries after a power cut: "keep" or "discard".
    #[getter]
    fn after_power_cut(&self) -> PyResult<&'static str> {
        Ok(choices::name_of_after_power_cut(self.opened()?.settings().after_power_cut))
    }

    /// Whether a full cache evicts entries. Otherwise a write without room raises CacheFull.
    #[getter]
    fn evicts(&self) -> PyResult<bool> {
        Ok(self.opened()?.settings().evicts)
    }

    /// Whether the cache keeps the order in which keys were inserted.
    #[getter]
    fn ordered(&self) -> PyResult<bool> {
        Ok(self.opened()?.settings().is_ordered)
    }

    /// How long a write waits for a lock, in seconds.
    #[getter]
    fn lock_timeout(&self) -> PyResult<f64> {
        Ok(self.opened()?.lock_timeout_s)
    }

    /// The id of the cache: 16 random bytes, chosen when the file was created.
    #[getter]
    fn id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.opened()?.cache.latest().id()))
    }

    /// Whether this handle is read-only.
    #[getter]
    fn read_only(&self) -> PyResult<bool> {
        Ok(self.opened()?.rights.read_only)
    }

    /// The number of the group that shares the file; None if only its owner can use it.
    #[getter]
    fn group(&self) -> PyResult<Option<u32>> {
        Ok(self.opened()?.rights.group)
    }

    /// What stores values that are not plain.
    #[getter]
    fn _objects(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let objects = self.opened()?.objects.as_deref();
        Ok(objects.map(|objects| objects.object().clone_ref(py)))
    }

    /// How many bytes of objects this process may keep; None if it keeps none.
    #[getter]
    fn _local_bytes(&self) -> PyResult<Option<u64>> {
        Ok(self.opened()?.local.as_ref().map(|local| local.bytes_max()))
    }

    /// The gate's word. It is open if the two lowest bits are 0.
    #[getter]
    fn _gate(&self) -> PyResult<u64> {
        Ok(self.opened()?.cache.gate())
    }

    /// Closes the gate, for a caller that keeps out others who do so. Its new word.
    fn _close_gate(&self, py: Python<'_>) -> PyResult<u64> {
        let opened = self.opened()?;
        opened.cache.close_gate().map_err(|error| opened.refused(py, error))
    }

    /// Opens the gate, or leaves it closed.
    fn _leave_gate(&self, opens: bool) -> PyResult<()> {
        self.opened()?.cache.leave_gate(opens);
        Ok(())
    }

    /// A number after all that were given.
    fn _next_number(&self) -> PyResult<u64> {
        Ok(self.opened()?.cache.next_number())
    }

    /// The last number that was given.
    #[getter]
    fn _last_number(&self) -> PyResult<u64> {
        Ok(self.opened()?.cache.last_number())
    }

    /// Adds to the weight, and returns it.
    fn _weigh(&self, delta: i64) -> PyResult<i64> {
        Ok(self.opened()?.cache.weigh(delta))
    }

    /// Whether a change has died between its entry and the weight. For who has closed the gate.
    #[getter]
    fn _is_weight_unsure(&self) -> PyResult<bool> {
        Ok(self.opened()?.cache.is_weight_unsure())
    }

    /// Replaces the weight. For who has closed the gate.
    fn _set_weight(&self, weight: i64) -> PyResult<()> {
        self.opened()?.cache.set_weight(weight);
        Ok(())
    }

    /// Looks at a key for a change that may pass the gate. See [`gate::look`].
    fn _look<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        word: u64,
    ) -> Quick<Option<gate::Seen<'py>>> {
        gate::look(self.opened()?, py, key, word)
    }

    /// Stores a value, if the gate and the entry are as they were. See [`gate::store`].
    fn _store_passing(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        word: u64,
        version: u64,
        delta: i64,
    ) -> Quick<Option<i64>> {
        gate::store(self.opened()?, py, key, value, Pass { gate: word, version, delta })
    }

    /// Deletes an entry, if it and the gate are as they were. See [`gate::delete`].
    fn _delete_passing(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        word: u64,
        version: u64,
        delta: i64,
    ) -> Quick<Option<i64>> {
        gate::delete(self.opened()?, py, key, &Pass { gate: word, version, delta })
    }

    // For the garbage collector: a codec may refer to the cache.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let objects = self.opened.get().and_then(|opened| opened.objects.as_deref());
        objects.map_or(Ok(()), |objects| objects.traverse(&visit))
    }

    /// The path at which other processes can open this private cache while this process lives.
    #[getter]
    fn _shown(&self) -> PyResult<Option<PathBuf>> {
        let opened = self.not_closed()?;
        Ok(match opened.place {
            Place::Path(_) => None,
            Place::Private | Place::Shown(_) => opened.cache.latest().shown_path(),
        })
    }
}

impl Core {
    fn store_on(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        given: &OwnedTerms,
        condition: Condition<'_>,
    ) -> Quick<bool> {
        let opened = self.opened()?;
        let mut spare = None;
        let bytes = opened.key(py, key, &mut spare)?;
        given.with(condition, |terms| {
            opened.store(py, key, bytes, value, |cache, value| cache.store(bytes, value, terms))
        })
    }

    fn add_to(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        delta: i64,
        default: Initial,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i64> {
        let opened = self.opened()?;
        let mut spare = None;
        let bytes = opened.key(py, key, &mut spare)?;
        let ttl = ttl::parse(ttl)?;
        opened
            .cache
            .incr(bytes, delta, default.0, ttl)
            .map_err(|error| opened.refused_entry(py, error, key))?
            .ok_or_else(|| missing(key))
    }
}
