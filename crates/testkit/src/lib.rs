//! What the tests share. Owns nothing of the product, and knows neither arena nor engine.

pub mod oracle;
pub mod process;
pub mod shared;
pub mod stamp;
pub mod watchdog;
