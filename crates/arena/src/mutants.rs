//! Builds that break a rule on purpose, so that the tests can be seen to notice. A build with the
//! feature `mutants` breaks the one that `TUCKBOX_MUTANT` names; any other build breaks none, and
//! nothing of this is left in it.

/// Whether a rule is broken, by its name.
#[cfg(feature = "mutants")]
pub fn is_on(name: &str) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("TUCKBOX_MUTANT").ok()).as_deref() == Some(name)
}

/// Whether a rule is broken, by its name. None is, in this build.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn is_on(_name: &str) -> bool {
    false
}
