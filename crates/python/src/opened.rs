//! The open handle behind a `Core`: reads and writes of the engine, with what Python needs around
//! them.
//!
//! Owns the moments at which the GIL is let go: while a file is opened, while all entries are
//! walked, and while a long value is copied. A get never lets go of it. Must not know of the methods
//! that call it.

use std::path::Path;

use pyo3::prelude::*;
use tuckbox_engine::{ArenaError, Cache, Config, Error, Favour, Place, Rights, Value};

use crate::errors::{self, classes, Quick};
use crate::output_buffer::BytesOutput;
use crate::scratch::{self, Kept, Used};
use crate::{codec, keys, names, waiter};

/// More bytes than this are copied into the cache without the GIL.
const DETACHED_BYTES: usize = 128 << 10;

/// An open cache. It may have been closed since: the engine refuses then.
pub struct Opened {
    /// The engine's handle.
    pub cache: Cache,
    /// The longest value that it takes.
    pub value_bytes_max: usize,
    /// Where it is.
    pub place: Place,
    /// Who shares it, and whether it is only read.
    pub rights: Rights,
    /// The byte limit of the file.
    pub size_bytes: u64,
    /// The limit of entries; 0 if there is none.
    pub max_entries: u64,
    /// What eviction favours.
    pub favour: Favour,
    /// How many seconds an operation waits for a lock at most.
    pub lock_timeout_s: f64,
}

impl Opened {
    /// Opens the file at a place, or makes it.
    ///
    /// # Errors
    /// A `CacheOpenError`, or `CacheLost` if it was to be the cache that a process showed.
    pub fn open(
        py: Python<'_>,
        place: Place,
        config: &Config,
        lock_timeout_s: f64,
    ) -> PyResult<Opened> {
        let rights = config.rights;
        let cache =
            waiter::detached(py, || Cache::open(&place, config)).map_err(|error| match &place {
                Place::Shown(path) => not_shown(py, error, path),
                Place::Path(path) => errors::raised_by_open(py, error, path, rights),
                Place::Private => errors::raised_by_open(py, error, Path::new(""), rights),
            })?;
        let stats = cache.stats();
        Ok(Opened {
            value_bytes_max: cache.value_bytes_max(),
            size_bytes: stats.size_bytes,
            max_entries: stats.max_entries,
            favour: stats.favour,
            cache,
            place,
            rights,
            lock_timeout_s,
        })
    }

    /// Where it is, for messages: nowhere if it is private.
    pub fn path(&self) -> &Path {
        match &self.place {
            Place::Path(path) => path,
            Place::Private | Place::Shown(_) => Path::new(""),
        }
    }

    /// The exception for what the engine refused.
    #[cold]
    pub fn refused(&self, py: Python<'_>, error: Error) -> PyErr {
        errors::raised(py, error, self.path())
    }

    /// Reads the value of a key, of which `object` is what Python calls it.
    #[inline(always)]
    pub fn read<'py>(
        &self,
        py: Python<'py>,
        object: &Bound<'_, PyAny>,
        key: &[u8],
    ) -> Quick<Option<Bound<'py, PyAny>>> {
        scratch::with_kept(|kept| self.read_into(kept, py, object, key))
    }

    /// As [`Opened::read`], of a key that must be encoded.
    #[inline(never)]
    pub fn read_other<'py>(
        &self,
        py: Python<'py>,
        object: &Bound<'_, PyAny>,
    ) -> Quick<Option<Bound<'py, PyAny>>> {
        self.read(py, object, keys::encode(object)?.bytes())
    }

    #[inline(never)]
    fn read_into<'py>(
        &self,
        kept: &Kept,
        py: Python<'py>,
        object: &Bound<'_, PyAny>,
        key: &[u8],
    ) -> Quick<Option<Bound<'py, PyAny>>> {
        kept.with_buffer(|buffer| match self.cache.get(key, buffer) {
            Ok(Some(entry)) if entry.is_in_output => {
                let made = buffer.output::<BytesOutput>().and_then(BytesOutput::take);
                Used {
                    result: Ok(made.map(|bytes| bytes.into_bound(py).into_any())),
                    read_bytes: 0,
                }
            }
            Ok(Some(entry)) => {
                let read_bytes = entry.value.len();
                Used { result: decoded(py, object, entry.value).map(Some), read_bytes }
            }
            Ok(None) => Used { result: Ok(None), read_bytes: 0 },
            Err(error) => Used { result: Err(self.refused(py, error).into()), read_bytes: 0 },
        })
    }

    /// Writes `len_bytes` of values, without the GIL if they are many.
    #[inline(always)]
    pub fn write<T: Send>(
        &self,
        py: Python<'_>,
        len_bytes: usize,
        operation: impl FnOnce(&Cache) -> tuckbox_engine::Result<T> + Send,
    ) -> Quick<T> {
        let result = if len_bytes > DETACHED_BYTES {
            waiter::detached(py, || operation(&self.cache))
        } else {
            operation(&self.cache)
        };
        result.map_err(|error| self.refused(py, error).into())
    }

    /// Encodes a value and writes it.
    #[inline(always)]
    pub fn store<T: Send>(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        operation: impl FnOnce(&Cache, Value<'_>) -> tuckbox_engine::Result<T> + Send,
    ) -> Quick<T> {
        match codec::encode_plain(value) {
            Some(value) => self.write(py, value.len(), |cache| operation(cache, value)),
            None => scratch::with_bytes(|bytes| {
                let value = codec::encode(value, self.value_bytes_max, bytes)?;
                self.write(py, value.len(), |cache| operation(cache, value))
            }),
        }
    }

    /// Runs work that takes long without the GIL.
    pub fn detached<T: Send>(
        &self,
        py: Python<'_>,
        operation: impl FnOnce(&Cache) -> tuckbox_engine::Result<T> + Send,
    ) -> PyResult<T> {
        waiter::detached(py, || operation(&self.cache)).map_err(|error| self.refused(py, error))
    }
}

/// Decodes the value of `key`, which damage is told of.
#[inline(always)]
pub fn decoded<'py>(
    py: Python<'py>,
    key: &Bound<'_, PyAny>,
    value: Value<'_>,
) -> Quick<Bound<'py, PyAny>> {
    codec::decode(py, value).map_err(|raised| with_key(py, raised.into(), key).into())
}

#[cold]
fn with_key(py: Python<'_>, error: PyErr, key: &Bound<'_, PyAny>) -> PyErr {
    if !error.is_instance_of::<classes::EntryCorrupt>(py) {
        return error;
    }
    let message = format!("key {}: {}", names::of_object(key), error.value(py));
    classes::EntryCorrupt::new_err(message)
}

/// A private cache of a process that has ended cannot be opened any more.
#[cold]
fn not_shown(py: Python<'_>, error: Error, path: &Path) -> PyErr {
    match error {
        Error::Arena(ArenaError::Io { source, .. }) => {
            let message = format!(
                "the private cache that was shown at {} cannot be reached ({source}): its process \
                 has ended or closed it; give the cache a path to share it for longer",
                path.display()
            );
            classes::CacheLost::new_err((
                source.raw_os_error(),
                message,
                path.as_os_str().to_owned(),
            ))
        }
        error => errors::raised_by_open(py, error, path, Rights::default()),
    }
}
