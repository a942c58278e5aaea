//! Integer arguments: `delta`, `default` and `version`.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use crate::errors::classes::{IntegerOverflow, InvalidVersion, NotAnInteger};
use crate::names;

/// An `int` of 64 bits, for `incr`.
///
/// # Errors
/// `NotAnInteger` for another type, bool included, and `IntegerOverflow` for a larger one.
pub fn signed(argument: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    if argument.is_instance_of::<PyBool>() || !argument.is_instance_of::<PyInt>() {
        let kind = names::of_type(argument);
        return Err(NotAnInteger::new_err(format!("{name} must be an int, not {kind}")));
    }
    argument.extract().map_err(|_| {
        let shown = names::of_object(argument);
        IntegerOverflow::new_err(format!(
            "{name} must lie in the range of 64-bit integers, got {shown}"
        ))
    })
}

/// The version of an entry, for `cas`.
///
/// # Errors
/// `InvalidVersion` for what no version can be.
pub fn version(argument: &Bound<'_, PyAny>) -> PyResult<u64> {
    let number = if argument.is_instance_of::<PyBool>() || !argument.is_instance_of::<PyInt>() {
        None
    } else {
        argument.extract().ok()
    };
    number.ok_or_else(|| {
        let shown = names::of_object(argument);
        InvalidVersion::new_err(format!(
            "version must be the version of an Entry from get_entry(), got {shown}"
        ))
    })
}
