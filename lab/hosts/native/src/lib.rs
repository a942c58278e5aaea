//! The native host: one process, one worker, told what to do over its standard input.
//!
//! Owns the loop that drives a store written in Rust, as `lab/PROTOCOL.md` describes it. Must not
//! know any contestant: each is a program of its own that implements [`Adapter`] and [`Store`] and
//! hands the adapter to [`serve`]. The loops are generic, so that a verb is called directly, or not
//! at all once it is inlined.

#![deny(unsafe_code)]

mod allocator;
mod contract;
mod driver;
mod expected;
mod host;
mod orphan;
mod pass;
mod probe;
mod protocol;
mod recorded;
mod replay;
mod serve;
mod stream;
mod timing;
mod values;
mod verify;
mod versions;
mod work;

pub use contract::{Adapter, Failure, Limits, Result, Settings, Store};
pub use driver::{contestant, Driver};
pub use serve::serve;
