//! Encoding of values.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyFrozenSet, PyInt,
    PyList, PySet, PyString, PyTime, PyTuple, PyType,
};
use tuckbox_engine::Value;

use super::{code, imported, moments, DEPTH_MAX};
use crate::errors::classes::{ValueTooLarge, ValueTypeError};
use crate::{keys, names, varint};

const TYPES: &str = "None, bool, int, float, str, bytes, bytearray, list, tuple, dict, set, \
                     frozenset, datetime, date, time, timedelta, Decimal and UUID";

/// Returns a value that needs no encoding: a plain `bytes`, `str` or 64-bit `int`.
#[inline(always)]
pub fn encode_plain<'a>(value: &'a Bound<'_, PyAny>) -> Option<Value<'a>> {
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        return Some(Value::Bytes { tag: code::BYTES, bytes: bytes.as_bytes() });
    }
    if let Ok(text) = value.cast_exact::<PyString>() {
        let text = text.to_str().ok()?;
        return Some(Value::Bytes { tag: code::STR, bytes: text.as_bytes() });
    }
    let number = value.cast_exact::<PyInt>().ok()?;
    Some(Value::Int(number.extract().ok()?))
}

/// Encodes any other value into `bytes`, using at most `bytes_max`.
///
/// # Errors
/// `ValueTypeError` for unsupported types, `ValueTooLarge`, and `RuntimeError` if another thread
/// changes a container meanwhile.
pub fn encode<'b>(
    value: &Bound<'_, PyAny>,
    bytes_max: usize,
    bytes: &'b mut Vec<u8>,
) -> PyResult<Value<'b>> {
    bytes.clear();
    match (Encoder { bytes, bytes_max }).item(value, None) {
        Ok(()) => Ok(encoded(bytes)),
        Err(refusal) => Err(refusal.raised()),
    }
}

/// Returns the value that [`encode`] wrote into `bytes`.
pub fn encoded(bytes: &[u8]) -> Value<'_> {
    Value::Bytes { tag: bytes[0], bytes: &bytes[1..] }
}

struct Encoder<'s> {
    bytes: &'s mut Vec<u8>,
    bytes_max: usize,
}

/// A container that is being encoded, and the containers around it.
struct Level<'l> {
    address: usize,
    depth: usize,
    outer: Option<&'l Level<'l>>,
}

impl<'l> Level<'l> {
    fn enter(container: &Bound<'_, PyAny>, outer: Option<&'l Level<'l>>) -> Done<Level<'l>> {
        let address = container.as_ptr() as usize;
        let depth = outer.map_or(1, |level| level.depth + 1);
        if depth <= DEPTH_MAX {
            return Ok(Level { address, depth, outer });
        }
        // A cycle always reaches the maximum depth, so it is enough to look for one here.
        let mut level = outer;
        while let Some(other) = level {
            if other.address == address {
                return Err(Refusal::of(Cause::Cycle(names::of_type(container))));
            }
            level = other.outer;
        }
        Err(Refusal::of(Cause::TooDeep))
    }
}

type Done<T = ()> = Result<T, Box<Refusal>>;

impl Encoder<'_> {
    fn item(&mut self, value: &Bound<'_, PyAny>, outer: Option<&Level<'_>>) -> Done {
        if let Ok(text) = value.cast_exact::<PyString>() {
            self.text(text)
        } else if let Ok(number) = value.cast_exact::<PyInt>() {
            self.int(number)
        } else if value.is_none() {
            self.bytes.push(code::NONE);
            Ok(())
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            self.bytes.push(code::FLOAT);
            self.bytes.extend_from_slice(&number.value().to_le_bytes());
            Ok(())
        } else if let Ok(truth) = value.cast_exact::<PyBool>() {
            self.bytes.push(if truth.is_true() { code::TRUE } else { code::FALSE });
            Ok(())
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.dict(dict, &Level::enter(value, outer)?)
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.list(list, &Level::enter(value, outer)?)
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            let level = Level::enter(value, outer)?;
            self.header(code::TUPLE, tuple.len());
            for (index, item) in tuple.iter_borrowed().enumerate() {
                self.item(&item, Some(&level)).map_err(|refusal| refusal.at_index(index))?;
            }
            self.check_length()
        } else if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            self.leaf(code::BYTES, bytes.as_bytes())
        } else {
            self.other(value, outer)
        }
    }

    /// Encodes the less frequent types.
    fn other(&mut self, value: &Bound<'_, PyAny>, outer: Option<&Level<'_>>) -> Done {
        let py = value.py();
        if let Ok(set) = value.cast_exact::<PySet>() {
            self.members(code::SET, value, set.len(), &Level::enter(value, outer)?)
        } else if let Ok(set) = value.cast_exact::<PyFrozenSet>() {
            self.members(code::FROZENSET, value, set.len(), &Level::enter(value, outer)?)
        } else if let Ok(array) = value.cast_exact::<PyByteArray>() {
            self.check_room(array.len())?;
            self.leaf(code::BYTEARRAY, &array.to_vec())
        } else if let Ok(moment) = value.cast_exact::<PyDateTime>() {
            self.bytes.push(code::DATETIME);
            moments::append_datetime(moment, self.bytes).map_err(Refusal::of_moment)
        } else if let Ok(date) = value.cast_exact::<PyDate>() {
            self.bytes.push(code::DATE);
            moments::append_date(date, self.bytes);
            Ok(())
        } else if let Ok(time) = value.cast_exact::<PyTime>() {
            self.bytes.push(code::TIME);
            moments::append_time(time, self.bytes).map_err(Refusal::of_moment)
        } else if let Ok(delta) = value.cast_exact::<PyDelta>() {
            self.bytes.push(code::TIMEDELTA);
            moments::append_delta(delta, self.bytes);
            Ok(())
        } else if value.is_exact_instance(imported::decimal(py)?) {
            self.leaf(code::DECIMAL, value.str()?.to_str()?.as_bytes())
        } else if value.is_exact_instance(imported::uuid(py)?) {
            self.uuid(value)
        } else {
            Err(Refusal::of(Cause::Type { name: names::of_type(value), base: base_of(value)? }))
        }
    }

    fn text(&mut self, text: &Bound<'_, PyString>) -> Done {
        let Ok(content) = text.to_str() else {
            self.check_room(text.len()?)?;
            return self.leaf(code::STR_SURROGATES, keys::surrogates_to_bytes(text)?.as_bytes());
        };
        if content.len() < usize::from(code::SMALL_INT - code::SHORT_STR) {
            self.bytes.push(code::SHORT_STR + content.len() as u8);
            self.bytes.extend_from_slice(content.as_bytes());
            return Ok(());
        }
        self.leaf(code::STR, content.as_bytes())
    }

    fn int(&mut self, number: &Bound<'_, PyInt>) -> Done {
        match number.extract::<i64>() {
            Ok(small @ 0..=63) => self.bytes.push(code::SMALL_INT + small as u8),
            Ok(number) => {
                self.bytes.push(code::INT);
                varint::append(self.bytes, ((number << 1) ^ (number >> 63)) as u64);
            }
            Err(_) => {
                self.check_room(keys::big_int_len_bytes(number)?)?;
                let digits = keys::big_int_to_bytes(number)?;
                self.leaf(code::BIG_INT, digits.as_bytes())?;
            }
        }
        Ok(())
    }

    fn list(&mut self, list: &Bound<'_, PyList>, level: &Level<'_>) -> Done {
        let count = list.len();
        self.header(code::LIST, count);
        for index in 0..count {
            // Another thread may have made the list shorter: encoding a decimal or a time zone runs
            // Python code.
            let Ok(item) = list.get_item(index) else { return Err(Refusal::of(Cause::Changed)) };
            self.item(&item, Some(level)).map_err(|refusal| refusal.at_index(index))?;
        }
        self.check_length()
    }

    fn dict(&mut self, dict: &Bound<'_, PyDict>, level: &Level<'_>) -> Done {
        let count = dict.len();
        self.header(code::DICT, count);
        let mut pairs = dict.iter();
        for _ in 0..count {
            // The iterator panics if the length of the dict has changed.
            let pair = if dict.len() == count { pairs.next() } else { None };
            let Some((key, value)) = pair else { return Err(Refusal::of(Cause::Changed)) };
            self.item(&key, Some(level)).map_err(|refusal| refusal.at(" key ", &key))?;
            self.item(&value, Some(level)).map_err(|refusal| refusal.at_key(&key))?;
        }
        self.check_length()
    }

    fn members(
        &mut self,
        code: u8,
        set: &Bound<'_, PyAny>,
        count: usize,
        level: &Level<'_>,
    ) -> Done {
        self.header(code, count);
        let mut written = 0;
        // Python's iterator raises an exception if the set changes.
        for member in set.try_iter()? {
            let Ok(member) = member else { return Err(Refusal::of(Cause::Changed)) };
            self.item(&member, Some(level)).map_err(|refusal| refusal.at(" member ", &member))?;
            written += 1;
        }
        if written != count {
            return Err(Refusal::of(Cause::Changed));
        }
        self.check_length()
    }

    fn uuid(&mut self, value: &Bound<'_, PyAny>) -> Done {
        let py = value.py();
        let number: u128 = value.getattr(intern!(py, "int"))?.extract()?;
        let safe: Option<i64> =
            value.getattr(intern!(py, "is_safe"))?.getattr(intern!(py, "value"))?.extract()?;
        self.bytes.push(code::UUID);
        self.bytes.extend_from_slice(&number.to_be_bytes());
        self.bytes.push(match safe {
            None => 0,
            Some(0) => 1,
            Some(_) => 2,
        });
        Ok(())
    }

    #[inline]
    fn header(&mut self, code: u8, count: usize) {
        self.bytes.push(code);
        varint::append(self.bytes, count as u64);
    }

    fn leaf(&mut self, code: u8, content: &[u8]) -> Done {
        self.header(code, content.len());
        self.check_room(content.len())?;
        self.bytes.extend_from_slice(content);
        self.check_length()
    }

    /// Raises `ValueTooLarge` before content that is too long is copied.
    #[inline]
    fn check_room(&self, len_bytes: usize) -> Done {
        if len_bytes <= self.bytes_max {
            return Ok(());
        }
        Err(Refusal::of(Cause::TooLarge { bytes_max: self.bytes_max }))
    }

    /// Raises `ValueTooLarge` early: a small container can contain another one many times, and so
    /// have a long encoding.
    #[inline]
    fn check_length(&self) -> Done {
        if self.bytes.len() <= self.bytes_max {
            return Ok(());
        }
        Err(Refusal::of(Cause::TooLarge { bytes_max: self.bytes_max }))
    }
}

/// Why a value cannot be encoded.
enum Cause {
    Type { name: String, base: Option<String> },
    TimeZone(String),
    Cycle(String),
    TooDeep,
    TooLarge { bytes_max: usize },
    Changed,
    Raised(PyErr),
}

/// A cause, and where in the value it was found, from the innermost container outwards.
struct Refusal {
    cause: Cause,
    place: Vec<String>,
}

impl Refusal {
    #[cold]
    fn of(cause: Cause) -> Box<Refusal> {
        Box::new(Refusal { cause, place: Vec::new() })
    }

    fn of_moment(refusal: moments::Refusal) -> Box<Refusal> {
        Refusal::of(match refusal {
            moments::Refusal::TimeZone(name) => Cause::TimeZone(name),
            moments::Refusal::Raised(error) => Cause::Raised(error),
        })
    }

    fn at_index(mut self: Box<Refusal>, index: usize) -> Box<Refusal> {
        self.place.push(format!("[{index}]"));
        self
    }

    fn at_key(mut self: Box<Refusal>, key: &Bound<'_, PyAny>) -> Box<Refusal> {
        self.place.push(format!("[{}]", names::of_object(key)));
        self
    }

    fn at(mut self: Box<Refusal>, what: &str, object: &Bound<'_, PyAny>) -> Box<Refusal> {
        self.place.push(format!("{what}{}", names::of_object(object)));
        self
    }

    #[cold]
    fn raised(self) -> PyErr {
        let mut place = String::from("value");
        place.extend(self.place.iter().rev().map(String::as_str));
        match self.cause {
            Cause::Type { name, base: None } => ValueTypeError::new_err(format!(
                "{place} is of type {name}, which cannot be stored; values are {TYPES}"
            )),
            Cause::Type { name, base: Some(base) } => ValueTypeError::new_err(format!(
                "{place} is of type {name}, a subclass of {base}, and would come back as a plain \
                 {base}; if that is right, store {base}(...) of it"
            )),
            Cause::TimeZone(name) => ValueTypeError::new_err(format!(
                "{place} has a time zone of type {name}, which cannot be stored; use a \
                 datetime.timezone, or a zoneinfo.ZoneInfo with a key"
            )),
            Cause::Cycle(name) => ValueTypeError::new_err(format!(
                "{} is a {name} that contains itself, which cannot be stored; remove the cycle",
                shortened(&place)
            )),
            Cause::TooDeep => ValueTypeError::new_err(format!(
                "{} is nested more than {DEPTH_MAX} containers deep; flatten the value",
                shortened(&place)
            )),
            Cause::TooLarge { bytes_max } => ValueTooLarge::new_err(format!(
                "value is too long: the limit of this cache is {bytes_max} bytes; create the cache \
                 with a larger size, or store less"
            )),
            Cause::Changed => pyo3::exceptions::PyRuntimeError::new_err(format!(
                "{place} was changed by another thread while it was being stored; nothing was \
                 stored: store a copy, or hold a lock of your own"
            )),
            Cause::Raised(error) => error,
        }
    }
}

impl From<PyErr> for Box<Refusal> {
    fn from(error: PyErr) -> Box<Refusal> {
        Refusal::of(Cause::Raised(error))
    }
}

fn shortened(place: &str) -> String {
    const LENGTH_MAX: usize = 80;
    if place.len() <= LENGTH_MAX {
        return place.to_owned();
    }
    place.chars().take(LENGTH_MAX).chain("...".chars()).collect()
}

/// Returns the storable type of which the value's type is a subclass.
fn base_of(value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let py = value.py();
    let bases: [Bound<'_, PyType>; 16] = [
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
    let kind = value.get_type();
    for base in bases {
        // Not `isinstance`: it uses `__class__`, which may lie or raise.
        if kind.is_subclass(&base)? {
            return Ok(Some(names::of(&base)));
        }
    }
    Ok(None)
}
