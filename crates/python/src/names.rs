//! The names of types and objects in messages.

use pyo3::prelude::*;
use pyo3::types::PyType;

/// The type of an object by its import name: `str`, `decimal.Decimal`.
pub fn of_type(object: &Bound<'_, PyAny>) -> String {
    of(&object.get_type())
}

/// A type by its import name.
pub fn of(kind: &Bound<'_, PyType>) -> String {
    kind.fully_qualified_name()
        .map_or_else(|_| "object of unknown type".into(), |name| name.to_string())
}

/// The `repr` of an object, cut to 60 characters.
pub fn of_object(object: &Bound<'_, PyAny>) -> String {
    const LENGTH_MAX: usize = 60;
    let shown =
        object.repr().map_or_else(|_| of_type(object), |repr| repr.to_string_lossy().into_owned());
    if shown.chars().count() <= LENGTH_MAX {
        return shown;
    }
    shown.chars().take(LENGTH_MAX - 3).chain("...".chars()).collect()
}
