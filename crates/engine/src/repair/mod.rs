//! Making a shard whole: after a death, after a power cut, and for `check`. Must not know how entries
//! are stored, read or evicted.

mod audit;
pub mod lock;

pub use self::audit::Audit;
