//! Numbers of other libraries, and the integer arguments `delta`, `default` and `version`.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyInt};

use crate::errors::classes::{IntegerOverflow, InvalidVersion, NotAnInteger};
use crate::names;

/// The NumPy scalars that equal what their `item()` returns: a bool, float, str or bytes. NumPy's
/// integers have `__index__`.
const NUMPY_SCALARS: [&str; 7] = [
    "numpy.bool",
    "numpy.bool_",
    "numpy.float16",
    "numpy.float32",
    "numpy.float64",
    "numpy.str_",
    "numpy.bytes_",
];

/// The plain object that stands for an object of another type: an int for an object with
/// `__index__`, and a bool, float, str or bytes for a NumPy scalar. `None` for every other object,
/// for arrays, and for ints and their subclasses.
///
/// # Errors
/// Exceptions of the object.
pub fn plain<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    static INDEX: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    if object.is_instance_of::<PyInt>() {
        return Ok(None);
    }
    let kind = object.get_type();
    if NUMPY_SCALARS.contains(&names::of(&kind).as_str()) {
        return object.call_method0(intern!(py, "item")).map(Some);
    }
    // An array of one integer also has `__index__`.
    if !kind.hasattr(intern!(py, "__index__"))? || kind.hasattr(intern!(py, "__len__"))? {
        return Ok(None);
    }
    let index =
        INDEX.get_or_try_init(py, || py.import("operator")?.getattr("index").map(Bound::unbind))?;
    match index.bind(py).call1((object,)) {
        Ok(number) => Ok(Some(number).filter(|number| number.is_exact_instance_of::<PyInt>())),
        Err(error) if error.is_instance_of::<PyTypeError>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The int that an argument is or stands for; `None` if there is none, as for a bool.
fn int_of<'py>(argument: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let given = match plain(argument)? {
        Some(plain) => plain,
        None => argument.clone(),
    };
    let is_int = given.is_instance_of::<PyInt>() && !given.is_instance_of::<PyBool>();
    Ok(is_int.then_some(given))
}

/// Converts an argument of `incr` or `decr` to a 64-bit integer.
///
/// # Errors
/// `NotAnInteger` for other types, including bool; `IntegerOverflow` if it does not fit.
pub fn signed(argument: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    let Some(number) = int_of(argument)? else {
        let kind = names::of_type(argument);
        return Err(NotAnInteger::new_err(format!("{name} must be an int, not {kind}")));
    };
    number.extract().map_err(|_| {
        let shown = names::of_object(argument);
        IntegerOverflow::new_err(format!("{name} must fit a signed 64-bit integer, got {shown}"))
    })
}

/// Converts the `version` argument of `cas`.
///
/// # Errors
/// `InvalidVersion` unless it is a non-negative int of 64 bits.
pub fn version(argument: &Bound<'_, PyAny>) -> PyResult<u64> {
    let number = int_of(argument)?.and_then(|number| number.extract().ok());
    number.ok_or_else(|| {
        let shown = names::of_object(argument);
        InvalidVersion::new_err(format!(
            "version must be the version of an Entry that get_entry() returned, got {shown}"
        ))
    })
}
