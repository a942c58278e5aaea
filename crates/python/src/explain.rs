//! Advice in the errors of methods that PyO3 made: what a parameter of another cache is called here.
//!
//! A method with `**others` would take 370 instructions more in each call. Here, a function calls what
//! PyO3 made, and completes the message of its error. Contains the unsafe code for that; the advice
//! is in `tuckbox.advice`.

use std::sync::OnceLock;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::PyClass;

use crate::names as messages;

/// The methods whose errors [`explained`] completes: what CPython calls instead, and what PyO3 made.
static EXPLAINED: [OnceLock<ffi::PyCFunctionFastWithKeywords>; 16] =
    [const { OnceLock::new() }; 16];

/// Lets these methods say what a parameter of another cache is called here.
///
/// # Errors
/// Exceptions of Python.
pub fn explain<C: PyClass>(py: Python<'_>, methods: &[&str]) -> PyResult<()> {
    let functions: [ffi::PyCFunctionFastWithKeywords; 16] = functions::<C>();
    assert!(methods.len() <= functions.len(), "a function for each method");
    let class = py.get_type::<C>();
    for ((name, function), original) in methods.iter().zip(functions).zip(&EXPLAINED) {
        let method = class.getattr(*name)?;
        // SAFETY: the methods of a class that are written in C are such objects, and their
        // definitions are never freed. Which function it is follows from the flags.
        let made = unsafe {
            let made = &*(*method.as_ptr().cast::<ffi::PyMethodDescrObject>()).d_method;
            assert_eq!(made.ml_flags & FAST, FAST, "{name} takes keywords");
            made
        };
        // SAFETY: as above.
        let _ = original.set(unsafe { made.ml_meth.PyCFunctionFastWithKeywords });
        let definition = Box::leak(Box::new(ffi::PyMethodDef {
            ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: function },
            ..*made
        }));
        // SAFETY: the definition is never freed, and its function has the signature that its flags
        // state. The descriptor ensures that it is only called with instances of this class.
        let method: Bound<'_, PyAny> = unsafe {
            let method = ffi::PyDescr_NewMethod(class.as_type_ptr(), definition);
            Bound::from_owned_ptr_or_err(py, method)?
        };
        class.setattr(*name, method)?;
    }
    Ok(())
}

const FAST: i32 = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;

fn functions<C: PyClass>() -> [ffi::PyCFunctionFastWithKeywords; 16] {
    macro_rules! each {
        ($($index:literal)*) => { [$(explained::<C, $index>),*] };
    }
    each!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
}

/// Calls what PyO3 made. If that refuses a keyword argument, completes the message.
///
/// # Safety
/// The thread is attached, and the arguments are those of a method of `C`.
unsafe extern "C" fn explained<C: PyClass, const INDEX: usize>(
    this: *mut ffi::PyObject,
    positional: *const *mut ffi::PyObject,
    positional_count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let original = EXPLAINED[INDEX].get().expect("set before this function is called");
    // SAFETY: as the caller promises.
    let result = unsafe { original(this, positional, positional_count, names) };
    if result.is_null() && !names.is_null() {
        // SAFETY: CPython calls methods attached.
        complete::<C>(unsafe { Python::assume_attached() });
    }
    result
}

/// Completes the message of the exception that is raised, if it is about an unknown keyword.
#[cold]
fn complete<C: PyClass>(py: Python<'_>) {
    let Some(error) = PyErr::take(py) else { return };
    let explain = || {
        let message = error.value(py).str().ok()?.to_string();
        // Such as "Core.add() got an unexpected keyword argument 'expire'".
        let (method, name) = message.split_once("() got an unexpected keyword argument '")?;
        let method = method.rsplit('.').next()?;
        Some(messages::unexpected(&py.get_type::<C>(), method, name.strip_suffix('\'')?))
    };
    let explained = error.is_instance_of::<PyTypeError>(py).then(explain).flatten();
    explained.unwrap_or(error).restore(py);
}
