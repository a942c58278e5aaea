//! Builds that break one rule on purpose, to show that the tests notice. The feature `mutants`
//! breaks the rule that `TUCKBOX_MUTANT` names; other builds contain nothing of this. Must not know
//! what the rules are.

/// Whether the rule with this name is broken.
#[cfg(feature = "mutants")]
pub fn is_on(name: &str) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("TUCKBOX_MUTANT").ok()).as_deref() == Some(name)
}

/// Whether the rule with this name is broken: never in this build.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn is_on(_name: &str) -> bool {
    false
}
