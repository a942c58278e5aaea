//! The objects that `get` has returned in this process, each with the proof that it is current. Must
//! not know what proves that; that is in the engine.
//!
//! A key's object is handed out again as long as its proof holds. Values that cannot be changed are
//! the same object each time; others are copied from one that nobody else has.

mod copies;
mod index;
mod table;

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};
use tuckbox_engine::{Handle, Proved};

use self::copies::{copied, kind_of, Kind};
use self::table::{Kept, Table};
use crate::gil_cell::GilCell;
use crate::spaces::Space;
use crate::text;

/// The objects of a cache and its namespaces.
pub struct Local {
    table: GilCell<Table>,
    bytes_max: u64,
}

/// What an object is kept under: a key of one of the types whose `==` and `hash` run no code of the
/// program, and its namespace.
#[derive(Clone, Copy)]
pub struct Name<'a, 'py> {
    key: &'a Bound<'py, PyAny>,
    space: Option<&'a Arc<Space>>,
    /// Of both.
    hash: u64,
}

impl<'a, 'py> Name<'a, 'py> {
    /// The name of a key; none if no object is kept under keys of its type.
    #[inline(always)]
    pub fn new(key: &'a Bound<'py, PyAny>, space: Option<&'a Arc<Space>>) -> Option<Self> {
        let hash = match key.cast_exact::<PyString>() {
            Ok(text) => text::hash(text)?,
            Err(_) => hash_of_other(key)?,
        };
        // Ints are their own hashes.
        let hash = (hash as u64 ^ space.map_or(0, |space| space.hash()))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Some(Name { key, space, hash: hash ^ hash >> 32 })
    }

    /// Whether it is the name of an object, by its key being the same object, without namespace.
    #[inline(always)]
    fn is_same(&self, kept: &Kept) -> bool {
        self.key.as_ptr() == kept.key.as_ptr() && self.space.is_none() && !kept.is_in_space()
    }

    /// Whether it is the name of an object whose key is in `space`.
    #[inline(always)]
    fn is_of(&self, kept: &Kept, space: Option<&Arc<Space>>) -> bool {
        let is_in_space = match (self.space, space) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other) || own.name() == other.name(),
            _ => false,
        };
        is_in_space && (self.key.as_ptr() == kept.key.as_ptr() || self.equals(&kept.key))
    }

    fn equals(&self, other: &Py<PyAny>) -> bool {
        let other = other.bind(self.key.py());
        match (self.key.cast_exact::<PyString>(), other.cast_exact::<PyString>()) {
            // No text with lone surrogates is kept.
            (Ok(own), Ok(other)) => {
                text::utf8(own).is_some_and(|text| text::utf8(other) == Some(text))
            }
            (Err(_), Err(_)) => {
                self.key.get_type().is(other.get_type()) && self.key.eq(other).unwrap_or(false)
            }
            _ => false,
        }
    }
}

#[inline(never)]
fn hash_of_other(key: &Bound<'_, PyAny>) -> Option<isize> {
    let is_name = key.is_exact_instance_of::<PyInt>() || key.is_exact_instance_of::<PyBytes>();
    if is_name {
        key.hash().ok()
    } else {
        None
    }
}

impl Local {
    /// Keeps objects of about this many bytes.
    pub fn new(bytes_max: u64) -> Local {
        Local { table: GilCell::new(Table::new(bytes_max)), bytes_max }
    }

    /// The object of a name, if a get would return its value at this moment. Counts as a hit then.
    #[inline(always)]
    pub fn current<'py>(
        &self,
        cache: &Handle,
        name: Name<'_, 'py>,
    ) -> Option<PyResult<Bound<'py, PyAny>>> {
        let py = name.key.py();
        let find = |table: &mut Table| {
            let (value, kind) =
                table.find(&name, |proof, evidence| cache.is_current(proof, evidence))?;
            Some((value.bind(py).clone(), kind))
        };
        // Copied afterwards: that may run the garbage collector, and so Python code.
        match self.table.with(py, find)?? {
            (value, Kind::Shared) => Some(Ok(value)),
            (value, Kind::Copied { nests }) => Some(copied(&value, nests)),
        }
    }

    /// Keeps the object that a get returned. Does nothing if its type does not allow that.
    #[cold]
    #[inline(never)]
    pub fn keep(
        &self,
        name: Name<'_, '_>,
        value: &Bound<'_, PyAny>,
        (proof, evidence): Proved,
    ) -> PyResult<()> {
        let py = value.py();
        let Some((kind, value_bytes)) = kind_of(value) else {
            self.forget(name);
            return Ok(());
        };
        let value = match kind {
            Kind::Shared => value.clone(),
            Kind::Copied { nests } => copied(value, nests)?,
        };
        let bytes = value_bytes.saturating_add(kind_of(name.key).map_or(0, |(_, bytes)| bytes));
        let key = name.key.clone().unbind();
        let kept = || (Kept { key, value: value.unbind(), proof }, evidence);
        self.table.with(py, |table| table.keep(&name, kind, bytes, kept));
        Ok(())
    }

    /// Drops the object of a name.
    #[cold]
    pub fn forget(&self, name: Name<'_, '_>) {
        self.table.with(name.key.py(), |table| table.forget(&name));
    }

    /// About how many bytes of objects are kept at most.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// How many objects are kept, and about how many bytes they take.
    pub fn usage(&self, py: Python<'_>) -> (u64, u64) {
        self.table.with(py, |table| table.usage()).unwrap_or_default()
    }
}
