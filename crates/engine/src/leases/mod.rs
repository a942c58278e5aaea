//! Leases: one maker at a time for each key, and no value that was made before its key was
//! invalidated. Must not know who makes values, nor how long that may take.
//!
//! What a lease promises is in `docs/reference/semantics.md`, why its lock-free steps are harmless in
//! `docs/explanation/concurrency.md`.

mod making;
mod rows;
mod token;

pub use self::making::{Begun, Leases};
pub use self::token::{Begin, Token};
