//! Integer arguments: `delta`, `default` and `version`.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use crate::errors::classes::{IntegerOverflow, InvalidVersion, NotAnInteger};
use crate::names;

/// Converts an argument of `incr` or `decr` to a 64-bit integer.
///
/// # Errors
/// `NotAnInteger` for other types, including bool; `IntegerOverflow` if it does not fit.
pub fn signed(argument: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    if argument.is_instance_of::<PyBool>() || !argument.is_instance_of::<PyInt>() {
        let kind = names::of_type(argument);
        return Err(NotAnInteger::new_err(format!("{name} must be an int, not {kind}")));
    }
    argument.extract().map_err(|_| {
        let shown = names::of_object(argument);
        IntegerOverflow::new_err(format!("{name} must fit a signed 64-bit integer, got {shown}"))
    })
}

/// Converts the `version` argument of `cas`.
///
/// # Errors
/// `InvalidVersion` unless it is a non-negative int of 64 bits.
pub fn version(argument: &Bound<'_, PyAny>) -> PyResult<u64> {
    let number = if argument.is_instance_of::<PyBool>() || !argument.is_instance_of::<PyInt>() {
        None
    } else {
        argument.extract().ok()
    };
    number.ok_or_else(|| {
        let shown = names::of_object(argument);
        InvalidVersion::new_err(format!(
            "version must be the version of an Entry that get_entry() returned, got {shown}"
        ))
    })
}
