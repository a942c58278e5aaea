//! Which values can be kept, and copies of those that can be changed. Must not know where they are.

use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyFrozenSet, PyInt,
    PyList, PySet, PyString, PyTime, PyTuple,
};

use crate::codec::imported;
use crate::text;

/// How an object is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As it is: nobody can change it.
    Shared,
    /// As a copy.
    Copied {
        /// Whether something in it has to be copied, too.
        nests: bool,
    },
}

impl Kind {
    const ALL: [Kind; 3] =
        [Kind::Shared, Kind::Copied { nests: false }, Kind::Copied { nests: true }];

    /// As a number of two bits.
    pub fn bits(self) -> u8 {
        Kind::ALL.iter().position(|kind| *kind == self).unwrap_or_default() as u8
    }

    /// From [`Kind::bits`].
    #[inline(always)]
    pub fn of_bits(bits: u8) -> Kind {
        match bits {
            0 => Kind::Shared,
            1 => Kind::Copied { nests: false },
            _ => Kind::Copied { nests: true },
        }
    }
}

/// About the bytes of an object, without what it contains.
const LEAF_BYTES: usize = 56;
const CONTAINER_BYTES: usize = 80;
/// About the bytes of each item of a list or tuple, and of a dict or set.
const ITEM_BYTES: usize = 8;
const HASHED_BYTES: usize = 48;

/// How a value is handed out, and about how many bytes it takes. None if it must not be kept: it
/// contains an object that is not of one of the plain types.
pub fn kind_of(value: &Bound<'_, PyAny>) -> Option<(Kind, usize)> {
    if let Ok(text) = value.cast_exact::<PyString>() {
        let len_bytes = text::utf8(text).map_or(4 * text.len().unwrap_or(0), str::len);
        return Some((Kind::Shared, LEAF_BYTES + len_bytes));
    }
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        return Some((Kind::Shared, LEAF_BYTES + bytes.as_bytes().len()));
    }
    if is_short_leaf(value) {
        return Some((Kind::Shared, LEAF_BYTES));
    }
    if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        return kind_of_items(tuple.iter(), ITEM_BYTES);
    }
    if let Ok(set) = value.cast_exact::<PyFrozenSet>() {
        return kind_of_items(set.iter(), HASHED_BYTES);
    }
    let (items, bytes) = if let Ok(dict) = value.cast_exact::<PyDict>() {
        let (keys, key_bytes) = kind_of_items(dict.keys().iter(), HASHED_BYTES)?;
        debug_assert_eq!(keys, Kind::Shared);
        let (values, bytes) = kind_of_items(dict.values().iter(), 0)?;
        (values, key_bytes + bytes)
    } else if let Ok(list) = value.cast_exact::<PyList>() {
        kind_of_items(list.iter(), ITEM_BYTES)?
    } else if let Ok(set) = value.cast_exact::<PySet>() {
        kind_of_items(set.iter(), HASHED_BYTES)?
    } else if let Ok(array) = value.cast_exact::<PyByteArray>() {
        (Kind::Shared, LEAF_BYTES + array.len())
    } else {
        return None;
    };
    Some((Kind::Copied { nests: items != Kind::Shared }, bytes))
}

fn kind_of_items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    item_bytes: usize,
) -> Option<(Kind, usize)> {
    let (mut kind, mut bytes) = (Kind::Shared, CONTAINER_BYTES);
    for item in items {
        let (kind_of_item, own_bytes) = kind_of(&item)?;
        if kind_of_item != Kind::Shared {
            kind = Kind::Copied { nests: true };
        }
        bytes = bytes.saturating_add(own_bytes + item_bytes);
    }
    Some((kind, bytes))
}

/// Whether a value is an immutable one that takes few bytes.
fn is_short_leaf(value: &Bound<'_, PyAny>) -> bool {
    let py = value.py();
    value.is_none()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyDateTime>()
        || value.is_exact_instance_of::<PyDate>()
        || value.is_exact_instance_of::<PyTime>()
        || value.is_exact_instance_of::<PyDelta>()
        || [imported::decimal(py), imported::uuid(py)]
            .into_iter()
            .flatten()
            .any(|class| value.get_type().is(class))
}

/// A copy of a value whose containers are new, and whose leaves are the same objects. `nests` says
/// whether the value contains others that can be changed.
///
/// # Errors
/// `MemoryError`.
pub fn copied<'py>(value: &Bound<'py, PyAny>, nests: bool) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        let copy = dict.copy()?;
        if nests {
            for (key, item) in dict.iter().filter(|(_, item)| can_nest(item)) {
                copy.set_item(key, copied(&item, true)?)?;
            }
        }
        return Ok(copy.into_any());
    }
    if let Ok(list) = value.cast_exact::<PyList>() {
        let copy = list.get_slice(0, list.len());
        if nests {
            for (index, item) in list.iter().enumerate().filter(|(_, item)| can_nest(item)) {
                copy.set_item(index, copied(&item, true)?)?;
            }
        }
        return Ok(copy.into_any());
    }
    if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        let items = tuple.iter_borrowed().map(|item| match can_nest(&item) {
            true => copied(&item, true),
            false => Ok(item.to_owned()),
        });
        return Ok(PyTuple::new(value.py(), items.collect::<PyResult<Vec<_>>>()?)?.into_any());
    }
    if value.is_exact_instance_of::<PySet>() {
        return value.py().get_type::<PySet>().call1((value,));
    }
    match value.cast_exact::<PyByteArray>() {
        Ok(array) => Ok(PyByteArray::from(array)?.into_any()),
        Err(_) => Ok(value.clone()),
    }
}

/// Whether a value of this type can be changed, or contain one that can.
fn can_nest(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyDict>()
        || value.is_exact_instance_of::<PyList>()
        || value.is_exact_instance_of::<PyTuple>()
        || value.is_exact_instance_of::<PySet>()
        || value.is_exact_instance_of::<PyByteArray>()
}
