//! The processes that share a cache: the slots in the file that name them, and whether they live.
//! Must not know locks, segments or the cache.
//!
//! A process holds one slot for all its handles on a file (`arena/attachment.rs`), together with a
//! *liveness lock*: one byte of the file, locked through an
//! open file of its own, which the system releases however the process ends. A descriptor and a
//! mapping keep that file open; a forked child inherits neither. Words in the file name a slot and
//! its incarnation, never a process id, so processes of different containers can share a cache. A
//! forked child closes the parent's liveness locks and takes a slot at its first operation.
//!
//! An owner is dead if its slot has moved on to another incarnation. It is also dead if its
//! liveness lock is free *and*, within the same PID namespace, the recorded process has ended or
//! runs another program. (A process that unmapped the lock by mistake is alive; an `exec` ends all
//! threads and the mapping but keeps the process id.) See `docs/explanation/concurrency.md`,
//! "Death".

mod counter;
mod forks;
mod liveness_lock;
mod owner;
mod slot;

pub use counter::{Counter, COUNTER_COUNT};
pub use forks::{ForkMutex, FORKS};
pub use owner::OwnerId;
pub use slot::{slots_alive, ProcessSlot, Wishes};
