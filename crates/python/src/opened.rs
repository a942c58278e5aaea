//! The open handle behind a `Core`: reads and writes, with conversion and errors.
//!
//! Decides when the GIL is released: while a file is opened, during operations on all entries, and
//! while a value longer than [`BRIEF_BYTES`] is written.

use std::path::Path;
use std::sync::Arc;

use pyo3::prelude::*;
use tuckbox_engine::{
    ArenaError, Config, Error, Handle, Place, Rights, Settings, Value, BRIEF_BYTES,
};

use crate::codec::Stored;
use crate::errors::{self, classes, Quick};
use crate::keys::Key;
use crate::local::{Local, Name};
use crate::objects::{Entry, Objects, Takes};
use crate::output_buffer::BytesOutput;
use crate::scratch::{self, Kept, Used};
use crate::spaces::Space;
use crate::{codec, keys, names, spaces, waiter};

/// A cache that was opened. After it is closed, the engine refuses every operation.
pub struct Opened {
    /// The engine's handle. Namespaces share it.
    pub cache: Arc<Handle>,
    /// The namespace of all keys, if any.
    pub space: Option<Arc<Space>>,
    /// The objects that this process keeps. Namespaces share them.
    pub local: Option<Arc<Local>>,
    /// Whether numbers of other libraries are refused.
    pub is_exact: bool,
    /// What stores values that are not plain.
    pub objects: Option<Arc<Objects>>,
    /// Shorter plain values are stored at once: with the GIL, as they are.
    pub direct_bytes: usize,
    /// A path, or a private cache.
    pub place: Place,
    /// The group that shares the file, and whether the handle is read-only.
    pub rights: Rights,
    /// How long a write waits for a lock, in seconds.
    pub lock_timeout_s: f64,
    /// Why the file does not have the settings that were asked for.
    pub refusal: Option<String>,
}

impl Opened {
    /// Opens the cache at a place, and creates it if it does not exist.
    ///
    /// # Errors
    /// `CacheOpenError`; `CacheFull`; `CacheLost` for a private cache of a process that has ended.
    pub fn open(
        py: Python<'_>,
        place: Place,
        config: &Config,
        lock_timeout_s: f64,
        is_exact: bool,
        objects: Option<Objects>,
        local_bytes: Option<u64>,
    ) -> PyResult<Opened> {
        let rights = config.rights;
        let opened = waiter::detached(py, || Handle::open(place.clone(), config.clone()));
        let (cache, changed) = opened.map_err(|error| match &place {
            Place::Shown(path) => not_shown(py, error, path),
            Place::Path(path) => errors::raised_by_open(py, error, path, rights),
            Place::Private => errors::raised_by_open(py, error, Path::new(""), rights),
        })?;
        let refusal = match changed {
            // An exception of a signal handler.
            Err(error @ Error::Arena(ArenaError::Interrupted)) => {
                return Err(errors::raised(py, error, Path::new("")));
            }
            changed => changed.err().map(|error| error.to_string()),
        };
        let (takes, compress_min_bytes) = objects
            .as_ref()
            .map_or((Takes::Nothing, usize::MAX), |own| (own.takes, own.compress_min_bytes));
        let is_exact = is_exact || takes != Takes::Nothing;
        let direct_bytes = match takes {
            Takes::Everything => 0,
            _ => compress_min_bytes.min(BRIEF_BYTES + 1),
        };
        Ok(Opened {
            cache: Arc::new(cache),
            space: None,
            local: local_bytes.map(|bytes| Arc::new(Local::new(bytes))),
            is_exact,
            objects: objects.map(Arc::new),
            direct_bytes,
            place,
            rights,
            lock_timeout_s,
            refusal,
        })
    }

    /// The same handle, with all keys in a namespace of this one.
    pub fn within(&self, name: &str) -> Opened {
        Opened {
            cache: Arc::clone(&self.cache),
            space: Some(Arc::new(self.space.as_deref().unwrap_or(&Space::default()).within(name))),
            local: self.local.clone(),
            objects: self.objects.clone(),
            place: self.place.clone(),
            refusal: self.refusal.clone(),
            ..*self
        }
    }

    /// The bytes of a key to store: the key's own, or those that `spare` gets.
    ///
    /// # Errors
    /// As [`keys::encode`].
    #[inline(always)]
    pub fn key<'b, 'k: 'b>(
        &self,
        py: Python<'_>,
        key: &'k Bound<'_, PyAny>,
        spare: &'b mut Option<Key<'k>>,
    ) -> Quick<&'b [u8]> {
        match self.plain_key(key) {
            Some(bytes) => Ok(bytes),
            None => Opened::encode_into(|| self.encoded_key(py, key), spare),
        }
    }

    /// As [`Opened::key`], for a key to look up.
    ///
    /// # Errors
    /// As [`keys::encode_lookup`].
    #[inline(always)]
    pub fn lookup_key<'b, 'k: 'b>(
        &self,
        py: Python<'_>,
        key: &'k Bound<'_, PyAny>,
        spare: &'b mut Option<Key<'k>>,
    ) -> Quick<&'b [u8]> {
        match self.plain_key(key) {
            Some(bytes) => Ok(bytes),
            None => Opened::encode_into(|| self.encoded_lookup(py, key), spare),
        }
    }

    /// The UTF-8 of a plain `str`, which is its encoding. None in a namespace, and for other keys.
    // Most keys are plain. They skip `Key`: that enum is moved in pieces, and a load that spans two
    // pieces waits (decision 70).
    #[inline(always)]
    pub fn plain_key<'k>(&self, key: &'k Bound<'_, PyAny>) -> Option<&'k [u8]> {
        match self.space {
            None => keys::plain(key).map(str::as_bytes),
            Some(_) => None,
        }
    }

    /// Keeps an encoded key in `spare`. Not inline, so that callers do not handle a `Key`.
    #[inline(never)]
    fn encode_into<'b, 'k: 'b>(
        encoded: impl FnOnce() -> Quick<Key<'k>>,
        spare: &'b mut Option<Key<'k>>,
    ) -> Quick<&'b [u8]> {
        Ok(spare.insert(encoded()?).bytes())
    }

    /// Encodes a key to store, with its namespace.
    ///
    /// # Errors
    /// As [`keys::encode`].
    pub fn encoded_key<'k>(&self, py: Python<'_>, key: &'k Bound<'_, PyAny>) -> Quick<Key<'k>> {
        self.in_its_space(py, keys::encode(key)?)
    }

    /// Encodes a key to look up, with its namespace.
    ///
    /// # Errors
    /// As [`keys::encode_lookup`].
    pub fn encoded_lookup<'k>(&self, py: Python<'_>, key: &'k Bound<'_, PyAny>) -> Quick<Key<'k>> {
        self.in_its_space(py, keys::encode_lookup(key)?)
    }

    fn in_its_space<'k>(&self, py: Python<'_>, key: Key<'k>) -> Quick<Key<'k>> {
        match &self.space {
            None => Ok(key),
            Some(space) => self.in_space(py, space, &key),
        }
    }

    #[inline(never)]
    fn in_space<'a>(&self, py: Python<'_>, space: &Space, key: &Key<'_>) -> Quick<Key<'a>> {
        let bytes = key.bytes();
        let mut all =
            space.prefix(&self.cache, bytes.len()).map_err(|error| self.refused(py, error))?;
        all.extend_from_slice(bytes);
        Ok(Key::Long(all))
    }

    /// What all keys begin with now; empty without a namespace.
    ///
    /// # Errors
    /// The cache is closed or lost.
    pub fn prefix(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let prefix = self.space.as_ref().map(|space| space.prefix(&self.cache, 0));
        prefix.transpose().map(Option::unwrap_or_default).map_err(|error| self.refused(py, error))
    }

    /// The longest value that the cache can hold, in bytes.
    pub fn value_bytes_max(&self) -> usize {
        self.cache.latest().value_bytes_max()
    }

    /// The settings of the file.
    pub fn settings(&self) -> Settings {
        self.cache.latest().settings()
    }

    /// The path for messages; empty for a private cache.
    pub fn path(&self) -> &Path {
        match &self.place {
            Place::Path(path) => path,
            Place::Private | Place::Shown(_) => Path::new(""),
        }
    }

    /// Converts an engine error to an exception.
    #[cold]
    pub fn refused(&self, py: Python<'_>, error: Error) -> PyErr {
        errors::raised(py, error, self.path())
    }

    /// As [`Opened::refused`], with the key in errors about one entry.
    #[cold]
    pub fn refused_entry(&self, py: Python<'_>, error: Error, key: &Bound<'_, PyAny>) -> PyErr {
        errors::raised_for_key(py, error, self.path(), key)
    }

    /// What the cache accepts as a value.
    pub fn rules(&self) -> codec::Rules<'_> {
        let objects = self.objects.as_deref();
        codec::Rules { bytes_max: self.value_bytes_max(), is_exact: self.is_exact, objects }
    }

    /// The entry of a key, for values that are not plain.
    pub fn entry<'a>(&'a self, key: &'a [u8]) -> Entry<'a> {
        Entry { objects: self.objects.as_deref(), cache: &self.cache, key }
    }

    /// Decodes the value of a key. An `EntryCorrupt` names the key, `object`.
    #[inline(always)]
    pub fn decoded<'py>(
        &self,
        py: Python<'py>,
        object: &Bound<'_, PyAny>,
        key: &[u8],
        value: Value<'_>,
    ) -> Quick<Bound<'py, PyAny>> {
        codec::decode(py, value, || self.entry(key))
            .map_err(|raised| with_key(py, raised.into(), object).into())
    }

    /// Reads the value of an encoded key. `object` is the key as a Python object, for messages.
    #[inline(always)]
    fn read<'py>(
        &self,
        py: Python<'py>,
        object: &Bound<'_, PyAny>,
        key: &[u8],
    ) -> Quick<Option<Bound<'py, PyAny>>> {
        scratch::with_kept(|kept| self.read_into(kept, py, object, key))
    }

    /// Reads the value of a key.
    #[inline(always)]
    pub fn read_key<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'_, PyAny>,
    ) -> Quick<Option<Bound<'py, PyAny>>> {
        let mut spare = None;
        self.read(py, key, self.lookup_key(py, key, &mut spare)?)
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
                Used { result: self.decoded(py, object, key, entry.value).map(Some), read_bytes }
            }
            Ok(None) => Used { result: Ok(None), read_bytes: 0 },
            Err(error) => {
                Used { result: Err(self.refused_entry(py, error, object).into()), read_bytes: 0 }
            }
        })
    }

    /// As [`Opened::read_key`], with the objects that this process keeps.
    #[inline(never)]
    pub fn read_kept<'py>(
        &self,
        py: Python<'py>,
        local: &Local,
        object: &Bound<'py, PyAny>,
    ) -> Quick<Option<Bound<'py, PyAny>>> {
        let Some(name) = Name::new(object, self.space.as_ref()) else {
            return self.read_key(py, object);
        };
        match local.current(&self.cache, name) {
            Some(value) => Ok(Some(value?)),
            None => self.read_and_keep(py, local, name, object),
        }
    }

    /// Reads the value of a key and keeps it.
    #[inline(never)]
    fn read_and_keep<'py>(
        &self,
        py: Python<'py>,
        local: &Local,
        name: Name<'_, 'py>,
        object: &Bound<'py, PyAny>,
    ) -> Quick<Option<Bound<'py, PyAny>>> {
        let own = keys::encode_lookup(object)?;
        let (key, eras) = match &self.space {
            None => (own, None),
            Some(space) => {
                let Ok(eras) = self.cache.watch_eras(space.names()) else {
                    return self.read_key(py, object);
                };
                let len_bytes = own.bytes().len();
                let all = space.prefix_with(eras.eras.iter().copied().map(Ok), len_bytes);
                let mut all = all.map_err(|error| self.refused(py, error))?;
                all.extend_from_slice(own.bytes());
                (Key::Long(all), Some(eras))
            }
        };
        let asked = || self.objects.as_ref().map(|objects| objects.asked());
        let asked_before = asked();
        let (value, proof) = scratch::with_buffer(|buffer| {
            let (entry, proof) = match self.cache.get_proved(key.bytes(), eras.as_ref(), buffer) {
                Ok(found) => found,
                Err(error) => {
                    let raised = self.refused_entry(py, error, object);
                    return Used { result: Err(raised.into()), read_bytes: 0 };
                }
            };
            match entry {
                Some(entry) if entry.is_in_output => {
                    let made = buffer.output::<BytesOutput>().and_then(BytesOutput::take);
                    let made = made.map(|bytes| bytes.into_bound(py).into_any());
                    Used { result: Ok((made, proof)), read_bytes: 0 }
                }
                Some(entry) => {
                    let read_bytes = entry.value.len();
                    let value = self.decoded(py, object, key.bytes(), entry.value);
                    Used { result: value.map(|value| (Some(value), proof)), read_bytes }
                }
                None => Used { result: Ok((None, None)), read_bytes: 0 },
            }
        })
        .inspect_err(|_: &errors::Raised| local.forget(name))?;
        match (&value, proof) {
            (Some(value), Some(proof)) if asked() == asked_before => {
                local.keep(name, value, proof)?;
            }
            _ => local.forget(name),
        }
        Ok(value)
    }

    /// Runs an operation that writes `len_bytes` of values, without the GIL if they are many.
    #[inline(always)]
    pub fn write<T: Send>(
        &self,
        py: Python<'_>,
        len_bytes: usize,
        operation: impl FnOnce(&Handle) -> tuckbox_engine::Result<T> + Send,
    ) -> tuckbox_engine::Result<T> {
        if len_bytes > BRIEF_BYTES {
            self.write_large(py, operation)
        } else {
            operation(&self.cache)
        }
    }

    #[cold]
    #[inline(never)]
    fn write_large<T: Send>(
        &self,
        py: Python<'_>,
        operation: impl FnOnce(&Handle) -> tuckbox_engine::Result<T> + Send,
    ) -> tuckbox_engine::Result<T> {
        refuse_if_brief()?;
        waiter::detached(py, || operation(&self.cache))
    }

    /// Encodes a value, and runs an operation that writes it under the encoded `key`. `object` is
    /// the key for messages.
    #[inline(always)]
    pub fn store<T: Send>(
        &self,
        py: Python<'_>,
        object: &Bound<'_, PyAny>,
        key: &[u8],
        value: &Bound<'_, PyAny>,
        operation: impl Fn(&Handle, Value<'_>) -> tuckbox_engine::Result<T> + Send + Sync,
    ) -> Quick<T> {
        match codec::encode_plain(value) {
            Some(value) if value.len() < self.direct_bytes => operation(&self.cache, value)
                .or_else(|error| self.with_room(py, error, |cache| operation(cache, value)))
                .map_err(|error| self.refused_entry(py, error, object).into()),
            _ => self.store_other(py, object, key, value, &operation),
        }
    }

    /// After a write found no room: deletes entries of former eras, which nobody can ask for, and
    /// writes again if there were any. Not if the engine remembers a search: a namespace that is cleared
    /// moves the clock that ends this.
    #[cold]
    pub fn with_room<T: Send>(
        &self,
        py: Python<'_>,
        error: Error,
        operation: impl Fn(&Handle) -> tuckbox_engine::Result<T> + Send + Sync,
    ) -> tuckbox_engine::Result<T> {
        if !matches!(error, Error::NoRoom { was_searched: true, .. }) {
            return Err(error);
        }
        let deleted = waiter::detached(py, || spaces::expire(&self.cache))?;
        if deleted > 0 {
            waiter::detached(py, || operation(&self.cache))
        } else {
            Err(error)
        }
    }

    /// As [`Opened::store`], for long values, and those that have to be encoded.
    #[inline(never)]
    fn store_other<T: Send>(
        &self,
        py: Python<'_>,
        object: &Bound<'_, PyAny>,
        key: &[u8],
        value: &Bound<'_, PyAny>,
        operation: &(impl Fn(&Handle, Value<'_>) -> tuckbox_engine::Result<T> + Send + Sync),
    ) -> Quick<T> {
        scratch::with_bytes(|bytes| loop {
            let id = self.objects.as_ref().map(|_| self.cache.latest().id());
            let stored = codec::encode_whole(value, self.rules(), self.entry(key), bytes)
                .map_err(|refusal| refusal.raised(py, Some(object)))?;
            let (value, is_bound) = match stored {
                Stored::Plain(value) => (value, false),
                Stored::Encoded { is_bound } => (codec::encoded(bytes), is_bound),
            };
            let done = self
                .write(py, value.len(), |cache| operation(cache, value))
                .or_else(|error| self.with_room(py, error, |cache| operation(cache, value)))
                .map_err(|error| self.refused_entry(py, error, object))?;
            if !is_bound || id == Some(self.cache.latest().id()) {
                return Ok(done);
            }
            // The write went into another file, in which what was stored cannot be read.
            if !self.removed(py, object, key, value)? {
                return Ok(done);
            }
        })
    }

    /// Deletes an entry if it has exactly this value; whether it did.
    #[cold]
    fn removed(
        &self,
        py: Python<'_>,
        object: &Bound<'_, PyAny>,
        key: &[u8],
        value: Value<'_>,
    ) -> PyResult<bool> {
        let raised = |error| self.refused_entry(py, error, object);
        let is_there = scratch::with_buffer(|buffer| Used {
            result: match self.cache.get(key, buffer) {
                Ok(entry) => Ok(entry.is_some_and(|entry| entry.value == value)),
                Err(error) => Err(raised(error)),
            },
            read_bytes: 0,
        });
        Ok(is_there? && self.cache.delete(key).map_err(raised)?)
    }

    /// Refuses to wait while this thread's operations must be brief.
    ///
    /// # Errors
    /// `WouldBlock`.
    pub fn refuse_if_brief(&self, py: Python<'_>) -> PyResult<()> {
        refuse_if_brief().map_err(|error| self.refused(py, error))
    }

    /// Runs a long operation without the GIL.
    pub fn detached<T: Send>(
        &self,
        py: Python<'_>,
        operation: impl FnOnce(&Handle) -> tuckbox_engine::Result<T> + Send,
    ) -> PyResult<T> {
        refuse_if_brief()
            .and_then(|()| waiter::detached(py, || operation(&self.cache)))
            .map_err(|error| self.refused(py, error))
    }
}

/// Refuses long work while this thread's operations must be brief.
#[cold]
fn refuse_if_brief() -> tuckbox_engine::Result<()> {
    match waiter::is_brief() {
        true => Err(ArenaError::WouldBlock { is_locked: false }.into()),
        false => Ok(()),
    }
}

/// Names the key of an entry that cannot be decoded.
#[cold]
pub fn with_key(py: Python<'_>, error: PyErr, key: &Bound<'_, PyAny>) -> PyErr {
    if !error.is_instance_of::<classes::EntryCorrupt>(py) {
        return error;
    }
    let message = format!("key {}: {}", names::of_object(key), error.value(py));
    let named = PyErr::from_type(error.get_type(py), (message,));
    named.set_cause(py, error.cause(py));
    named
}

/// The exception for a private cache that cannot be opened in another process.
#[cold]
fn not_shown(py: Python<'_>, error: Error, path: &Path) -> PyErr {
    match error {
        Error::Arena(ArenaError::Io { source, .. }) => {
            let message = format!(
                "the private cache at {} cannot be opened ({source}): its process has ended or \
                 closed it; use a cache with a path to share it beyond that process",
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
