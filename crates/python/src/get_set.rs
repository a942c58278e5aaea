//! `get` and `set` of `Core`, which CPython calls without the argument parsing of PyO3. Must not know
//! how ([`crate::fastcall`]).

use std::ffi::CStr;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tuckbox_engine::Condition;

use crate::core::Core;
use crate::errors::Quick;
use crate::fastcall::{self, Argument, Method, BY_NAME_MAX};
use crate::near::{self, Near};
use crate::terms::OwnedTerms;
use crate::{explain, ttl};

/// `Core.get`.
struct Get;

impl Method<Core, 2> for Get {
    const NAME: &'static CStr = c"get";
    const DOC: &'static CStr = c"get($self, key, default=None)\n--\n\n\
        Return the value of `key`, or `default` if it has none.\n\n\
        Args:\n    \
            key: A str, bytes, int, or a tuple of these.\n    \
            default: Returned if the key is missing or expired.\n\n\
        Returns:\n    \
            The value, with the type it was stored with; or `default` itself.\n\n\
        Raises:\n    \
            KeyTypeError, KeyTooLong: The key is invalid.\n    \
            EntryCorrupt: The value cannot be decoded.\n    \
            CacheClosed, CacheLost: The cache cannot be read.\n\n\
        Example:\n    \
            >>> cache.set(\"user:42\", {\"name\": \"Ada\"})\n    \
            >>> cache.get(\"user:42\")\n    \
            {'name': 'Ada'}\n    \
            >>> cache.get(\"user:43\", \"nobody\")\n    \
            'nobody'\n";
    const PARAMETERS: [&'static str; 2] = ["key", "default"];
    const REQUIRED: usize = 1;

    #[inline(always)]
    fn call<'py>(
        py: Python<'py>,
        core: &Bound<'py, Core>,
        [key, default]: [Argument<'_, 'py>; 2],
    ) -> Quick<Bound<'py, PyAny>> {
        let key = key.ok_or_else(not_given)?;
        let found = found(py, core.get(), &key)?;
        Ok(found.unwrap_or_else(|| given_or_none(py, default)))
    }
}

/// The value of a key.
#[inline(always)]
pub fn found<'py>(
    py: Python<'py>,
    core: &Core,
    key: &Bound<'py, PyAny>,
) -> Quick<Option<Bound<'py, PyAny>>> {
    let opened = core.opened()?;
    if let Some(local) = &opened.local {
        return opened.read_kept(py, local, key);
    }
    opened.read_key(py, key)
}

fn given_or_none<'py>(py: Python<'py>, default: Argument<'_, 'py>) -> Bound<'py, PyAny> {
    default.map_or_else(|| py.None().into_bound(py), |given| given.to_owned())
}

/// `Near.get`: as that of `Core`, while entries may be served. Else, and on a miss, it asks
/// `_missed`.
struct NearGet;

impl Method<Near, 2> for NearGet {
    const NAME: &'static CStr = Get::NAME;
    const DOC: &'static CStr = Get::DOC;
    const PARAMETERS: [&'static str; 2] = Get::PARAMETERS;
    const REQUIRED: usize = Get::REQUIRED;

    #[inline(always)]
    fn call<'py>(
        py: Python<'py>,
        near: &Bound<'py, Near>,
        [key, default]: [Argument<'_, 'py>; 2],
    ) -> Quick<Bound<'py, PyAny>> {
        let key = key.ok_or_else(not_given)?;
        let until = near.get().served_until();
        if let Some(value) = found(py, near.as_super().get(), &key)? {
            if near::is_ahead(until) {
                return Ok(value);
            }
        }
        missed(py, near, &key, default)
    }
}

#[cold]
#[inline(never)]
fn missed<'py>(
    py: Python<'py>,
    near: &Bound<'py, Near>,
    key: &Bound<'py, PyAny>,
    default: Argument<'_, 'py>,
) -> Quick<Bound<'py, PyAny>> {
    Ok(near.call_method1("_missed", (key, given_or_none(py, default)))?)
}

/// `Core.set`.
struct Set;

impl Method<Core, 3> for Set {
    const NAME: &'static CStr = c"set";
    const BY_NAME: &'static [&'static str] = &["tags", "stale", "keep_ttl", "pinned"];
    const DOC: &'static CStr = c"set($self, key, value, ttl=None, *, tags=(), stale=None, keep_ttl=False, pinned=False)\n--\n\n\
        Store `value` under `key`, replacing any old value.\n\n\
        Args:\n    \
            key: A str, bytes, int, or a tuple of these.\n    \
            value: An object of one of the types listed in `tuckbox.Cache`.\n    \
            ttl: Seconds, text such as \"5m\", or a timedelta; None never expires, 0 expires at\n        \
                once.\n    \
            tags: Names for `evict`, each a str.\n    \
            stale: How long the entry is kept stale after its ttl, as ``ttl``; None is not at all.\n    \
            keep_ttl: If true, a present entry keeps its expiry, and ``ttl`` is for a new one.\n    \
            pinned: If true, the entry is never evicted. Without it, the entry of `key` is not\n        \
                pinned any more.\n\n\
        Raises:\n    \
            KeyTypeError, KeyTooLong: The key is invalid.\n    \
            ValueTypeError, ValueTooLarge: The value cannot be stored.\n    \
            InvalidTTL: `ttl` or `stale` is not a length of time.\n    \
            InvalidTag: `tags` is not an iterable of str, or one is empty or longer than 255 bytes.\n    \
            CacheFull: There is no room, and nothing that may be evicted.\n    \
            LockTimeout: A live process held the lock for longer than `lock_timeout`.\n    \
            CacheReadOnly, CacheClosed, CacheLost: The cache cannot be written.\n    \
            MemoryError: This process is out of memory.\n\n\
        Whatever it raises, the old value is kept.\n\n\
        Example:\n    \
            >>> cache.set(\"user:42\", {\"name\": \"Ada\"}, ttl=300)\n    \
            >>> cache.get_entry(\"user:42\").value\n    \
            {'name': 'Ada'}\n    \
            >>> cache.set(\"user:42\", {\"name\": \"Ada\"}, tags=[\"users\"])\n    \
            >>> cache.evict(tag=\"users\")\n    \
            >>> \"user:42\" in cache\n    \
            False\n";
    const PARAMETERS: [&'static str; 3] = ["key", "value", "ttl"];
    const REQUIRED: usize = 2;

    #[inline(always)]
    fn call<'py>(
        py: Python<'py>,
        core: &Bound<'py, Core>,
        [key, value, ttl]: [Argument<'_, 'py>; 3],
    ) -> Quick<Bound<'py, PyAny>> {
        let (key, value) = (key.ok_or_else(not_given)?, value.ok_or_else(not_given)?);
        let opened = core.get().opened()?;
        let mut spare = None;
        let bytes = opened.key(py, &key, &mut spare)?;
        let ttl = ttl::parse(ttl.filter(|ttl| !ttl.is_none()).as_deref())?;
        opened.store(py, &key, bytes, &value, |cache, value| cache.set(bytes, value, ttl))?;
        Ok(py.None().into_bound(py))
    }

    fn call_by_name<'py>(
        py: Python<'py>,
        core: &Bound<'py, Core>,
        [key, value, ttl]: [Argument<'_, 'py>; 3],
        [tags, stale, keep_ttl, pinned]: [Argument<'_, 'py>; BY_NAME_MAX],
    ) -> Quick<Bound<'py, PyAny>> {
        let (key, value) = (key.ok_or_else(not_given)?, value.ok_or_else(not_given)?);
        let opened = core.get().opened()?;
        let mut spare = None;
        let bytes = opened.key(py, &key, &mut spare)?;
        let ttl = ttl::parse(ttl.filter(|ttl| !ttl.is_none()).as_deref())?;
        let given = OwnedTerms::new(
            ttl,
            tags.as_deref(),
            stale.as_deref(),
            keep_ttl.as_deref(),
            pinned.as_deref(),
        )?;
        given.with(Condition::Always, |terms| {
            opened.store(py, &key, bytes, &value, |cache, value| cache.store(bytes, value, terms))
        })?;
        Ok(py.None().into_bound(py))
    }
}

#[cold]
fn not_given() -> PyErr {
    PyRuntimeError::new_err("a required argument was not given")
}

/// The other methods with arguments that other caches may call differently.
const EXPLAINED: [&str; 12] = [
    "add",
    "replace",
    "cas",
    "delete",
    "pop",
    "touch",
    "get_and_touch",
    "incr",
    "decr",
    "set_many",
    "get_entry",
    "evict",
];

/// Adds `get` and `set` to the class, and advice to other methods.
///
/// # Errors
/// Exceptions of Python.
pub fn install_methods(py: Python<'_>) -> PyResult<()> {
    fastcall::install::<Core, Get, 2>(py)?;
    fastcall::install::<Core, Set, 3>(py)?;
    fastcall::install::<Near, NearGet, 2>(py)?;
    explain::explain::<Core>(py, &EXPLAINED)
}
