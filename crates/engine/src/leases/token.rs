//! The token of a lease. Must not know how it was got.

use tuckbox_arena::Claim;

use crate::format::KeyHash;
use crate::value::{Basis, FullEntry};

/// The lease of one key: pass it to [`crate::Handle::finish`] with the value, or to
/// [`crate::Handle::abandon`]. If it is lost, others wait until this process ends.
#[derive(Debug)]
pub struct Token {
    /// The open file in which it was got, see [`crate::storage::Context::serial`].
    pub(super) file: u64,
    pub(super) hash: KeyHash,
    /// What the key was at that moment.
    pub(super) basis: Basis,
    /// The row of the maker, or nothing if all rows were taken.
    pub(super) claim: Claim,
}

/// Who makes the value of a key.
#[derive(Debug)]
pub enum Begin<'b> {
    /// Nobody has to: there is a fresh entry.
    Found(FullEntry<'b>),
    /// The caller. With the present entry, fresh or stale, if there is one.
    Lease(Token, Option<FullEntry<'b>>),
    /// Another maker, who has begun. With the present entry, if there is one.
    Busy(Option<FullEntry<'b>>),
}
