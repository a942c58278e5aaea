//! A shard's lock, its segments, and the records in them. Must not know which records are entries,
//! nor which entry is worth keeping.

mod bodies;
mod context;
mod directory;
mod gate;
mod invalidations;
mod logs;
mod pinned;
mod places;
mod positions;
mod records;
mod replaced;
mod scratch;
mod searches;
mod segments;
mod shard;
mod vacated;

pub use self::context::{check_tag, Context};
pub use self::directory::Directory;
pub use self::logs::{Need, Reservation};
pub use self::records::{RECORD_BYTES, RECORD_START_WORDS};
pub use self::scratch::{uncleared, with_scratch};
pub use self::segments::BUILDERS_LEAVE_PER_SHARD;
pub use self::shard::{Shard, Taken};
