//! Finding and copying entries, with and without a lock. Must not know how writes choose what to
//! store.

mod ahead;
mod buffer;
mod locked;
mod proof;
mod read;
mod scan;
pub mod steps;

pub use self::ahead::WINDOW;
pub use self::buffer::{Buffer, OutputBuffer};
pub use self::locked::{Entries, Live};
pub use self::proof::{Evidence, Proof, Proved, WatchedEras};
pub use self::read::Reader;
pub use self::scan::{Order, ScanState};
