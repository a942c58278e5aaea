//! Recorded operation streams and their keys, which are read before any clock starts.
//!
//! Owns the two file formats (see `PROTOCOL.md`). Must not know how operations are run.

use std::fs;
use std::ops::Range;
use std::path::Path;

use crate::contract::Result;

const MAGIC: &[u8] = b"LABOPS01";
const RECORD_BYTES: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Set,
    Delete,
}

/// One operation: the verb, the number of the key, and the size of the value in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) verb: Verb,
    pub(crate) key: u32,
    pub(crate) size: u32,
}

/// Reads a stream.
pub(crate) fn read(path: &Path) -> Result<Vec<Operation>> {
    let content = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let operations = content.strip_prefix(MAGIC).and_then(|body| {
        // The last record of a truncated file is shorter, and invalid.
        body.chunks(RECORD_BYTES).map(decode).collect()
    });
    operations.ok_or_else(|| {
        let path = path.display();
        format!("{path} is not an operation stream; let the runner write it again").into()
    })
}

fn decode(record: &[u8]) -> Option<Operation> {
    let [verb, 0, 0, 0, k0, k1, k2, k3, s0, s1, s2, s3] = *record else { return None };
    let verb = match verb {
        0 => Verb::Get,
        1 => Verb::Set,
        2 => Verb::Delete,
        _ => return None,
    };
    let key = u32::from_le_bytes([k0, k1, k2, k3]);
    Some(Operation { verb, key, size: u32::from_le_bytes([s0, s1, s2, s3]) })
}

/// The keys of a run: the key with number n is line n of the file.
pub(crate) struct Keys {
    /// Never freed: prepared operations keep slices of it between requests, and a process reads its
    /// keys once.
    text: &'static str,
    lines: Vec<Range<usize>>,
}

impl Keys {
    /// Reads the file of keys.
    pub(crate) fn read(path: &Path) -> Result<Keys> {
        let text: &'static str = fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?
            .leak();
        let mut lines = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let end = start + line.len();
            lines.push(start..end - usize::from(line.ends_with('\n')));
            start = end;
        }
        Ok(Keys { text, lines })
    }

    pub(crate) fn count(&self) -> usize {
        self.lines.len()
    }

    /// The key with a number that is below [`Keys::count`].
    pub(crate) fn text(&self, number: u32) -> &'static str {
        &self.text[self.lines[number as usize].clone()]
    }
}
