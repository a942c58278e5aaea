//! The codec with arbitrary and damaged bytes, in an embedded interpreter. Round trips of values
//! are tested from Python.

use std::sync::OnceLock;

use proptest::prelude::*;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyModule, PyString};
use tuckbox_engine::{Config, Handle, Place, Value};

use super::{decode, encode::encode, encode_stamped, stamp_of, stamped_value, Rules};
use crate::errors::classes::EntryCorrupt;
use crate::objects::{Entry, Objects};

const UNLIMITED: Rules<'_> = Rules { bytes_max: usize::MAX, is_exact: false, objects: None };

/// Runs a test in an interpreter that imports `tuckbox.errors` from the source tree, and this build
/// as `tuckbox._engine`.
fn with_python<T>(test: impl FnOnce(Python<'_>) -> T) -> T {
    Python::attach(|py| {
        let modules = py.import("sys").unwrap().getattr("modules").unwrap();
        if !modules.contains("tuckbox._engine").unwrap() {
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python");
            let path = py.import("sys").unwrap().getattr("path").unwrap();
            path.call_method1("insert", (0, source)).unwrap();
            let engine = pyo3::wrap_pymodule!(crate::_engine)(py);
            modules.set_item("tuckbox._engine", engine).unwrap();
        }
        test(py)
    })
}

/// An entry of a cache without registered types.
fn entry() -> Entry<'static> {
    static CACHE: OnceLock<Handle> = OnceLock::new();
    let config = || Config { size_bytes: 1 << 20, ..Config::default() };
    let cache = CACHE.get_or_init(|| Handle::open(Place::Private, config()).unwrap().0);
    Entry { objects: None, cache, key: b"key" }
}

/// What decodes objects: a registered type, signed pickles, a codec, compression.
fn objects(py: Python<'_>, name: &str) -> Objects {
    let source = cr#"
from tuckbox.objects import Objects
from tuckbox.registry import register
class Pair(tuple): pass
class Codec:
    name = "c"
    def encode(self, value): return repr(value).encode()
    def decode(self, content): return content.decode()
register(Pair, name="p", encode=list, decode=lambda state: Pair(map(len, state)))
with_pickle = Objects(pickle="signed", secret="a secret")
with_codec = Objects(codec=Codec())
"#;
    // The first import runs it.
    let module = py.import("objects_of_test").unwrap_or_else(|_| {
        PyModule::from_code(py, source, c"objects.py", c"objects_of_test").unwrap()
    });
    Objects::new(&module.getattr(name).unwrap()).unwrap()
}

/// Decodes a value; `None` if it is corrupt. Panics for any other exception.
fn decoded<'py>(py: Python<'py>, tag: u8, bytes: &[u8]) -> Option<Bound<'py, PyAny>> {
    decoded_by(py, None, tag, bytes)
}

fn decoded_by<'py>(
    py: Python<'py>,
    objects: Option<&Objects>,
    tag: u8,
    bytes: &[u8],
) -> Option<Bound<'py, PyAny>> {
    match decode(py, Value::Bytes { tag, bytes }, || Entry { objects, ..entry() }) {
        Ok(value) => Some(value),
        Err(raised) => {
            let error = PyErr::from(raised);
            assert!(error.is_instance_of::<EntryCorrupt>(py), "{error} for {tag} {bytes:?}");
            None
        }
    }
}

/// A value that contains every type.
fn sample<'py>(py: Python<'py>) -> Bound<'py, PyAny> {
    let source = cr#"
import datetime, decimal, uuid, zoneinfo
zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30), "IST")
moment = datetime.datetime(2026, 3, 29, 2, 30, 15, 123456, tzinfo=zone, fold=1)
value = {
    "none": None, "truth": [True, False], "ints": (0, 63, 64, -1, 2**62, -(2**63), 2**200),
    "floats": [0.0, -1.5], "text": "plain", "long": "x" * 100, "odd": "\ud800", b"bytes": b"\x00\xff",
    "array": bytearray(b"abc"), 7: {1, 2}, (1, "a"): frozenset([b"x"]),
    "moments": [moment, moment.replace(tzinfo=datetime.timezone.utc), moment.date(),
                moment.time(), moment.timetz(), datetime.timedelta(days=-3, microseconds=5)],
    "decimal": decimal.Decimal("-1.50E+7"), "uuid": uuid.UUID(int=12345),
}
"#;
    PyModule::from_code(py, source, c"sample.py", c"sample").unwrap().getattr("value").unwrap()
}

#[test]
fn the_sample_comes_back() {
    with_python(|py| {
        let value = sample(py);
        let mut bytes = Vec::new();
        encode(&value, UNLIMITED, &mut bytes).unwrap();
        let back = decoded(py, bytes[0], &bytes[1..]).unwrap();
        assert!(back.eq(&value).unwrap());
        assert_eq!(back.repr().unwrap().to_string(), value.repr().unwrap().to_string());
    });
}

#[test]
fn a_stamped_value_is_the_tuple_and_its_stamp_is_read() {
    with_python(|py| {
        let source = cr#"
values = {"": 0, "plain": 5, "x" * 63: 63, "x" * 64: 64, "\u00e9\u20ac\U0001f600": 3, "\u00e9" * 300: 300,
          b"": 0, b"\x00\xff" * 200: 400, 0: 8, 63: 8, 64: 8, -1: 8, 2**63 - 1: 8, -(2**63): 8, 1.5: 8}
others = [None, True, 2**63, "\ud800", (1,), [1], bytearray(b"x"), "x" * 1000, b"x" * 1000]
"#;
        let module = PyModule::from_code(py, source, c"stamped.py", c"stamped").unwrap();
        let values = module.getattr("values").unwrap();
        let (mut stamped, mut whole) = (vec![7; 9], Vec::new());
        for (value, length) in values.cast_into::<PyDict>().unwrap() {
            let length: i64 = length.extract().unwrap();
            for number in [0, 63, 64, 300, i64::MAX, i64::MIN] {
                let done = encode_stamped(&value, number, 1.25, 1000, &mut stamped);
                assert_eq!(done, Some((super::code::TUPLE, length)), "{value}");
                let tuple = (&value, number, 1.25).into_pyobject(py).unwrap();
                encode(&tuple, UNLIMITED, &mut whole).unwrap();
                assert_eq!((whole[0], &whole[1..]), (super::code::TUPLE, &stamped[..]));
                let read = stamp_of(super::encoded(&whole)).unwrap();
                assert_eq!((read.length, read.number), (length, number));
                let alone = stamped_value(py, super::encoded(&whole));
                let is_text =
                    value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
                assert_eq!(alone.is_some(), is_text, "{value}");
                assert!(alone.is_none_or(|alone| alone.eq(&value).unwrap()), "{value}");
            }
        }
        for value in module.getattr("others").unwrap().try_iter().unwrap() {
            let value = value.unwrap();
            assert!(encode_stamped(&value, 1, 1.25, 1000, &mut stamped).is_none(), "{value}");
            let tuple = (&value, 1, 1.25).into_pyobject(py).unwrap();
            encode(&tuple, UNLIMITED, &mut whole).unwrap();
            let is_long = value.len().is_ok_and(|length| length == 1000);
            assert_eq!(stamp_of(super::encoded(&whole)).is_some(), is_long, "{value}");
            let alone = stamped_value(py, super::encoded(&whole));
            assert_eq!(alone.is_some(), is_long, "{value}");
        }
        for other in
            [Value::Int(7), Value::bytes(b"\x03\xc0\xc0"), super::encoded(b"\x0a\x03\xc0\xc0")]
        {
            assert!(stamp_of(other).is_none());
            assert!(stamped_value(py, other).is_none());
        }
    });
}

#[test]
fn objects_that_are_whole_come_back() {
    with_python(|py| {
        let (pickle, codec) = (objects(py, "with_pickle"), objects(py, "with_codec"));
        let pair = b"\x01p\x0a\x02\x81a\x82bc";
        let found = decoded_by(py, Some(&pickle), super::code::REGISTERED, pair).unwrap();
        assert_eq!(found.repr().unwrap().to_string(), "(1, 2)");
        let found = decoded_by(py, Some(&codec), super::code::CUSTOM, b"\x01cabc").unwrap();
        assert_eq!(found.extract::<String>().unwrap(), "abc");
        for code in super::code::REGISTERED..super::code::END {
            assert!(decoded(py, code, pair).is_none(), "code {code} without objects");
        }
    });
}

#[test]
fn every_prefix_of_the_sample_is_refused() {
    with_python(|py| {
        let mut bytes = Vec::new();
        encode(&sample(py), UNLIMITED, &mut bytes).unwrap();
        for length in 1..bytes.len() {
            assert!(
                decoded(py, bytes[0], &bytes[1..length]).is_none(),
                "{length} bytes were taken"
            );
        }
    });
}

#[test]
fn a_count_that_cannot_be_is_refused_before_memory_is_taken() {
    with_python(|py| {
        let mut bytes = Vec::new();
        crate::varint::append(&mut bytes, u64::MAX >> 1);
        bytes.push(super::code::NONE);
        for code in super::code::BYTES..super::code::END {
            decoded(py, code, &bytes);
        }
    });
}

#[test]
fn containers_cannot_each_claim_the_same_bytes() {
    with_python(|py| {
        // Each list claims as many items as bytes follow it, and its first item is the next list.
        const BYTES: usize = 1 << 20;
        let mut bytes = Vec::new();
        for _ in 0..super::DEPTH_MAX {
            bytes.push(super::code::LIST);
            crate::varint::append(&mut bytes, (BYTES - super::DEPTH_MAX * 8) as u64);
        }
        bytes.resize(BYTES, super::code::NONE);
        let tracemalloc = py.import("tracemalloc").unwrap();
        tracemalloc.call_method0("start").unwrap();
        assert!(decoded(py, bytes[0], &bytes[1..]).is_none());
        let traced = tracemalloc.call_method0("get_traced_memory").unwrap();
        let (_, peak): (usize, usize) = traced.extract().unwrap();
        tracemalloc.call_method0("stop").unwrap();
        // A pointer for each byte, and the message.
        assert!(peak < BYTES * 10, "{peak} bytes were allocated for {BYTES}");
    });
}

#[test]
fn containers_deeper_than_allowed_are_refused() {
    with_python(|py| {
        let nested = |depth: usize| {
            let mut bytes = [super::code::LIST, 1].repeat(depth);
            bytes.push(super::code::NONE);
            bytes
        };
        let deepest = nested(super::DEPTH_MAX);
        assert!(decoded(py, deepest[0], &deepest[1..]).is_some());
        for depth in [super::DEPTH_MAX + 1, 100_000] {
            let deeper = nested(depth);
            assert!(decoded(py, deeper[0], &deeper[1..]).is_none());
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn arbitrary_bytes_are_a_stamp_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        for tag in [super::code::TUPLE, super::code::LIST] {
            stamp_of(Value::Bytes { tag, bytes: &bytes });
        }
        bytes.insert(0, 3);
        let value = Value::Bytes { tag: super::code::TUPLE, bytes: &bytes };
        stamp_of(value);
        with_python(|py| stamped_value(py, value).is_some());
    }

    #[test]
    fn arbitrary_bytes_are_a_value_or_damage(tag in 0u8..64, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        with_python(|py| { decoded(py, tag, &bytes); });
    }

    #[test]
    fn arbitrary_objects_are_a_value_or_damage(code in super::code::REGISTERED..super::code::END, is_named: bool, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        with_python(|py| {
            // So that the function of a registered type or codec gets them.
            let head: &[u8] = match (is_named, code) {
                (true, super::code::REGISTERED) => b"\x01p",
                (true, super::code::CUSTOM) => b"\x01c",
                (true, super::code::COMPRESSED) => b"\x01\x07",
                _ => b"",
            };
            for name in ["with_pickle", "with_codec"] {
                decoded_by(py, Some(&objects(py, name)), code, &[head, &bytes].concat());
            }
        });
    }

    #[test]
    fn a_damaged_sample_is_a_value_or_damage(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        with_python(|py| {
            let mut bytes = Vec::new();
            encode(&sample(py), UNLIMITED, &mut bytes).unwrap();
            for (index, byte) in &changes {
                let index = index.index(bytes.len());
                bytes[index] = *byte;
            }
            if let Some(value) = decoded(py, bytes[0] & 63, &bytes[1..]) {
                // A decoded value can be encoded again.
                let mut again = Vec::new();
                encode(&value, UNLIMITED, &mut again).unwrap();
            }
        });
    }

    #[test]
    fn arbitrary_bytes_are_a_key_or_damage(kind in prop::sample::select(&b"\x00bitx"[..]), rest: Vec<u8>) {
        let mut bytes = rest;
        if kind != 0 {
            bytes.splice(0..0, [0xFF, kind]);
        }
        with_python(|py| match crate::keys::decode(py, &bytes) {
            Ok(key) => {
                // It is a key, though the bytes may not be its canonical encoding.
                let again = crate::keys::encode(&key).map_err(PyErr::from).unwrap();
                assert!(crate::keys::decode(py, again.bytes()).unwrap().eq(&key).unwrap());
            }
            Err(error) => assert!(error.is_instance_of::<EntryCorrupt>(py)),
        });
    }
}
