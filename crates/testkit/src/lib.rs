//! Code shared by tests. Owns nothing of the product; only `header` and `specimen` know arena and
//! engine.

pub mod header;
pub mod oracle;
pub mod process;
pub mod scratch;
pub mod shared;
pub mod specimen;
pub mod stamp;
pub mod watchdog;
