//! A cache of byte keys and byte values, in a file that many processes share.
//!
//! Owns the index, the records, eviction, expiry and statistics. Must not know Python, codecs or
//! the network: its inputs are byte slices, numbers and a clock. Every access to shared memory goes
//! through [`tuckbox_arena`]; there is no `unsafe` here.
//!
//! ```
//! use tuckbox_engine::{Buffer, Cache, Config, Place, Ttl, Value};
//!
//! let cache = Cache::open(&Place::Private, &Config::default())?;
//! cache.set(b"user:42", Value::bytes(b"Ada"), Ttl::Never)?;
//!
//! let mut buffer = Buffer::new();
//! let found = cache.get(b"user:42", &mut buffer)?.expect("it was just stored");
//! assert_eq!(found.value, Value::bytes(b"Ada"));
//! # Ok::<(), tuckbox_engine::Error>(())
//! ```

#![forbid(unsafe_code)]

/// Declares a type that adds a layer to another one. It has the methods of the layers below; these
/// cannot call its own.
macro_rules! layer {
    ($(#[$attribute:meta])* $name:ident($below:ty)) => {
        $(#[$attribute])*
        pub struct $name<'a>(pub $below);

        impl<'a> std::ops::Deref for $name<'a> {
            type Target = $below;

            #[inline(always)]
            fn deref(&self) -> &$below {
                &self.0
            }
        }
    };
}

#[doc(hidden)]
pub mod format;

mod cache;
mod error;
mod eviction;
mod handle;
mod index;
mod invalidation;
mod leases;
#[cfg(all(test, loom))]
mod models;
mod policy;
mod reading;
mod repair;
mod resize;
mod stats;
mod storage;
mod value;
mod writing;

pub use cache::{Cache, Scan};
pub use error::{Error, Result};
pub use format::plan::{default_size, file_format};
pub use handle::{Handle, Walk};
pub use leases::{Begin, Token};
pub use reading::{Buffer, Evidence, Order, OutputBuffer, Proof, Proved, ScanState, WatchedEras};
pub use tuckbox_arena::clock::{coarse_us, Clock};
pub use tuckbox_arena::{
    AfterPowerCut, Error as ArenaError, Interrupted, NativeWaiter, Place, Rights, Waiter,
    BRIEF_BYTES,
};
pub use value::{
    Attributes, Basis, Changes, CheckReport, Condition, Config, Entry, Favour, FullEntry, Item,
    Loss, Made, Make, Pass, Settings, Stats, Tags, Terms, Ttl, Value,
};

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The latest time at which an entry can expire, in microseconds since 1970: in the year 2540.
pub const EXPIRY_US_MAX: u64 = format::expiry::NEVER_US - 1;
/// Most tags of an entry.
pub const TAGS_MAX: usize = 32;
/// The longest tag of an entry, in bytes of UTF-8.
pub const TAG_BYTES_MAX: usize = 255;
/// Tags of byte values are below this.
pub const VALUE_TAG_COUNT: u8 = 64;
