//! Encoding of values.

use pyo3::buffer::PyBuffer;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyFrozenSet, PyInt,
    PyList, PyMemoryView, PySet, PyString, PyTime, PyTuple,
};
use tuckbox_engine::Value;

use super::refusal::{Cause, Refusal};
use super::{code, imported, moments, DEPTH_MAX};
use crate::objects::Objects;
use crate::{keys, names, numbers, varint};

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

/// What a cache accepts.
#[derive(Clone, Copy)]
pub struct Rules<'o> {
    /// The longest value, in bytes.
    pub bytes_max: usize,
    /// Whether to refuse numbers of other libraries, which come back as plain ones.
    pub is_exact: bool,
    /// What knows the registered types.
    pub objects: Option<&'o Objects>,
}

/// Encodes any other value into `bytes`.
///
/// # Errors
/// A [`Refusal`] of unsupported types, of too long values, and of containers that another thread
/// changes meanwhile.
pub fn encode<'b>(
    value: &Bound<'_, PyAny>,
    rules: Rules<'_>,
    bytes: &'b mut Vec<u8>,
) -> Result<Value<'b>, Box<Refusal>> {
    bytes.clear();
    let mut encoder = Encoder { bytes, rules, members_around: 0, is_state: false, number: None };
    encoder.item(value, None)?;
    let Encoder { bytes, number, .. } = encoder;
    Ok(match number {
        Some(number) => Value::Int(number),
        None => encoded(bytes),
    })
}

/// Whether a value can be stored in a cache that is large enough.
pub fn is_storable(value: &Bound<'_, PyAny>) -> bool {
    let rules = Rules { bytes_max: usize::MAX, is_exact: false, objects: None };
    encode(value, rules, &mut Vec::new()).is_ok()
}

/// Returns the value that [`encode`] wrote into `bytes`, unless it returned a number.
pub fn encoded(bytes: &[u8]) -> Value<'_> {
    Value::Bytes { tag: bytes[0], bytes: &bytes[1..] }
}

/// Appends a `str` as an item.
#[inline]
pub fn append_text(bytes: &mut Vec<u8>, content: &str) {
    if content.len() < usize::from(code::SMALL_INT - code::SHORT_STR) {
        bytes.push(code::SHORT_STR + content.len() as u8);
    } else {
        bytes.push(code::STR);
        varint::append(bytes, content.len() as u64);
    }
    bytes.extend_from_slice(content.as_bytes());
}

/// Appends an `int` as an item.
#[inline]
pub fn append_int(bytes: &mut Vec<u8>, number: i64) {
    match number {
        0..=63 => bytes.push(code::SMALL_INT + number as u8),
        _ => {
            bytes.push(code::INT);
            varint::append(bytes, ((number << 1) ^ (number >> 63)) as u64);
        }
    }
}

/// Appends a `float` as an item.
#[inline]
pub fn append_float(bytes: &mut Vec<u8>, number: f64) {
    bytes.push(code::FLOAT);
    bytes.extend_from_slice(&number.to_le_bytes());
}

struct Encoder<'s, 'o> {
    bytes: &'s mut Vec<u8>,
    rules: Rules<'o>,
    /// In how many dict keys and set members the item is nested.
    members_around: usize,
    /// Whether the item is in the state of a registered object, which may have memoryviews.
    is_state: bool,
    /// The whole value, if it is a number of the engine.
    number: Option<i64>,
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

/// A result of the encoder.
type Done<T = ()> = Result<T, Box<Refusal>>;

impl Encoder<'_, '_> {
    fn item(&mut self, value: &Bound<'_, PyAny>, outer: Option<&Level<'_>>) -> Done {
        if let Ok(text) = value.cast_exact::<PyString>() {
            self.text(text)
        } else if let Ok(number) = value.cast_exact::<PyInt>() {
            self.int(number)
        } else if value.is_none() {
            self.bytes.push(code::NONE);
            Ok(())
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            append_float(self.bytes, number.value());
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
        } else if let Some((name, state)) = self.state_of(value)? {
            let level = Level::enter(value, outer)?;
            self.leaf(code::REGISTERED, name.to_str()?.as_bytes())?;
            let was_state = std::mem::replace(&mut self.is_state, true);
            let done = self.item(&state, Some(&level));
            self.is_state = was_state;
            done
        } else if let (Ok(view), true) = (value.cast_exact::<PyMemoryView>(), self.is_state) {
            self.memory(view)
        } else {
            match self.plain(value)? {
                Some(plain) if outer.is_none() => self.whole(&plain),
                Some(plain) => self.item(&plain, outer),
                None => Err(Refusal::of(Cause::Type(value.clone().unbind()))),
            }
        }
    }

    /// The name and the state of an object of a registered type.
    fn state_of<'py>(
        &self,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Bound<'py, PyString>, Bound<'py, PyAny>)>> {
        self.rules.objects.map_or(Ok(None), |objects| objects.state(value))
    }

    /// Encodes the memory of an object as a `bytearray`, so that what is made of it can be changed.
    fn memory(&mut self, view: &Bound<'_, PyMemoryView>) -> Done {
        let memory = PyBuffer::<u8>::get(view.as_any())?;
        let length = memory.len_bytes();
        self.check_room(length)?;
        self.header(code::BYTEARRAY, length);
        let start = self.bytes.len();
        self.bytes.resize(start + length, 0);
        memory.copy_to_slice(view.py(), &mut self.bytes[start..])?;
        self.check_length()
    }

    /// Encodes the plain object that stands for the whole value.
    fn whole(&mut self, plain: &Bound<'_, PyAny>) -> Done {
        match encode_plain(plain) {
            Some(Value::Int(number)) => self.number = Some(number),
            Some(Value::Bytes { tag, bytes }) => {
                self.check_room(bytes.len())?;
                self.bytes.push(tag);
                self.bytes.extend_from_slice(bytes);
            }
            None => self.item(plain, None)?,
        }
        Ok(())
    }

    /// The plain object that is stored in place of a number of another library.
    fn plain<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.rules.is_exact {
            return Ok(None);
        }
        let Some(plain) = numbers::plain(value)? else { return Ok(None) };
        // A dict with two keys that become one could not be decoded.
        let is_equal = || PyResult::Ok(value.hash()? == plain.hash()? && value.eq(&plain)?);
        Ok(if self.members_around == 0 || is_equal()? { Some(plain) } else { None })
    }

    /// Encodes a dict key or a set member.
    fn member(&mut self, member: &Bound<'_, PyAny>, level: &Level<'_>) -> Done {
        self.members_around += 1;
        let done = self.item(member, Some(level));
        self.members_around -= 1;
        done
    }

    fn text(&mut self, text: &Bound<'_, PyString>) -> Done {
        let Ok(content) = text.to_str() else {
            self.check_room(text.len()?)?;
            return self.leaf(code::STR_SURROGATES, keys::surrogates_to_bytes(text)?.as_bytes());
        };
        self.check_room(content.len())?;
        append_text(self.bytes, content);
        self.check_length()
    }

    fn int(&mut self, number: &Bound<'_, PyInt>) -> Done {
        match number.extract::<i64>() {
            Ok(number) => append_int(self.bytes, number),
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
            self.member(&key, level).map_err(|refusal| refusal.at(" key ", &key))?;
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
            self.member(&member, level).map_err(|refusal| refusal.at(" member ", &member))?;
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
        if len_bytes <= self.rules.bytes_max {
            return Ok(());
        }
        Err(Refusal::of(Cause::TooLarge { bytes_max: self.rules.bytes_max }))
    }

    /// Raises `ValueTooLarge` early: a small container can contain another one many times, and so
    /// have a long encoding.
    #[inline]
    fn check_length(&self) -> Done {
        if self.bytes.len() <= self.rules.bytes_max {
            return Ok(());
        }
        Err(Refusal::of(Cause::TooLarge { bytes_max: self.rules.bytes_max }))
    }
}
