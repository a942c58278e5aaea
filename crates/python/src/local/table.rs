//! The kept objects, and which of them is dropped for another. Must not know which may be kept.
//!
//! The policy is the clock: a hand goes round, drops the first object that was not handed out since
//! it came by, and marks the others.

use std::sync::Arc;

use pyo3::prelude::*;
use tuckbox_engine::{Evidence, Proof};

use super::copies::Kind;
use super::index::{Index, POSITIONS_MAX};
use super::Name;
use crate::spaces::Space;

/// No object takes more than this part of the table.
const PART_MAX: usize = 4;

/// An object, and what it was returned for. One line of the processor's cache, because objects are
/// many: what a hit does not need is in [`Rest`].
#[repr(align(64))]
pub struct Kept {
    /// The key.
    pub key: Py<PyAny>,
    /// The object.
    pub value: Py<PyAny>,
    /// That it is current. Its bits are those below.
    pub proof: Proof,
}

const _: () = assert!(size_of::<Kept>() == 64);

/// Set if the object was handed out since the hand came by.
const RECENT: u8 = 1;
/// Set if the key is in a namespace.
const IN_SPACE: u8 = 2;
/// Where the [`Kind`] begins.
const KIND_SHIFT: u32 = 2;

impl Kept {
    /// How the object is handed out.
    #[inline(always)]
    fn kind(&self) -> Kind {
        Kind::of_bits(self.proof.bits >> KIND_SHIFT)
    }

    /// Whether the key is in a namespace.
    #[inline(always)]
    pub fn is_in_space(&self) -> bool {
        self.proof.bits & IN_SPACE != 0
    }

    #[inline(always)]
    fn is_recent(&self) -> bool {
        self.proof.bits & RECENT != 0
    }

    #[inline(always)]
    fn set_recent(&mut self, is_recent: bool) {
        self.proof.bits = self.proof.bits & !RECENT | u8::from(is_recent);
    }
}

/// What a hit does not need, or seldom.
pub struct Rest {
    /// What proves the object after a change.
    pub evidence: Evidence,
    /// The namespace of the key.
    pub space: Option<Arc<Space>>,
    /// About how many bytes key and object take.
    bytes: usize,
}

/// All objects, in no order.
pub struct Table {
    index: Index,
    // The same object has the same position in all of these.
    kept: Vec<Kept>,
    rests: Vec<Rest>,
    hashes: Vec<u64>,
    hand: usize,
    bytes: usize,
    bytes_max: usize,
}

/// Bytes that the table needs for an object.
const OWN_BYTES: usize = size_of::<Kept>() + size_of::<Rest>() + size_of::<u64>() + Index::BYTES;

impl Table {
    /// An empty table.
    pub fn new(bytes_max: u64) -> Table {
        Table {
            index: Index::new(),
            kept: Vec::new(),
            rests: Vec::new(),
            hashes: Vec::new(),
            hand: 0,
            bytes: 0,
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
        }
    }

    #[inline(never)]
    fn position(&self, name: &Name<'_, '_>) -> Option<usize> {
        self.index.find(name.hash, |position| {
            name.is_of(&self.kept[position], self.rests[position].space.as_ref())
        })
    }

    /// As [`Table::position`]. Programs often ask with the same key objects: then one comparison is
    /// enough, and the rest is a call.
    #[inline(always)]
    fn position_of_same(&self, name: &Name<'_, '_>) -> Option<usize> {
        let position = self.index.find(name.hash, |_| true)?;
        match self.kept.get(position) {
            Some(kept) if name.is_same(kept) => Some(position),
            _ => self.position(name),
        }
    }

    /// Whether the object of a name satisfies `is_current`; then the object, and how it is handed out.
    #[inline(always)]
    pub fn find(
        &mut self,
        name: &Name<'_, '_>,
        is_current: impl FnOnce(&mut Proof, &Evidence) -> bool,
    ) -> Option<(&Py<PyAny>, Kind)> {
        let position = self.position_of_same(name)?;
        let kept = self.kept.get_mut(position)?;
        if !is_current(&mut kept.proof, &self.rests.get(position)?.evidence) {
            return None;
        }
        if !kept.is_recent() {
            kept.set_recent(true);
        }
        Some((&kept.value, kept.kind()))
    }

    /// Keeps an object, in place of its name's present one. `value_bytes` are those of key and object.
    pub fn keep(
        &mut self,
        name: &Name<'_, '_>,
        kind: Kind,
        value_bytes: usize,
        kept: impl FnOnce() -> (Kept, Evidence),
    ) {
        self.forget(name);
        let bytes = value_bytes.saturating_add(OWN_BYTES);
        if bytes > self.bytes_max / PART_MAX {
            return;
        }
        while self.bytes + bytes > self.bytes_max || self.kept.len() == POSITIONS_MAX {
            self.drop_one(name.key.py());
        }
        let (mut kept, evidence) = kept();
        self.bytes += bytes;
        self.index.add(name.hash, &self.hashes);
        let in_space = if name.space.is_some() { IN_SPACE } else { 0 };
        kept.proof.bits = in_space | kind.bits() << KIND_SHIFT;
        self.kept.push(kept);
        self.rests.push(Rest { evidence, space: name.space.cloned(), bytes });
        self.hashes.push(name.hash);
    }

    /// Drops the object of a name.
    pub fn forget(&mut self, name: &Name<'_, '_>) {
        if let Some(position) = self.position(name) {
            self.remove(name.key.py(), position);
        }
    }

    fn drop_one(&mut self, py: Python<'_>) {
        loop {
            self.hand %= self.kept.len();
            if !self.kept[self.hand].is_recent() {
                return self.remove(py, self.hand);
            }
            self.kept[self.hand].set_recent(false);
            self.hand += 1;
        }
    }

    /// Removes an object. The last one gets its position.
    fn remove(&mut self, py: Python<'_>, position: usize) {
        self.index.remove(position, &self.hashes);
        self.hashes.swap_remove(position);
        self.bytes -= self.rests.swap_remove(position).bytes;
        let Kept { key, value, .. } = self.kept.swap_remove(position);
        // Bound, so that they are dropped at once: PyO3 does not know that `get` is attached. Last,
        // because that may run code of the program, by a weak reference.
        drop((key.into_bound(py), value.into_bound(py)));
    }

    /// The number of objects, and their bytes.
    pub fn usage(&self) -> (u64, u64) {
        (self.kept.len() as u64, self.bytes as u64)
    }
}
