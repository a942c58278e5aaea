//! The settings of the policy, of which the tournament chooses. From one to the next the small log
//! has more, and frequency counts for less against recency.

use crate::layout::shard;
use crate::layout::tournament::SETTING_COUNT;
use crate::shard::Shard;

/// How the small log's share and the rules are set.
#[derive(Debug)]
pub(super) struct Setting {
    /// The small log's share of the capacity.
    pub(super) small_percent: u64,
    /// Whether a short reuse distance admits to the main log.
    pub(super) reuse_distance: bool,
    /// Whoever leaves the small log with as many hits enters the main log without a duel.
    pub(super) promote_at_hits: u64,
    /// No main log: what was hit goes round in the small one.
    pub(super) is_clock: bool,
}

const fn recency(small_percent: u64) -> Setting {
    Setting { small_percent, reuse_distance: true, promote_at_hits: 2, is_clock: false }
}

/// The settings. The first is the one to begin with: most traces want it, and from it the way to
/// the others costs least.
pub(super) static SETTINGS: [Setting; SETTING_COUNT as usize] = [
    recency(5),
    // Frequency alone: loops, sweeps, popularity that does not change.
    Setting { small_percent: 1, reuse_distance: false, promote_at_hits: 4, is_clock: false },
    recency(30),
    recency(80),
    // Recency alone: popularity that drifts, keys that are read a few times and never again.
    Setting { small_percent: 100, reuse_distance: false, promote_at_hits: 4, is_clock: true },
];

impl Shard<'_> {
    pub(super) fn setting(&self) -> &'static Setting {
        &SETTINGS[self.setting_in_force()]
    }

    /// The number of the setting in force; the first if the word is damaged.
    pub(super) fn setting_in_force(&self) -> usize {
        let word = self.word(shard::SETTING) as usize;
        if word < SETTINGS.len() {
            word
        } else {
            0
        }
    }
}
