//! What the tests share. Owns nothing of the product; only `specimen` knows arena and engine.

pub mod oracle;
pub mod process;
pub mod shared;
pub mod specimen;
pub mod stamp;
pub mod watchdog;
