//! The settings of the policy. From one to the next the small log is larger, and recency counts
//! more against frequency. Must not know how one is selected.

use super::target::Eviction;
use crate::format::layout::policy_selection::SETTING_COUNT;
use crate::format::shard;

/// The small log's share and the rules that apply.
#[derive(Debug)]
pub(super) struct Setting {
    /// The small log's share of the capacity.
    pub(super) small_percent: u64,
    /// Whether a short reuse distance admits to the main log.
    pub(super) reuse_distance: bool,
    /// With this many hits an entry enters the main log without the admission test.
    pub(super) promote_at_hits: u64,
    /// No main log: entries with a hit go round in the small one.
    pub(super) is_clock: bool,
}

const fn recency(small_percent: u64) -> Setting {
    Setting { small_percent, reuse_distance: true, promote_at_hits: 2, is_clock: false }
}

/// The settings. A shard starts with the first: it suits most traces, and changing from it costs
/// least.
pub(super) static SETTINGS: [Setting; SETTING_COUNT as usize] = [
    recency(5),
    // Frequency alone: loops, sweeps, stable popularity.
    Setting { small_percent: 1, reuse_distance: false, promote_at_hits: 4, is_clock: false },
    recency(30),
    recency(80),
    // Recency alone: drifting popularity, keys that are read a few times and never again.
    Setting { small_percent: 100, reuse_distance: false, promote_at_hits: 4, is_clock: true },
];

impl Eviction<'_> {
    pub(super) fn setting(&self) -> &'static Setting {
        &SETTINGS[self.active_setting()]
    }

    /// The index of the active setting; the first if the word is damaged.
    pub(super) fn active_setting(&self) -> usize {
        let word = self.word(shard::SETTING) as usize;
        if word < SETTINGS.len() {
            word
        } else {
            0
        }
    }
}
