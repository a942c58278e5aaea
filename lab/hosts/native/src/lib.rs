//! The native host: one process, one worker, controlled through its standard input.
//!
//! Owns the loop that drives a store written in Rust (see `lab/PROTOCOL.md`). Must not know any
//! contestant: each is a separate program that implements [`Adapter`] and [`Store`] and passes the
//! adapter to [`serve`]. The loops are generic, so that verbs are called directly or inlined.

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
