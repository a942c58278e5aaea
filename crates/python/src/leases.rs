//! Leases: who makes the value of a key. See `tuckbox.contract` for what each operation promises.
//! Must not know how values are made.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use tuckbox_engine::{ArenaError, Begin, Condition, Error, FullEntry, Handle, Token};

use crate::core::{entry_of, Core};
use crate::errors::classes::WouldBlock;
use crate::errors::Quick;
use crate::opened::Opened;
use crate::scratch::{self, Used};
use crate::terms::OwnedTerms;
use crate::ttl;

/// The states that `_begin` returns, as in `tuckbox.contract`.
const FOUND: u8 = 0;
const LEASE: u8 = 1;
const BUSY: u8 = 2;

/// The right to make the value of a key. Ends when it is garbage, at the latest.
#[pyclass(frozen, module = "tuckbox._engine")]
pub struct Lease {
    cache: Arc<Handle>,
    // None once it has ended.
    token: Mutex<Option<Token>>,
}

impl Lease {
    fn token(&self) -> MutexGuard<'_, Option<Token>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Token> {
        self.token().take()
    }

    /// For a caller that tries again.
    fn put_back(&self, token: Token) {
        *self.token() = Some(token);
    }

    /// Ends the lease without a value.
    pub fn abandon(&self) {
        if let Some(token) = self.take() {
            self.cache.abandon(&token);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// A state, the entry, and the lease.
pub type Begun<'py> = (u8, Option<Bound<'py, PyAny>>, Option<Py<Lease>>);

/// See `Store._begin`.
///
/// # Errors
/// As `get` and `delete`.
pub fn begin<'py>(
    core: &Core,
    py: Python<'py>,
    key: &Bound<'py, PyAny>,
    force: bool,
) -> Quick<Begun<'py>> {
    let opened = core.opened()?;
    let mut spare = None;
    let bytes = opened.key(py, key, &mut spare)?;
    scratch::with_buffer(|buffer| {
        let begun = opened.cache.begin(bytes, force, buffer);
        let (state, token, entry) = match begun {
            Ok(Begin::Found(entry)) => (FOUND, None, Some(entry)),
            Ok(Begin::Lease(token, entry)) => (LEASE, Some(token), entry),
            Ok(Begin::Busy(entry)) => (BUSY, None, entry),
            Err(error) => {
                let result = Err(opened.refused_entry(py, error, key).into());
                return Used { result, read_bytes: 0 };
            }
        };
        let cache = Arc::clone(&opened.cache);
        // At once: an error below must end the lease.
        let lease = token.map(|token| Lease { cache, token: Mutex::new(Some(token)) });
        let read_bytes = entry.as_ref().map_or(0, |full| full.entry.value.len());
        let result = converted(opened, py, key, bytes, (state, entry, lease));
        Used { result, read_bytes }
    })
}

fn converted<'py>(
    opened: &Opened,
    py: Python<'py>,
    key: &Bound<'py, PyAny>,
    bytes: &[u8],
    (state, entry, lease): (u8, Option<FullEntry<'_>>, Option<Lease>),
) -> Quick<Begun<'py>> {
    let entry = entry.map(|full| entry_of(py, opened, key, bytes, &full)).transpose()?;
    Ok((state, entry, lease.map(|lease| Py::new(py, lease)).transpose()?))
}

/// See `Store._finish`.
///
/// # Errors
/// As `set`. The lease has ended then, too, but for `WouldBlock`.
#[allow(clippy::too_many_arguments)]
pub fn finish(
    core: &Core,
    py: Python<'_>,
    lease: &Lease,
    key: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
    ttl: Option<&Bound<'_, PyAny>>,
    stale: Option<&Bound<'_, PyAny>>,
    tags: &Bound<'_, PyAny>,
    made_s: Option<f64>,
) -> PyResult<bool> {
    let finish = || -> Quick<bool> {
        let opened = core.opened()?;
        let mut spare = None;
        let bytes = opened.key(py, key, &mut spare)?;
        let given =
            OwnedTerms::new(ttl::parse(ttl)?, Some(tags), stale, None, None)?.made_in(made_s);
        given.with(Condition::Always, |terms| {
            let (ttl, attributes) = (terms.ttl, &terms.attributes);
            opened.store(py, key, bytes, value, |cache, value| {
                let Some(token) = lease.take() else { return Ok(false) };
                let stored = cache.finish(&token, bytes, value, ttl, attributes);
                if let Err(Error::Arena(ArenaError::WouldBlock { .. })) = stored {
                    lease.put_back(token);
                }
                stored
            })
        })
    };
    finish().map_err(|raised| {
        let error = PyErr::from(raised);
        if !error.is_instance_of::<WouldBlock>(py) {
            lease.abandon();
        }
        error
    })
}

/// See `Store._wait_made`.
///
/// # Errors
/// `CacheClosed`; whatever a signal handler raises.
pub fn wait_made(
    core: &Core,
    py: Python<'_>,
    key: &Bound<'_, PyAny>,
    timeout_s: f64,
) -> PyResult<bool> {
    let opened = core.opened()?;
    let mut spare = None;
    let bytes = opened.key(py, key, &mut spare)?;
    let limit = Duration::try_from_secs_f64(timeout_s.max(0.0)).unwrap_or(Duration::MAX);
    if limit > Duration::ZERO {
        opened.refuse_if_brief(py)?;
    }
    opened.cache.wait_made(bytes, limit).map_err(|error| opened.refused_entry(py, error, key))
}
