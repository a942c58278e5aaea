//! Large values are copied directly into a buffer supplied by the caller, and nothing else is.

use std::any::Any;

use tuckbox_engine::{Buffer, Cache, Config, Error, OutputBuffer, Place, Result, Ttl, Value};

const OUTPUT_TAG: u8 = 3;

/// Memory for values of one tag, which can run out.
#[derive(Default)]
struct Field {
    bytes: Vec<u8>,
    fills: usize,
    is_full: bool,
}

impl OutputBuffer for Field {
    fn accepts(&self, tag: u8) -> bool {
        tag == OUTPUT_TAG
    }

    fn receive(
        &mut self,
        len_bytes: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<bool> {
        if self.is_full {
            return Err(Error::OutOfMemory { wanted_bytes: len_bytes });
        }
        self.fills += 1;
        self.bytes = vec![0xee; len_bytes];
        Ok(fill(&mut self.bytes))
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

fn field(buffer: &mut Buffer) -> &mut Field {
    buffer.output().unwrap()
}

fn bytes(len: u64) -> Vec<u8> {
    (0..len).map(|n| (n * 31 % 251) as u8).collect()
}

/// A cache, a buffer with an output buffer, and the length of a segment.
fn scene() -> (Cache, Buffer, u64) {
    let cache = Cache::open(&Place::Private, &Config::default()).unwrap();
    let segment_bytes = cache.stats().segment_bytes;
    (cache, Buffer::with_output(Box::new(Field::default())), segment_bytes)
}

#[test]
fn a_value_longer_than_a_segment_goes_to_the_output_buffer() {
    let (cache, mut buffer, segment) = scene();
    let lens = [0, 1, 100, segment - 1, segment, segment + 1, 3 * segment, 3 * segment + 13];
    for len in lens {
        let value = bytes(len);
        for tag in [OUTPUT_TAG, OUTPUT_TAG + 1] {
            let given = Value::Bytes { tag, bytes: &value };
            cache.set(b"key", given, Ttl::Never).unwrap();
            let before = field(&mut buffer).fills;
            let entry = cache.get(b"key", &mut buffer).unwrap().unwrap();
            assert_eq!(entry.value, given);
            let is_output = tag == OUTPUT_TAG && len >= segment;
            assert_eq!(entry.is_in_output, is_output, "{len} bytes with tag {tag}");
            assert_eq!(field(&mut buffer).fills - before, usize::from(is_output));
            assert!(!is_output || field(&mut buffer).bytes == value);
        }
    }
}

#[test]
fn a_read_under_a_lock_does_not_use_the_output_buffer() {
    let (cache, mut buffer, segment) = scene();
    let value = bytes(2 * segment + 5);
    let given = Value::Bytes { tag: OUTPUT_TAG, bytes: &value };
    cache.set(b"key", given, Ttl::Never).unwrap();
    assert!(cache.get(b"key", &mut buffer).unwrap().unwrap().is_in_output);
    let entry = cache.pop(b"key", &mut buffer).unwrap().unwrap();
    assert_eq!((entry.value, entry.is_in_output), (given, false));
}

#[test]
fn an_output_buffer_without_memory_is_an_error_and_changes_nothing() {
    let (cache, mut buffer, segment) = scene();
    let value = bytes(segment + 1);
    let given = Value::Bytes { tag: OUTPUT_TAG, bytes: &value };
    cache.set(b"key", given, Ttl::Never).unwrap();
    field(&mut buffer).is_full = true;
    let answer = cache.get(b"key", &mut buffer);
    assert!(
        matches!(answer, Err(Error::OutOfMemory { wanted_bytes }) if wanted_bytes == value.len())
    );
    field(&mut buffer).is_full = false;
    assert_eq!(cache.get(b"key", &mut buffer).unwrap().unwrap().value, given);
}
