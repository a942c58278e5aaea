//! Everything that changes entries on request. Must not know which entries eviction chooses.

mod bodies;
mod expire;
mod gated;
mod many;
mod store;
mod write;

pub use self::store::Store;
pub use self::write::Writer;
