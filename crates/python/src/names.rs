//! The names of types, objects and parameters in messages.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyInt, PyType};

/// The longest text that stands for an object.
const LENGTH_MAX: usize = 60;
/// The decimal digits of a longer int would take long to calculate.
const SHOWN_BITS: u64 = 4096;

/// The type of an object by its import name: `str`, `decimal.Decimal`.
pub fn of_type(object: &Bound<'_, PyAny>) -> String {
    of(&object.get_type())
}

/// A type by its import name.
pub fn of(kind: &Bound<'_, PyType>) -> String {
    kind.fully_qualified_name()
        .map_or_else(|_| "object of unknown type".into(), |name| name.to_string())
}

/// The `repr` of an object, cut to 60 characters; its type if that raises an exception.
pub fn of_object(object: &Bound<'_, PyAny>) -> String {
    let shown = short_repr(object).unwrap_or_else(|_| of_type(object));
    if shown.chars().count() <= LENGTH_MAX {
        return shown;
    }
    shown.chars().take(LENGTH_MAX - 3).chain("...".chars()).collect()
}

/// A `repr` that leaves out the middle of long text and containers, whose whole `repr` could take
/// more memory than there is.
fn short_repr(object: &Bound<'_, PyAny>) -> PyResult<String> {
    static REPR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let repr = REPR.get_or_try_init(py, || -> PyResult<_> {
        let repr = py.import("reprlib")?.getattr("Repr")?.call0()?;
        for limit in ["maxstring", "maxlong", "maxother"] {
            repr.setattr(limit, LENGTH_MAX)?;
        }
        Ok(repr.getattr("repr")?.unbind())
    })?;
    if let Ok(number) = object.cast_exact::<PyInt>() {
        let bits: u64 = number.call_method0("bit_length")?.extract()?;
        if bits > SHOWN_BITS {
            return Ok(format!("<int of {bits} bits>"));
        }
    }
    // `reprlib` has no limit for bytes.
    let shown = match object.cast_exact::<PyBytes>() {
        Ok(bytes) if bytes.as_bytes().len() > LENGTH_MAX => {
            repr.call1(py, (PyBytes::new(py, &bytes.as_bytes()[..LENGTH_MAX]),))?
        }
        _ => repr.call1(py, (object,))?,
    };
    Ok(shown.bind(py).str()?.to_string_lossy().into_owned())
}

/// The exception for a keyword argument that a method does not have. It says what other caches'
/// names are called here.
#[cold]
pub fn unexpected(class: &Bound<'_, PyType>, method: &str, parameter: &str) -> PyErr {
    static MESSAGE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let message = || {
        let function = MESSAGE.import(class.py(), "tuckbox.advice", "unexpected")?;
        function.call1((class.getattr(method)?, parameter))?.extract::<String>()
    };
    message().map_or_else(|error| error, PyTypeError::new_err)
}
