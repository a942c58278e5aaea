//! A faster calling convention for `get` and `set`: arguments are taken directly from CPython's
//! vectorcall array.
//!
//! This saves 150 instructions per call over the code that PyO3 generates (decision 30). Contains
//! the unsafe code for it; what a method does is safe code elsewhere, in a [`Method`].

use std::ffi::CStr;
use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use pyo3::PyClass;

use crate::errors::Quick;
use crate::names as messages;

/// An argument; `None` if it was not given.
pub type Argument<'a, 'py> = Option<Borrowed<'a, 'py, PyAny>>;

/// Most parameters of a method that can only be given by name.
pub const BY_NAME_MAX: usize = 4;

/// A method of the class `C` with `N` parameters, which can be given by position or by name.
pub trait Method<C, const N: usize> {
    /// Its name.
    const NAME: &'static CStr;
    /// Signature and docstring in CPython's format: `name($self, ...)\n--\n\ntext`.
    const DOC: &'static CStr;
    /// The names of the parameters, required ones first.
    const PARAMETERS: [&'static str; N];
    /// How many are required. Their arguments are never `None`.
    const REQUIRED: usize;
    /// Further parameters, which can only be given by name.
    const BY_NAME: &'static [&'static str] = &[];

    /// Runs the method.
    fn call<'py>(
        py: Python<'py>,
        this: &Bound<'py, C>,
        arguments: [Argument<'_, 'py>; N],
    ) -> Quick<Bound<'py, PyAny>>;

    /// As [`Method::call`], with at least one of [`Method::BY_NAME`].
    #[cold]
    fn call_by_name<'py>(
        py: Python<'py>,
        this: &Bound<'py, C>,
        arguments: [Argument<'_, 'py>; N],
        _by_name: [Argument<'_, 'py>; BY_NAME_MAX],
    ) -> Quick<Bound<'py, PyAny>> {
        Self::call(py, this, arguments)
    }
}

/// Adds a method to a class.
///
/// # Errors
/// Exceptions of Python.
pub fn install<C, M, const N: usize>(py: Python<'_>) -> PyResult<()>
where
    C: PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync,
    M: Method<C, N>,
{
    let class = py.get_type::<C>();
    // Leaked, because the class lives as long as the process.
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: M::NAME.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: entered::<C, M, N> },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: M::DOC.as_ptr(),
    }));
    // SAFETY: the definition is never freed, and its function has the signature that its flags
    // state. The descriptor ensures that it is only called with instances of this class.
    let method: Bound<'_, PyAny> = unsafe {
        Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(class.as_type_ptr(), definition))?
    };
    class.setattr(M::NAME.to_string_lossy(), method)
}

/// The function that CPython calls.
///
/// # Safety
/// The thread is attached. `this` is an instance of `C`. `positional` points to `positional_count`
/// objects, followed by one object for each of `names`, which is a tuple or null.
unsafe extern "C" fn entered<C, M, const N: usize>(
    this: *mut ffi::PyObject,
    positional: *const *mut ffi::PyObject,
    positional_count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject
where
    C: PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync,
    M: Method<C, N>,
{
    // SAFETY: CPython calls methods attached.
    let py = unsafe { Python::assume_attached() };
    let call = || -> Quick<Bound<'_, PyAny>> {
        // SAFETY: `this` is an instance of `C`, and CPython keeps it alive during the call.
        let this = unsafe { Borrowed::from_ptr(py, this).cast_unchecked::<C>() };
        let given = positional_count as usize;
        let arguments = if given > N || given < M::REQUIRED || !names.is_null() {
            let mut by_name = [None; BY_NAME_MAX];
            // SAFETY: as the caller promises.
            let arguments =
                unsafe { match_names::<C, M, N>(py, positional, given, names, &mut by_name)? };
            if by_name.iter().any(Option::is_some) {
                return M::call_by_name(py, &this, arguments, by_name);
            }
            arguments
        } else {
            std::array::from_fn(|index| {
                // SAFETY: one of the `positional_count` objects, alive during the call.
                (index < given).then(|| unsafe { Borrowed::from_ptr(py, *positional.add(index)) })
            })
        };
        M::call(py, &this, arguments)
    };
    let raised = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(result)) => return result.into_ptr(),
        Ok(Err(raised)) => PyErr::from(raised),
        Err(payload) => panicked(payload.as_ref()),
    };
    raised.restore(py);
    std::ptr::null_mut()
}

/// Converts a panic to PyO3's `PanicException`, which `except Exception` does not catch.
#[cold]
fn panicked(payload: &(dyn std::any::Any + Send)) -> PyErr {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    PanicException::new_err(text.unwrap_or("panic from Rust code").to_owned())
}

/// Assigns arguments given by name to their parameters.
///
/// # Errors
/// `TypeError` with Python's own wording, if the arguments do not match the parameters.
///
/// # Safety
/// As [`entered`].
#[cold]
unsafe fn match_names<'a, 'py, C: PyClass, M: Method<C, N>, const N: usize>(
    py: Python<'py>,
    positional: *const *mut ffi::PyObject,
    given: usize,
    names: *mut ffi::PyObject,
    by_name: &mut [Argument<'a, 'py>; BY_NAME_MAX],
) -> PyResult<[Argument<'a, 'py>; N]> {
    let mut arguments: [Argument<'a, 'py>; N] = [None; N];
    let method = M::NAME.to_string_lossy();
    if given > N {
        let least =
            if M::REQUIRED == N { String::new() } else { format!("from {} to ", M::REQUIRED) };
        return Err(PyTypeError::new_err(format!(
            "{method}() takes {least}{N} positional arguments but {given} were given"
        )));
    }
    for (index, argument) in arguments.iter_mut().enumerate().take(given) {
        // SAFETY: one of the positional objects.
        *argument = Some(unsafe { Borrowed::from_ptr(py, *positional.add(index)) });
    }
    if !names.is_null() {
        // SAFETY: a tuple, alive during the call.
        let names = unsafe { Borrowed::from_ptr(py, names).cast_unchecked::<PyTuple>() };
        for (index, name) in names.iter_borrowed().enumerate() {
            let name = name.cast::<PyString>()?;
            let text = name.to_str()?;
            let place_in = |all: &[&str]| all.iter().position(|parameter| *parameter == text);
            let argument = match (place_in(&M::PARAMETERS), place_in(M::BY_NAME)) {
                (Some(place), _) => &mut arguments[place],
                (None, Some(place)) => &mut by_name[place],
                (None, None) => {
                    return Err(messages::unexpected(&py.get_type::<C>(), &method, text));
                }
            };
            if argument.is_some() {
                return Err(PyTypeError::new_err(format!(
                    "{method}() got multiple values for argument '{text}'"
                )));
            }
            // SAFETY: after the positional objects there is one for each name.
            let value = unsafe { Borrowed::from_ptr(py, *positional.add(given + index)) };
            *argument = Some(value);
        }
    }
    let missing: Vec<String> = (0..M::REQUIRED)
        .filter(|place| arguments[*place].is_none())
        .map(|place| format!("'{}'", M::PARAMETERS[place]))
        .collect();
    if missing.is_empty() {
        return Ok(arguments);
    }
    let plural = if missing.len() == 1 { "" } else { "s" };
    Err(PyTypeError::new_err(format!(
        "{method}() missing {} required positional argument{plural}: {}",
        missing.len(),
        missing.join(" and ")
    )))
}
