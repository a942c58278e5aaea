//! The settings of the policy. From one to the next the small log is larger, and recency counts
//! more against frequency. Must not know how one is selected.

use crate::format::policy_selection::SETTING_COUNT;

/// The small log's share and the rules that apply.
#[derive(Debug)]
pub struct Setting {
    /// The small log's share of the capacity.
    pub small_percent: u64,
    /// Whether a short reuse distance admits to the main log.
    pub reuse_distance: bool,
    /// With this many hits an entry enters the main log without the admission test.
    pub promote_at_hits: u64,
    /// No main log: entries with a hit go round in the small one.
    pub is_clock: bool,
}

const fn recency(small_percent: u64) -> Setting {
    Setting { small_percent, reuse_distance: true, promote_at_hits: 2, is_clock: false }
}

/// The settings. A shard starts with the first: it suits most traces, and changing from it costs
/// least.
pub static SETTINGS: [Setting; SETTING_COUNT as usize] = [
    recency(5),
    // Frequency alone: loops, sweeps, stable popularity.
    Setting { small_percent: 1, reuse_distance: false, promote_at_hits: 4, is_clock: false },
    recency(30),
    recency(80),
    // Recency alone: drifting popularity, keys that are read a few times and never again.
    Setting { small_percent: 100, reuse_distance: false, promote_at_hits: 4, is_clock: true },
];

/// The number of the setting that a word of the file names; the first if the word is damaged.
pub fn active_setting(word: u64) -> usize {
    usize::try_from(word).ok().filter(|setting| *setting < SETTINGS.len()).unwrap_or(0)
}
