//! The versions that this program was built from.
//!
//! Owns the build's table of versions, which `build.rs` writes. Must not know any contestant.

const VERSIONS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/versions.rs"));

/// The compiler, with a note if the build is not optimised and so useless for measuring.
pub(crate) fn runtime() -> String {
    let note = if cfg!(debug_assertions) { ", not optimised" } else { "" };
    format!("Rust {}{note}", env!("LAB_RUSTC"))
}

/// The version of a crate that this program may be linked with.
pub(crate) fn version(name: &str) -> Option<&'static str> {
    let index = VERSIONS.binary_search_by_key(&name, |entry| entry.0).ok()?;
    Some(VERSIONS[index].1)
}
