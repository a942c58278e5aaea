//! The eviction policy: which entry is kept. It only decides; [`crate::eviction`] carries out what
//! it decides. Must not access the file.
//!
//! New entries enter the *small* first-in-first-out log. A read only adds a hit to its slot (two
//! bits, so a hot entry stops being written). An entry is examined when it reaches the tail of its
//! log:
//!
//! * **Admission test**: an entry moves from the small to the *main* log if its frequency exceeds
//!   that of the main log's oldest entry by more than one.
//! * **Frequency** is collected from the hits at each examination, halves over time, and outlives
//!   the entry in a ghost.
//! * **Reuse distance** also admits: a key passes if it returns within 0.7 of the time for which
//!   the main log's oldest entry has been idle.
//! * **Second chance**: the main log's oldest entry with a hit returns to the log head with one hit
//!   less.
//! * **Policy selection**: each shard chooses among five settings of these rules by shadow caches,
//!   which simulate them on a sample of its keys.
//! * **Sizes**: if the byte limit binds, frequencies are compared per byte, depending on the
//!   favour.
//! * **Compaction**: while the logs hold much dead space, live entries move and none is dropped.
//!
//! Sources, reasons and figures are in `docs/explanation/eviction.md`.

mod ghosts;
pub mod rules;
mod selection;
mod setting;
mod shadow;

pub use self::ghosts::{Ghost, Row};
pub use self::rules::{
    admission, halves, is_kept_as_cheap, main_oldest, newcomer, small_is_first, small_oldest,
    Facts, Logs, Verdict,
};
pub use self::selection::{better_setting, Lead, WORTH_MAX, WORTH_OF_HIT};
pub use self::setting::{active_setting, Setting, SETTINGS};
pub use self::shadow::{Event, Shadow, Words, COST_OF_MEAN};
