//! Decoding of values. The bytes may be arbitrary: what is not a valid item is an error, and the
//! memory allocated is proportional to the length of the bytes.

use std::cell::Cell;

use pyo3::exceptions::{PyArithmeticError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    IntoPyDict, PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyFrozenSet, PyList, PySet,
    PyString, PyTuple,
};
use tuckbox_engine::Value;

use super::whole::decode_compressed;
use super::{code, imported, moments, DEPTH_MAX};
use crate::errors::classes::EntryCorrupt;
use crate::errors::Quick;
use crate::objects::{Entry, Objects};
use crate::{ending, keys, varint, waiter};

/// Decodes the value of an entry, which is only looked at if the value is not plain.
///
/// # Errors
/// `EntryCorrupt` if the bytes are not an encoded value, or may not be decoded.
#[inline(always)]
pub fn decode<'py, 'e>(
    py: Python<'py>,
    value: Value<'_>,
    entry: impl FnOnce() -> Entry<'e>,
) -> Quick<Bound<'py, PyAny>> {
    match value {
        Value::Bytes { tag: code::BYTES, bytes } => Ok(PyBytes::new(py, bytes).into_any()),
        Value::Bytes { tag: code::STR, bytes } => decode_str(py, bytes),
        Value::Bytes { tag, bytes } => decode_other(py, tag, bytes, entry()),
        Value::Int(number) => decode_int(py, number),
    }
}

#[inline(never)]
fn decode_int(py: Python<'_>, number: i64) -> Quick<Bound<'_, PyAny>> {
    Ok(number.into_pyobject(py).map_err(PyErr::from)?.into_any())
}

#[inline(never)]
fn decode_str<'py>(py: Python<'py>, bytes: &[u8]) -> Quick<Bound<'py, PyAny>> {
    let text = PyString::from_bytes(py, bytes).map(Bound::into_any);
    text.map_err(|error| as_corrupt(py, error).into())
}

#[inline(never)]
fn decode_other<'py>(
    py: Python<'py>,
    tag: u8,
    bytes: &[u8],
    entry: Entry<'_>,
) -> Quick<Bound<'py, PyAny>> {
    match (tag, entry.objects) {
        (code::PICKLED..=code::COMPRESSED, None) => Err(corrupt("it is no plain value").into()),
        // The exceptions of a codec, and of a pickle, are those of the user's own code.
        (code::PICKLED..=code::CUSTOM, Some(objects)) => Ok(objects.decode(py, tag, bytes, entry)?),
        (code::COMPRESSED, Some(objects)) => decode_compressed(py, bytes, objects, entry),
        (_, objects) => Ok(decode_item(py, tag, bytes, objects)?),
    }
}

fn decode_item<'py>(
    py: Python<'py>,
    tag: u8,
    bytes: &[u8],
    objects: Option<&Objects>,
) -> PyResult<Bound<'py, PyAny>> {
    let (rest, items_left) = (Cell::new(bytes), Cell::new(bytes.len()));
    let decoder = Decoder { rest, items_left, objects, raised: Cell::new(None) };
    match decoder.item_of(py, tag, 0) {
        Ok(value) if decoder.rest.get().is_empty() => Ok(value),
        Ok(_) => Err(corrupt("it has extra bytes at its end")),
        Err(error) => Err(decoder.raised.take().unwrap_or_else(|| as_corrupt(py, error))),
    }
}

/// Converts exceptions of Python about impossible values, such as month 13, to `EntryCorrupt`.
#[cold]
fn as_corrupt(py: Python<'_>, error: PyErr) -> PyErr {
    let is_damage = error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyArithmeticError>(py);
    if is_damage {
        corrupt(&error.value(py).to_string())
    } else {
        error
    }
}

#[cold]
pub fn corrupt(what: &str) -> PyErr {
    EntryCorrupt::new_err(format!(
        "a value cannot be decoded ({what}): another program or a newer version stored it, or it \
         is damaged; store it again, or delete it"
    ))
}

/// The bytes that are left to decode.
pub struct Decoder<'b> {
    rest: Cell<&'b [u8]>,
    /// How many more items all containers together may have. An item takes at least one byte, so
    /// nested containers cannot each claim all the bytes that are left.
    items_left: Cell<usize>,
    /// What knows the registered types.
    objects: Option<&'b Objects>,
    /// What it raised, to pass on as it is.
    raised: Cell<Option<PyErr>>,
}

/// Other threads may run once in this many items of a container: decoding needs the GIL.
const ITEMS_AT_ONCE: usize = 4096;

/// The next item, decoded when Python asks for it, so that a list is filled as it is decoded.
struct Next<'d, 'b> {
    decoder: &'d Decoder<'b>,
    depth: usize,
    index: usize,
}

impl<'py> IntoPyObject<'py> for Next<'_, '_> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    #[inline]
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let_others_run_at(py, self.index);
        self.decoder.item(py, self.depth)
    }
}

impl<'b> Decoder<'b> {
    /// Takes one byte.
    #[inline]
    pub fn byte(&self) -> PyResult<u8> {
        let (first, rest) = self.rest.get().split_first().ok_or_else(too_short)?;
        self.rest.set(rest);
        Ok(*first)
    }

    /// Takes some bytes.
    #[inline]
    fn take(&self, length: usize) -> PyResult<&'b [u8]> {
        let (taken, rest) = self.rest.get().split_at_checked(length).ok_or_else(too_short)?;
        self.rest.set(rest);
        Ok(taken)
    }

    /// Takes a fixed number of bytes.
    pub fn array<const N: usize>(&self) -> PyResult<[u8; N]> {
        let (taken, rest) = self.rest.get().split_first_chunk::<N>().ok_or_else(too_short)?;
        self.rest.set(rest);
        Ok(*taken)
    }

    #[inline]
    fn number(&self) -> PyResult<u64> {
        let mut rest = self.rest.get();
        let number = varint::take(&mut rest).ok_or_else(too_short)?;
        self.rest.set(rest);
        Ok(number)
    }

    /// Takes a length and as many bytes.
    fn leaf(&self) -> PyResult<&'b [u8]> {
        let length = usize::try_from(self.number()?).map_err(|_| too_short())?;
        self.take(length)
    }

    /// Takes a length and as many bytes of UTF-8.
    pub fn text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        PyString::from_bytes(py, self.leaf()?)
    }

    /// Takes the number of members of a container, each of which has `item_count` items.
    #[inline]
    fn count(&self, item_count: u64) -> PyResult<usize> {
        let count = self.number()?;
        let items = count.checked_mul(item_count).and_then(|items| usize::try_from(items).ok());
        let left = items.and_then(|items| self.items_left.get().checked_sub(items));
        self.items_left.set(left.ok_or_else(too_short)?);
        Ok(count as usize)
    }

    fn items(&self, count: usize, depth: usize) -> impl ExactSizeIterator<Item = Next<'_, 'b>> {
        (0..count).map(move |index| Next { decoder: self, depth: depth + 1, index })
    }

    fn item<'py>(&self, py: Python<'py>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let code = self.byte()?;
        match code {
            code::SMALL_INT.. => Ok((code - code::SMALL_INT).into_pyobject(py)?.into_any()),
            code::SHORT_STR.. => {
                let content = self.take(usize::from(code - code::SHORT_STR))?;
                Ok(PyString::from_bytes(py, content)?.into_any())
            }
            _ => self.item_of(py, code, depth),
        }
    }

    /// Decodes the rest of an item whose code was taken. It is nested in `depth` containers.
    fn item_of<'py>(&self, py: Python<'py>, code: u8, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let is_container = matches!(code, code::LIST..=code::FROZENSET | code::REGISTERED);
        if is_container && depth == DEPTH_MAX {
            return Err(corrupt("its containers are nested too deeply"));
        }
        match code {
            code::NONE => Ok(py.None().into_bound(py)),
            code::FALSE => Ok(PyBool::new(py, false).to_owned().into_any()),
            code::TRUE => Ok(PyBool::new(py, true).to_owned().into_any()),
            code::INT => {
                let zigzag = self.number()?;
                let number = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
                Ok(number.into_pyobject(py)?.into_any())
            }
            code::FLOAT => Ok(PyFloat::new(py, f64::from_le_bytes(self.array()?)).into_any()),
            code::STR => Ok(self.text(py)?.into_any()),
            code::BYTES => Ok(PyBytes::new(py, self.leaf()?).into_any()),
            code::LIST => {
                let count = self.count(1)?;
                Ok(PyList::new(py, self.items(count, depth))?.into_any())
            }
            code::TUPLE => {
                let count = self.count(1)?;
                Ok(PyTuple::new(py, self.items(count, depth))?.into_any())
            }
            code::DICT => self.dict(py, depth),
            code::BIG_INT => keys::big_int_from_bytes(py, self.leaf()?),
            code::STR_SURROGATES => keys::surrogates_from_bytes(py, self.leaf()?),
            code::BYTEARRAY => Ok(PyByteArray::new(py, self.leaf()?).into_any()),
            code::SET => {
                let count = self.count(1)?;
                let set = PySet::new(py, self.items(count, depth))?;
                distinct(set.len(), count)?;
                Ok(set.into_any())
            }
            code::FROZENSET => {
                let count = self.count(1)?;
                let set = PyFrozenSet::new(py, self.items(count, depth))?;
                distinct(set.len(), count)?;
                Ok(set.into_any())
            }
            code::DATETIME => moments::take_datetime(py, self),
            code::DATE => moments::take_date(py, self),
            code::TIME => moments::take_time(py, self),
            code::TIMEDELTA => Ok(moments::take_delta(py, self)?.into_any()),
            code::DECIMAL => imported::decimal(py)?.call1((self.text(py)?,)),
            code::UUID => self.uuid(py),
            code::REGISTERED => self.registered(py, depth),
            _ => Err(corrupt("this version does not know its type")),
        }
    }

    /// Decodes an object of a registered type.
    fn registered<'py>(&self, py: Python<'py>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let name = self.text(py)?;
        let objects = self.objects.ok_or_else(|| corrupt("it is no plain value"))?;
        let pass_on = |error: PyErr| {
            self.raised.set(Some(error));
            too_short()
        };
        let make = objects.maker(&name).map_err(pass_on)?;
        let _inside = ending::enter(name.py());
        let state = self.item(py, depth + 1)?;
        make.call1((state,)).map_err(pass_on)
    }

    fn dict<'py>(&self, py: Python<'py>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let count = self.count(2)?;
        let dict = PyDict::new(py);
        for index in 0..count {
            let_others_run_at(py, index);
            let key = self.item(py, depth + 1)?;
            let value = self.item(py, depth + 1)?;
            dict.set_item(key, value)?;
        }
        distinct(dict.len(), count)?;
        Ok(dict.into_any())
    }

    fn uuid<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let number = u128::from_be_bytes(self.array()?);
        let arguments = [(intern!(py, "int"), number.into_pyobject(py)?.into_any())];
        let arguments = arguments.into_py_dict(py)?;
        let safe = match self.byte()? {
            0 => None,
            1 => Some(0),
            2 => Some(-1),
            _ => return Err(corrupt("the is_safe value of a UUID is invalid")),
        };
        if let Some(safe) = safe {
            let safe = imported::safe_uuid(py)?.call1((safe,))?;
            arguments.set_item(intern!(py, "is_safe"), safe)?;
        }
        imported::uuid(py)?.call((), Some(&arguments))
    }
}

#[inline(always)]
fn let_others_run_at(py: Python<'_>, index: usize) {
    if index % ITEMS_AT_ONCE == ITEMS_AT_ONCE - 1 {
        waiter::let_others_run(py);
    }
}

#[cold]
fn too_short() -> PyErr {
    corrupt("it ends too early")
}

/// Refuses equal keys or members, which are never written.
fn distinct(length: usize, count: usize) -> PyResult<()> {
    if length == count {
        return Ok(());
    }
    Err(corrupt("it has the same key or member twice"))
}
