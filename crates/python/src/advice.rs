//! What to do about an object that cannot be stored, for messages.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyFrozenSet, PyInt, PyList,
    PySet, PyString, PyTime, PyTuple, PyType,
};

use crate::codec::imported;
use crate::{codec, names};

const VALUE_TYPES: &str = "None, bool, int, float, str, bytes, bytearray, list, tuple, dict, set, \
                           frozenset, datetime, date, time, timedelta, Decimal and UUID";

/// Where the text is that says how.
const REGISTER: &str = "see help(tuckbox.register)";

/// Why a value of this type cannot be stored, and what to do.
pub fn on_value(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let advice = on_plain_value(value)?;
    let kind = value.get_type();
    let module = kind.getattr(intern!(value.py(), "__module__"))?;
    // Types of Python itself are seldom registered, and need functions.
    let can_be_registered = module.ne("builtins")? && !names::of(&kind).starts_with("freezegun.");
    Ok(if can_be_registered {
        format!("{advice}; or register the class: {REGISTER}")
    } else {
        advice
    })
}

/// What to store in place of an object.
fn on_plain_value(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let kind = value.get_type();
    let name = names::of(&kind);
    if let Some(member) = of_member(value, codec::is_storable)? {
        return Ok(format!("{name}, an enum, which cannot be stored; store {member}"));
    }
    if let Some(base) = base_of(&kind)? {
        let base = names::of(&base);
        let advice = match base.as_str() {
            _ if name.starts_with("freezegun.") => {
                "to freeze the time in tests, use time-machine, which keeps the types".to_owned()
            }
            "datetime.datetime" | "datetime.date" | "datetime.time" => {
                format!("store its isoformat(), and read that with {base}.fromisoformat()")
            }
            "datetime.timedelta" => {
                "store its total_seconds(), and read that with datetime.timedelta(seconds=...)"
                    .to_owned()
            }
            _ => format!("if that is right, store {} of it", plain_form(&base)),
        };
        return Ok(format!(
            "{name}, a subclass of {base}, and would come back as a plain {base}; {advice}"
        ));
    }
    let advice = match name.as_str() {
        "memoryview" | "mmap.mmap" => "store bytes(...) of it",
        "range" | "dict_keys" | "dict_values" | "dict_items" | "collections.deque" => {
            "store list(...) of it"
        }
        "mappingproxy" => "store dict(...) of it",
        _ if has(&kind, "__dataclass_fields__")? => "store dataclasses.asdict(...) of it",
        _ if has(&kind, "model_dump")? => "store its model_dump()",
        _ if has(&kind, "__fspath__")? => "store os.fspath(...) of it",
        _ if has(&kind, "tolist")? && has(&kind, "__len__")? => "store its tolist()",
        _ if has(&kind, "__next__")? => "store list(...) of it",
        _ => {
            return Ok(format!(
            "{name}, which cannot be stored; values are {VALUE_TYPES}: convert it to one of these"
        ))
        }
    };
    Ok(format!("{name}, which cannot be stored; {advice}"))
}

/// What to use as a key in place of an object of this type.
pub fn on_key(key: &Bound<'_, PyAny>) -> PyResult<String> {
    let kind = key.get_type();
    if let Some(member) = of_member(key, is_plain_key)? {
        return Ok(format!("use {member}"));
    }
    let advice = match names::of(&kind).as_str() {
        "NoneType" => "use a string that stands for it",
        "float" => "use an int, or its repr()",
        "list" => "use a tuple",
        "set" | "frozenset" => "use tuple(sorted(...)) of it",
        "dict" => "use a tuple of its items",
        "bytearray" | "memoryview" => "use bytes(...) of it",
        "decimal.Decimal" | "uuid.UUID" => "use str(...) of it",
        "datetime.datetime" | "datetime.date" | "datetime.time" => "use its isoformat()",
        _ if has(&kind, "__fspath__")? => "use os.fspath(...) of it",
        _ => "use a str or a tuple that identifies it",
    };
    Ok(advice.to_owned())
}

/// What to use as a key in place of an instance of a subclass of `base`.
pub fn on_key_of_subclass(key: &Bound<'_, PyAny>, base: &Bound<'_, PyType>) -> PyResult<String> {
    let member = of_member(key, is_plain_key)?;
    Ok(member.unwrap_or_else(|| format!("{} of it", plain_form(&names::of(base)))))
}

/// The call that makes a plain object from an instance of a subclass. `str(...)` can return the
/// same object, or the name of an enum member.
fn plain_form(base: &str) -> String {
    match base {
        "str" => "str.__str__(...)".into(),
        "uuid.UUID" => "uuid.UUID(str(...))".into(),
        _ => format!("{base}(...)"),
    }
}

/// What stands for a member of an enum: its value, or its name if the value cannot be used.
fn of_member(
    object: &Bound<'_, PyAny>,
    can_be_used: impl Fn(&Bound<'_, PyAny>) -> bool,
) -> PyResult<Option<String>> {
    static ENUM: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = object.py();
    let kind = object.get_type();
    if !kind.is_subclass(ENUM.import(py, "enum", "Enum")?)? {
        return Ok(None);
    }
    let name = kind.name()?;
    let value = object.getattr(intern!(py, "value"));
    Ok(Some(if value.is_ok_and(|value| can_be_used(&value)) {
        format!("its .value, and make the member from it with {name}(...)")
    } else {
        format!("its .name, and make the member from it with {name}[...]")
    }))
}

/// Whether a value can be a key. Does not look into tuples, which could contain the member again.
fn is_plain_key(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBytes>()
}

fn has(kind: &Bound<'_, PyType>, name: &str) -> PyResult<bool> {
    kind.hasattr(name)
}

/// The type that can be stored of which `kind` is a subclass.
fn base_of<'py>(kind: &Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyType>>> {
    let py = kind.py();
    let bases = [
        py.get_type::<PyString>(),
        py.get_type::<PyInt>(),
        py.get_type::<PyFloat>(),
        py.get_type::<PyBytes>(),
        py.get_type::<PyByteArray>(),
        py.get_type::<PyDict>(),
        py.get_type::<PyList>(),
        py.get_type::<PyTuple>(),
        py.get_type::<PySet>(),
        py.get_type::<PyFrozenSet>(),
        py.get_type::<PyDateTime>(),
        py.get_type::<PyDate>(),
        py.get_type::<PyTime>(),
        py.get_type::<PyDelta>(),
        imported::decimal(py)?.clone(),
        imported::uuid(py)?.clone(),
    ];
    for base in bases {
        // Not `isinstance`: it uses `__class__`, which may lie or raise.
        if kind.is_subclass(&base)? {
            return Ok(Some(base));
        }
    }
    Ok(None)
}
