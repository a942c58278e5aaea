//! Shared memory for a cache: one file, mapped by every process that opens it.
//!
//! Owns the file's outer layout (header, process slots, segment tables), the mapping and every raw
//! access to it, locks and the test whether a lock's owner is dead, growth, and the file's clock.
//! Must not know keys, values or expiries. Hands out offsets, never pointers.
//!
//! Read [`layout`] first, then [`Arena`].

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "Tuckbox needs a 64-bit system: a cache is mapped whole, and its words have 64 bits"
);

pub mod claim;
pub mod clock;
pub mod error;
pub mod free_map;
pub mod hooks;
pub mod layout;
pub mod lock;
pub mod mutants;
pub mod products;
pub mod region;
pub mod segments;
pub mod sum;

#[cfg(loom)]
pub mod modelled;

mod arena;
#[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
mod assembly;
mod fault;
mod file;
mod header;
mod platform;
mod process;
mod use_mark;
mod waiter;

pub use arena::{act_as_another_process, Arena, NoHostCode, OperationGuard, Place, Successor};
pub use claim::Claim;
pub use error::{Error, Result, Space};
pub use file::{check_private_folder, PathStatus};
pub use layout::{AfterPowerCut, Geometry, Layer, Plan};
pub use lock::Acquired;
pub use platform::files::create_private_folder;
pub use platform::Rights;
pub use process::{Counter, OwnerId, Wishes, COUNTER_COUNT};
pub use region::Region;
pub use waiter::{Interrupted, NativeWaiter, Waiter, BRIEF_BYTES};
