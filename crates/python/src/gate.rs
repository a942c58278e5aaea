//! The gate as Python sees it: private methods of `Core` for `tuckbox.compat.diskcache`. Must not know
//! what a gate is for; `crates/engine/src/storage/gate.rs` says that.

use pyo3::prelude::*;
use tuckbox_engine::Pass;

use crate::errors::Quick;
use crate::opened::Opened;
use crate::scratch::{self, Used};

/// What a change finds that may pass: a new number; the version and the value of the key's entry, or
/// 0 and None.
pub type Seen<'py> = (u64, u64, Option<Bound<'py, PyAny>>);

/// Looks at a key before it is changed. None if the gate's word is not `gate`.
///
/// # Errors
/// As `get`.
pub fn look<'py>(
    opened: &Opened,
    py: Python<'py>,
    key: &Bound<'py, PyAny>,
    gate: u64,
) -> Quick<Option<Seen<'py>>> {
    if opened.cache.gate() != gate {
        return Ok(None);
    }
    let number = opened.cache.next_number();
    let mut spare = None;
    let bytes = opened.lookup_key(py, key, &mut spare)?;
    let seen = scratch::with_buffer(|buffer| match opened.cache.get(bytes, buffer) {
        Ok(Some(entry)) => Used {
            result: opened
                .decoded(py, key, bytes, entry.value)
                .map(|value| Some((number, entry.version, Some(value)))),
            read_bytes: entry.value.len(),
        },
        Ok(None) => Used { result: Ok(Some((number, 0, None))), read_bytes: 0 },
        Err(error) => {
            Used { result: Err(opened.refused_entry(py, error, key).into()), read_bytes: 0 }
        }
    })?;
    // Otherwise, who has closed it may have changed the entry.
    Ok(seen.filter(|_| opened.cache.gate() == gate))
}

/// Stores a value for a change that has looked. The weight; None if it was refused.
///
/// # Errors
/// As `set`.
pub fn store<'py>(
    opened: &Opened,
    py: Python<'py>,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
    pass: Pass,
) -> Quick<Option<i64>> {
    let mut spare = None;
    let bytes = opened.key(py, key, &mut spare)?;
    opened.store(py, key, bytes, value, |cache, value| cache.store_passing(bytes, value, &pass))
}

/// Deletes an entry for a change that has looked. The weight; None if it was refused.
///
/// # Errors
/// As `delete`.
pub fn delete<'py>(
    opened: &Opened,
    py: Python<'py>,
    key: &Bound<'py, PyAny>,
    pass: &Pass,
) -> Quick<Option<i64>> {
    let mut spare = None;
    let bytes = opened.lookup_key(py, key, &mut spare)?;
    let deleted = opened.cache.delete_passing(bytes, pass);
    deleted.map_err(|error| opened.refused_entry(py, error, key).into())
}
