//! Encoding of values. Decoding never runs code that the bytes name; only what [`crate::objects`]
//! was given can decode the codes of 21 and more.
//!
//! A stored value is a tag and bytes; the engine stores the tag at no cost. `bytes` and `str` are
//! stored as their bytes (UTF-8). A 64-bit `int` is an integer of the engine, so that `incr` works
//! on it. Every other value is an item, whose first byte is the tag:
//!
//! | code | item | what follows the code |
//! |---|---|---|
//! | 0 | `bytes` | length, bytes |
//! | 1, 2, 3 | `None`, `False`, `True` | |
//! | 4 | `int` of 64 bits | zigzag |
//! | 5 | `int`, longer | length, two's complement, little-endian |
//! | 6 | `float` | 8 bytes, little-endian |
//! | 7 | `str` | length, UTF-8 |
//! | 8 | `str` with lone surrogates | length, UTF-8 with each surrogate as three bytes |
//! | 9 | `bytearray` | length, bytes |
//! | 10, 11 | `list`, `tuple` | count, items |
//! | 12 | `dict` | count, then each key and its value, in the dict's order |
//! | 13, 14 | `set`, `frozenset` | count, items |
//! | 15 to 18 | `datetime`, `date`, `time`, `timedelta` | see `moments` |
//! | 19 | `Decimal` | length, its `str()` |
//! | 20 | `UUID` | 16 bytes, big-endian, and one for `is_safe` |
//! | 21 | object of a registered type | length, its name in UTF-8, its state as an item |
//! | 22 | pickled object * | the pickle |
//! | 23 | signed pickle * | 32 bytes of HMAC, the pickle |
//! | 24 | object of a codec * | length (one byte), the codec's name in ASCII, its bytes |
//! | 25 | compressed value * | algorithm (1 zstd, 2 lz4), the value's tag, its length, the bytes |
//! | 128 to 191 | `str` of up to 63 bytes | UTF-8 of code - 128 bytes |
//! | 192 to 255 | `int` from 0 to 63: code - 192 | |
//!
//! Lengths, counts and zigzag numbers are LEB128. Codes below 64 can be tags; the others only occur
//! in containers. \* Never in a container.
//!
//! Instances of subclasses raise `ValueTypeError`, because they would come back as the base type.
//! Numbers of other libraries are stored as plain ones, unless the cache is exact.
//! An object that occurs twice comes back as two equal objects. An object that contains itself
//! raises `ValueTypeError`.

mod decode;
mod encode;
mod moments;
mod refusal;
mod stamped;
#[cfg(test)]
mod tests;
mod whole;

pub use decode::{corrupt, decode};
pub use encode::{encode_plain, encoded, is_storable, Rules};
pub use stamped::{encode_stamped, stamp_of, stamped_value, Stamp};
pub use whole::{encode_whole, Stored};

/// Whether a value with this tag is a `bytes` object.
pub fn is_bytes(tag: u8) -> bool {
    tag == code::BYTES
}

/// The maximum nesting depth of containers.
const DEPTH_MAX: usize = 64;

/// The first byte of an item.
mod code {
    pub const BYTES: u8 = 0;
    pub const NONE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const TRUE: u8 = 3;
    pub const INT: u8 = 4;
    pub const BIG_INT: u8 = 5;
    pub const FLOAT: u8 = 6;
    pub const STR: u8 = 7;
    pub const STR_SURROGATES: u8 = 8;
    pub const BYTEARRAY: u8 = 9;
    pub const LIST: u8 = 10;
    pub const TUPLE: u8 = 11;
    pub const DICT: u8 = 12;
    pub const SET: u8 = 13;
    pub const FROZENSET: u8 = 14;
    pub const DATETIME: u8 = 15;
    pub const DATE: u8 = 16;
    pub const TIME: u8 = 17;
    pub const TIMEDELTA: u8 = 18;
    pub const DECIMAL: u8 = 19;
    pub const UUID: u8 = 20;
    pub const REGISTERED: u8 = 21;
    // 22 to 24 are `tuckbox.objects`' own.
    pub const PICKLED: u8 = 22;
    pub const CUSTOM: u8 = 24;
    pub const COMPRESSED: u8 = 25;
    /// One past the last tag.
    pub const END: u8 = 26;
    pub const SHORT_STR: u8 = 0x80;
    pub const SMALL_INT: u8 = 0xC0;

    const _: () = assert!(END <= tuckbox_engine::VALUE_TAG_COUNT);
}

/// Classes that are defined in Python, imported on first use.
pub mod imported {
    use pyo3::prelude::*;
    use pyo3::sync::PyOnceLock;
    use pyo3::types::PyType;

    pub fn decimal(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        CLASS.import(py, "decimal", "Decimal")
    }

    pub fn uuid(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        CLASS.import(py, "uuid", "UUID")
    }

    pub fn safe_uuid(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        CLASS.import(py, "uuid", "SafeUUID")
    }

    pub fn timezone(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        CLASS.import(py, "datetime", "timezone")
    }

    pub fn zone_info(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        CLASS.import(py, "zoneinfo", "ZoneInfo")
    }
}
