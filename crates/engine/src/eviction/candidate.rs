//! An entry at a log tail. Must not know how it got there, nor what becomes of it.

use crate::format::{KeyHash, LogKind, Position, RecordHeader};
use crate::index::Found;

/// A record whose key was hashed.
#[derive(Clone, Copy)]
pub(super) struct Keyed {
    pub(super) position: Position,
    pub(super) header: RecordHeader,
    pub(super) hash: KeyHash,
}

/// An entry at a log tail, not judged yet.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) kind: LogKind,
    pub(super) position: Position,
    pub(super) offset: u64,
    pub(super) header: RecordHeader,
    pub(super) hash: KeyHash,
    pub(super) found: Found,
    /// Frequency, halved up to now.
    pub(super) frequency: u64,
    /// The number of halvings at that time.
    pub(super) halvings: u64,
}
