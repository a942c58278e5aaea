//! The stripped programs: only those parts of a get or a set that no shared cache can avoid. A goal
//! that they miss is out of reach. Their distance from Tuckbox is the cost of its promises.
//!
//! A [`Reader`] hashes a key with a secret, finds its slot, and copies the value into a new bytes
//! object. It compares no key, verifies nothing, counts nothing, and ignores other processes and
//! time. A [`Writer`] hashes, finds the slot, takes a free lock, and overwrites a value of the same
//! size. A [`Holder`] finds an object by the address of its key, loads one word of the key's slot and
//! one of its record, and returns the object. A [`Verifier`] gets as a [`Reader`] does, and compares the
//! key and verifies the record's checksum. A [`Keeper`] stores many entries at once: it compares each
//! key, and writes records with checksums. Programs that take many entries prefetch them. CPython
//! calls all of them through the product's own code. [`read_clock`] is the least that a ttl adds to a get.

use std::ffi::CStr;
use std::hash::Hasher;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Mutex;
use std::time::Instant;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use twox_hash::XxHash3_64;

mod errors {
    //! What [`crate::fastcall`] needs: how a method fails.

    /// The result of a method.
    pub type Quick<T> = pyo3::PyResult<T>;
}
#[path = "../../../crates/python/src/fastcall.rs"]
#[allow(unsafe_code, clippy::useless_conversion, reason = "the product's own, as it is")]
mod fastcall;

#[path = "../../../crates/python/src/names.rs"]
#[allow(dead_code, reason = "the product's own, as it is")]
mod names;

use fastcall::{Argument, Method};

#[path = "../../../crates/arena/src/products.rs"]
#[allow(unsafe_code, reason = "the product's own, as it is")]
mod products;

#[path = "../../../crates/arena/src/sum.rs"]
#[allow(unsafe_code, dead_code, missing_docs, reason = "the product's own, as it is")]
mod sum;

const SECRET: [u8; 192] = [0x5a; 192];
const ROWS: products::Key = [products::Row([0x5a5a_5a5a; 4]); 4];

/// Hashes a key as the product does, by a secret that is not random.
#[inline(always)]
fn hash(key: &[u8]) -> u64 {
    if !(products::LEN_MIN..=products::LEN_MAX).contains(&key.len()) {
        return XxHash3_64::oneshot_with_secret(&SECRET, key).expect("the secret is long enough");
    }
    let [first, second] = products::of(&ROWS, key);
    let product = u128::from(first) * u128::from(second ^ key.len() as u64);
    product as u64 ^ (product >> 64) as u64
}

/// Where a value lies, by a part of its key's hash. One word, so that few cache lines are needed.
#[derive(Clone, Copy, Default)]
struct Place {
    /// 0 marks a free place.
    tag: u32,
    start: u32,
}

/// A table with open addressing, at most half full.
struct Table {
    places: Box<[Place]>,
}

/// Entries whose memory is prefetched at once, and how much of each.
const WINDOW: usize = 16;
const PREFETCHED_BYTES: usize = 256;

/// Prefetches the beginning of some words or bytes.
#[allow(unsafe_code, reason = "the processor's instruction")]
fn prefetch<T>(from: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..PREFETCHED_BYTES.min(size_of_val(from))).step_by(64) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: the instruction takes any address and never fails.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.as_ptr().cast::<i8>().wrapping_add(at)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}

/// This much is still in the CPU cache when it is read a second time.
const NEAR_BYTES: usize = 16 << 10;

/// The length before each value.
const LENGTH_BYTES: usize = 4;

impl Table {
    fn tag_and_index(&self, key: &str) -> (u32, usize) {
        let hash = hash(key.as_bytes());
        ((hash >> 32) as u32 | 1, hash as usize & (self.places.len() - 1))
    }

    fn find(&self, key: &str) -> Option<usize> {
        let (tag, mut index) = self.tag_and_index(key);
        loop {
            let place = self.places[index];
            if place.tag == tag {
                return Some(place.start as usize);
            }
            if place.tag == 0 {
                return None;
            }
            index = (index + 1) & (self.places.len() - 1);
        }
    }

    /// A table of all keys of a dict of str to bytes. `keep` stores an entry and returns its place.
    fn of(
        entries: &Bound<'_, PyDict>,
        mut keep: impl FnMut(&str, &[u8]) -> PyResult<usize>,
    ) -> PyResult<Table> {
        let count = (2 * entries.len()).next_power_of_two();
        let mut table = Table { places: vec![Place::default(); count].into_boxed_slice() };
        for (key, value) in entries {
            let key = key.cast::<PyString>()?.to_str()?;
            let (tag, mut index) = table.tag_and_index(key);
            while table.places[index].tag != 0 {
                if table.places[index].tag == tag {
                    return Err(PyValueError::new_err("two keys have the same tag"));
                }
                index = (index + 1) & (count - 1);
            }
            let start = u32::try_from(keep(key, value.cast::<PyBytes>()?.as_bytes())?)?;
            table.places[index] = Place { tag, start };
        }
        Ok(table)
    }

    /// A table, and the values in one piece.
    fn with_values(entries: &Bound<'_, PyDict>) -> PyResult<(Table, Vec<u8>)> {
        let mut values = Vec::new();
        let table = Table::of(entries, |_key, value| {
            let start = values.len();
            values.extend_from_slice(&u32::try_from(value.len())?.to_ne_bytes());
            values.extend_from_slice(value);
            Ok(start)
        })?;
        Ok((table, values))
    }
}

/// The range of the value whose length is at `start`.
fn range(values: &[u8], start: usize) -> Range<usize> {
    let mut length = [0; LENGTH_BYTES];
    length.copy_from_slice(&values[start..start + LENGTH_BYTES]);
    let begin = start + LENGTH_BYTES;
    begin..begin + u32::from_ne_bytes(length) as usize
}

/// The stripped get.
#[pyclass(frozen, module = "_limits")]
pub struct Reader {
    table: Table,
    values: Vec<u8>,
}

#[pymethods]
impl Reader {
    #[new]
    fn new(entries: &Bound<'_, PyDict>) -> PyResult<Reader> {
        let (table, values) = Table::with_values(entries)?;
        Ok(Reader { table, values })
    }

    /// Copies of the values of `keys`, all of which must be present.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (found, keys) = (PyDict::new(py), keys.iter().collect::<Vec<_>>());
        for keys in keys.chunks(WINDOW) {
            let mut starts = [0; WINDOW];
            for (key, start) in keys.iter().zip(&mut starts) {
                let place = self.table.find(key.cast_exact::<PyString>()?.to_str()?);
                *start = place.ok_or_else(|| PyValueError::new_err("a key is missing"))?;
                prefetch(&self.values[*start..]);
            }
            for (key, start) in keys.iter().zip(starts) {
                let value = PyBytes::new(py, &self.values[range(&self.values, start)]);
                found.set_item(key, value)?;
            }
        }
        Ok(found)
    }
}

impl Reader {
    fn read<'py>(
        &self,
        py: Python<'py>,
        [key, default]: [Argument<'_, 'py>; 2],
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = key.ok_or_else(|| PyValueError::new_err("no key"))?;
        let start = self.table.find(key.cast_exact::<PyString>()?.to_str()?);
        Ok(match start {
            Some(start) => PyBytes::new(py, &self.values[range(&self.values, start)]).into_any(),
            None => or_none(py, default),
        })
    }
}

/// An object, its key, and where a file would have its slot and its record.
struct Held {
    key: Py<PyAny>,
    value: Py<PyAny>,
    slot: u32,
    start: u32,
}

/// The stripped get of an object that the process keeps.
#[pyclass(frozen, module = "_limits")]
pub struct Holder {
    table: Table,
    values: Vec<u8>,
    held: Vec<Held>,
    /// Positions in `held` plus one, by the addresses of the keys; 0 if free.
    positions: Vec<u32>,
}

#[pymethods]
impl Holder {
    #[new]
    fn new(entries: &Bound<'_, PyDict>) -> PyResult<Holder> {
        let (table, values) = Table::with_values(entries)?;
        let positions = vec![0; (2 * entries.len()).next_power_of_two()];
        let mut holder = Holder { table, values, held: Vec::new(), positions };
        for (key, value) in entries {
            let text = key.cast::<PyString>()?.to_str()?;
            let start = holder.table.find(text).ok_or_else(|| missing(text))? as u32;
            let is_it = |place: &Place| place.tag != 0 && place.start == start;
            let first = holder.table.tag_and_index(text).1;
            let behind = holder.table.places.iter().cycle().skip(first).position(is_it);
            let slot = (first + behind.unwrap_or(0)) & (holder.table.places.len() - 1);
            let mut at = holder.home(&key);
            while holder.positions[at] != 0 {
                at = (at + 1) & (holder.positions.len() - 1);
            }
            let (key, value) = (key.unbind(), value.unbind());
            holder.held.push(Held { key, value, slot: slot as u32, start });
            holder.positions[at] = holder.held.len() as u32;
        }
        Ok(holder)
    }
}

impl Holder {
    fn home(&self, key: &Bound<'_, PyAny>) -> usize {
        let hash = (key.as_ptr().addr() as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (self.positions.len() - 1)
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        [key, default]: [Argument<'_, 'py>; 2],
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = key.ok_or_else(|| PyValueError::new_err("no key"))?;
        let mut at = self.home(&key);
        while self.positions[at] != 0 {
            let held = &self.held[self.positions[at] as usize - 1];
            if held.key.is(&*key) {
                black_box(self.table.places[held.slot as usize]);
                black_box(self.values[held.start as usize]);
                return Ok(held.value.bind(py).clone());
            }
            at = (at + 1) & (self.positions.len() - 1);
        }
        Ok(or_none(py, default))
    }
}

fn or_none<'py>(py: Python<'py>, default: Argument<'_, 'py>) -> Bound<'py, PyAny> {
    default.map_or_else(|| py.None().into_bound(py), |given| given.to_owned())
}

/// A method of a class with these parameters, which CPython calls like the product's.
macro_rules! method {
    (
        $(#[$text:meta])* $name:ident, $called:literal, $required:literal of [$($parameter:literal),+],
        |$py:ident, $this:ident: &$class:ty, $arguments:ident| $work:expr
    ) => {
        $(#[$text])*
        struct $name;

        impl Method<$class, { [$($parameter),+].len() }> for $name {
            const NAME: &'static CStr = $called;
            const DOC: &'static CStr = c"";
            const PARAMETERS: [&'static str; [$($parameter),+].len()] = [$($parameter),+];
            const REQUIRED: usize = $required;

            #[inline(always)]
            fn call<'py>(
                $py: Python<'py>,
                $this: &Bound<'py, $class>,
                $arguments: [Argument<'_, 'py>; [$($parameter),+].len()],
            ) -> PyResult<Bound<'py, PyAny>> {
                let $this = $this.get();
                $work
            }
        }
    };
}

method!(
    /// A copy of the value of `key`, or `default`.
    Get, c"get", 1 of ["key", "default"],
    |py, this: &Reader, arguments| this.read(py, arguments)
);

method!(
    /// As [`Get`], and reads the clock, as an entry with an expiry needs.
    GetByTheClock, c"get_by_the_clock", 1 of ["key", "default"],
    |py, this: &Reader, arguments| {
        black_box(Instant::now());
        this.read(py, arguments)
    }
);

method!(
    /// As [`Get`], and computes a checksum of the copy.
    GetVerified, c"get_verified", 1 of ["key", "default"],
    |py, this: &Reader, arguments| {
        let found = this.read(py, arguments)?;
        if let Ok(copy) = found.cast::<PyBytes>() {
            black_box(XxHash3_64::oneshot(copy.as_bytes()));
        }
        Ok(found)
    }
);

method!(
    /// The object of `key`, or `default`.
    GetHeld, c"get", 1 of ["key", "default"],
    |py, this: &Holder, arguments| this.read(py, arguments)
);

/// The stripped set, which overwrites a value of the same size.
#[pyclass(frozen, module = "_limits")]
pub struct Writer {
    table: Table,
    values: Mutex<Vec<u8>>,
}

#[pymethods]
impl Writer {
    #[new]
    fn new(entries: &Bound<'_, PyDict>) -> PyResult<Writer> {
        let (table, values) = Table::with_values(entries)?;
        Ok(Writer { table, values: Mutex::new(values) })
    }

    /// A copy of the value of `key`.
    fn get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyBytes>> {
        let start = self.start(key)?;
        let values = self.values.lock().map_err(|_| unusable())?;
        Ok(PyBytes::new(py, &values[range(&values, start)]))
    }
}

method!(
    /// Overwrites the value of `key`. `ttl` is parsed, as in a cache, and not used.
    Set, c"set", 2 of ["key", "value", "ttl"],
    |py, this: &Writer, arguments| this.store(py, arguments, <[u8]>::copy_from_slice)
);

method!(
    /// As [`Set`], and computes a checksum of the value, piece by piece as it is copied.
    SetVerified, c"set_verified", 2 of ["key", "value", "ttl"],
    |py, this: &Writer, arguments| this.store(py, arguments, |to, from| {
        let mut checksum = XxHash3_64::new();
        for (to, from) in to.chunks_mut(NEAR_BYTES).zip(from.chunks(NEAR_BYTES)) {
            checksum.write(from);
            to.copy_from_slice(from);
        }
        black_box(checksum.finish());
    })
);

impl Writer {
    fn store<'py>(
        &self,
        py: Python<'py>,
        [key, value, ttl]: [Argument<'_, 'py>; 3],
        copy: impl Fn(&mut [u8], &[u8]),
    ) -> PyResult<Bound<'py, PyAny>> {
        black_box(ttl.is_some());
        let missing = || PyValueError::new_err("no key, or no value");
        let (key, value) = (key.ok_or_else(missing)?, value.ok_or_else(missing)?);
        let value = value.cast_exact::<PyBytes>()?;
        let value = value.as_bytes();
        let start = self.start(key.cast_exact::<PyString>()?.to_str()?)?;
        let mut values = self.values.lock().map_err(|_| unusable())?;
        let range = range(&values, start);
        if value.len() != range.len() {
            return Err(other_size());
        }
        copy(&mut values[range], value);
        Ok(py.None().into_bound(py))
    }

    fn start(&self, key: &str) -> PyResult<usize> {
        self.table.find(key).ok_or_else(|| missing(key))
    }
}

/// Words of the longest record: checksum, lengths, key and value.
const RECORD_WORDS: usize = 64;
/// Words before the key.
const HEAD_WORDS: usize = 2;

/// Lays out a record; returns its words.
fn lay_out<'a>(
    words: &'a mut [u64; RECORD_WORDS],
    key: &[u8],
    value: &[u8],
) -> PyResult<&'a [u64]> {
    let value_at = HEAD_WORDS + key.len().div_ceil(8);
    let end = value_at + value.len().div_ceil(8);
    if end > RECORD_WORDS {
        return Err(PyValueError::new_err("the entry is too long"));
    }
    words[1] = lengths(key, value);
    copy_in(&mut words[HEAD_WORDS..value_at], key);
    copy_in(&mut words[value_at..end], value);
    words[0] = sum::of(&words[1..end]);
    Ok(&words[..end])
}

fn lengths(key: &[u8], value: &[u8]) -> u64 {
    (key.len() as u64) << 32 | value.len() as u64
}

#[inline(always)]
fn copy_in(words: &mut [u64], bytes: &[u8]) {
    let whole = bytes.chunks_exact(8);
    if let (Some(last), rest @ [_, ..]) = (words.last_mut(), whole.remainder()) {
        *last = last_word(rest);
    }
    for (word, bytes) in words.iter_mut().zip(whole) {
        *word = whole_word(bytes);
    }
}

#[inline(always)]
fn has_key(words: &[u64], key: &[u8]) -> bool {
    let whole = key.chunks_exact(8);
    let rest = whole.remainder();
    let last = &words[key.len() / 8];
    whole.zip(words).all(|(bytes, word)| *word == whole_word(bytes))
        && (rest.is_empty() || *last == last_word(rest))
}

fn whole_word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}

fn last_word(rest: &[u8]) -> u64 {
    rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// A table of all keys of a dict of str to bytes, and the records that it leads to.
fn laid_out(entries: &Bound<'_, PyDict>) -> PyResult<(Table, Vec<u64>)> {
    let mut records = Vec::new();
    let table = Table::of(entries, |key, value| {
        let start = records.len();
        let mut words = [0; RECORD_WORDS];
        records.extend_from_slice(lay_out(&mut words, key.as_bytes(), value)?);
        Ok(start)
    })?;
    Ok((table, records))
}

/// A copy of the value of the record that begins here, which must have this key.
fn verified<'py>(py: Python<'py>, record: &[u64], key: &str) -> PyResult<Bound<'py, PyBytes>> {
    let (key_bytes, value_bytes) = (record[1] >> 32, record[1] as u32 as usize);
    let value_at = HEAD_WORDS + key_bytes.div_ceil(8) as usize;
    let end = value_at + value_bytes.div_ceil(8);
    if !has_key(&record[HEAD_WORDS..], key.as_bytes()) || record[0] != sum::of(&record[1..end]) {
        return Err(PyValueError::new_err("a record's checksum does not match"));
    }
    PyBytes::new_with(py, value_bytes, |value| {
        let mut parts = value.chunks_exact_mut(8);
        let words = &record[value_at..end];
        parts
            .by_ref()
            .zip(words)
            .for_each(|(part, word)| part.copy_from_slice(&word.to_ne_bytes()));
        let rest = parts.into_remainder();
        if let (Some(last), false) = (words.last(), rest.is_empty()) {
            rest.copy_from_slice(&last.to_ne_bytes()[..rest.len()]);
        }
        Ok(())
    })
}

/// The stripped get of a record with a key and a checksum.
#[pyclass(frozen, module = "_limits")]
pub struct Verifier {
    table: Table,
    records: Vec<u64>,
}

#[pymethods]
impl Verifier {
    #[new]
    fn new(entries: &Bound<'_, PyDict>) -> PyResult<Verifier> {
        let (table, records) = laid_out(entries)?;
        Ok(Verifier { table, records })
    }
}

impl Verifier {
    fn read<'py>(
        &self,
        py: Python<'py>,
        [key, default]: [Argument<'_, 'py>; 2],
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = key.ok_or_else(|| PyValueError::new_err("no key"))?;
        let key = key.cast_exact::<PyString>()?;
        let key = key.to_str()?;
        match self.table.find(key) {
            Some(start) => Ok(verified(py, &self.records[start..], key)?.into_any()),
            None => Ok(or_none(py, default)),
        }
    }
}

method!(
    /// A verified copy of the value of `key`, or `default`.
    GetOfRecord, c"get", 1 of ["key", "default"],
    |py, this: &Verifier, arguments| this.read(py, arguments)
);

/// The stripped set of many entries, whose records have checksums.
#[pyclass(frozen, module = "_limits")]
pub struct Keeper {
    table: Table,
    records: Mutex<Vec<u64>>,
}

#[pymethods]
impl Keeper {
    #[new]
    fn new(entries: &Bound<'_, PyDict>) -> PyResult<Keeper> {
        let (table, records) = laid_out(entries)?;
        Ok(Keeper { table, records: Mutex::new(records) })
    }

    /// Overwrites the values of all keys of a dict with others of the same size, under one lock.
    fn set_many(&self, entries: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut records = self.records.lock().map_err(|_| unusable())?;
        let mut words = [0; RECORD_WORDS];
        let entries = entries.iter().collect::<Vec<_>>();
        for entries in entries.chunks(WINDOW) {
            let mut starts = [0; WINDOW];
            for ((key, _), start) in entries.iter().zip(&mut starts) {
                let key = key.cast_exact::<PyString>()?.to_str()?;
                *start = self.table.find(key).ok_or_else(|| missing(key))?;
                prefetch(&records[*start..]);
            }
            for ((key, value), start) in entries.iter().zip(starts) {
                let key = key.cast_exact::<PyString>()?.to_str()?;
                let value = value.cast_exact::<PyBytes>()?.as_bytes();
                let record = &mut records[start..];
                if !has_key(&record[HEAD_WORDS..], key.as_bytes()) {
                    return Err(missing(key));
                }
                if record[1] != lengths(key.as_bytes(), value) {
                    return Err(other_size());
                }
                let words = lay_out(&mut words, key.as_bytes(), value)?;
                record[..words.len()].copy_from_slice(words);
            }
        }
        Ok(())
    }

    /// A copy of the value of `key`, after verifying the record's checksum.
    fn get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyBytes>> {
        let start = self.table.find(key).ok_or_else(|| missing(key))?;
        let records = self.records.lock().map_err(|_| unusable())?;
        verified(py, &records[start..], key)
    }
}

fn missing(key: &str) -> PyErr {
    PyValueError::new_err(format!("{key:?} is missing"))
}

fn other_size() -> PyErr {
    PyValueError::new_err("the new value must have the size of the old one")
}

fn unusable() -> PyErr {
    PyValueError::new_err("another thread panicked while it held the lock")
}

/// Reads the clock `count` times, and does nothing else.
#[pyfunction]
fn read_clock(count: usize) {
    for _ in 0..count {
        black_box(Instant::now());
    }
}

/// The module's table.
#[pymodule]
mod _limits {
    #[pymodule_export]
    use super::read_clock;
    #[pymodule_export]
    use super::Holder;
    #[pymodule_export]
    use super::Keeper;
    #[pymodule_export]
    use super::Reader;
    #[pymodule_export]
    use super::Verifier;
    #[pymodule_export]
    use super::Writer;

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        super::install_methods(module.py())
    }
}

fn install_methods(py: Python<'_>) -> PyResult<()> {
    fastcall::install::<Reader, Get, 2>(py)?;
    fastcall::install::<Reader, GetByTheClock, 2>(py)?;
    fastcall::install::<Reader, GetVerified, 2>(py)?;
    fastcall::install::<Holder, GetHeld, 2>(py)?;
    fastcall::install::<Verifier, GetOfRecord, 2>(py)?;
    fastcall::install::<Writer, Set, 3>(py)?;
    fastcall::install::<Writer, SetVerified, 3>(py)
}
