//! Policy selection: which setting is active. Must not know the rules of the policy, nor where its
//! numbers are.
//!
//! No setting is good at everything, so each is simulated by a shadow cache on a sample of the
//! keys. For each setting a sum is kept of the hits by which its shadow is ahead of the active
//! one's, never below zero (CUSUM, Page 1954). A setting takes over when its sum exceeds the cost
//! of the change: each place that changes its role costs up to one hit, of those that count most.
//! So short phases, and sweeps that favour several settings in turn, do not cause changes.
//!
//! A sample can contain too few of the popular keys. Then every shadow hits more than the cache,
//! and the settings cannot be told apart. So the active setting's shadow is compared with the
//! cache, and while it hits more, all shadows get less capacity.

use super::setting::SETTINGS;
use super::shadow::COST_OF_MEAN;

/// What a hit counts: as much as an entry of mean size costs, so that hits can count their entry's
/// cost if bytes are favoured,
pub const WORTH_OF_HIT: u64 = COST_OF_MEAN;
/// but at most this much, so that no single hit decides.
pub const WORTH_MAX: u64 = 4 * COST_OF_MEAN;
/// Hits that a change of setting costs in any case.
const SWITCH_HITS: u64 = 4;
/// The percentage of the cache's places that change their role in any case.
const SWITCH_PERCENT: u64 = 25;
/// After this many more hits than the cache's, the shadows' capacity is reduced by an entry, up to
/// this part of it.
const SURPLUS_MAX: u64 = 8;
const SHORTENED_PART: u64 = 4;
const SURPLUS_BIAS: u64 = 1 << 63;

/// How far the shadows are ahead of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lead {
    /// Hits of the active setting's shadow that the cache missed, less the reverse, plus 2^63.
    pub surplus: u64,
    /// By how many entries the shadows' capacity is reduced for that.
    pub shortened: u64,
}

impl Lead {
    /// From two words of the file, for shadows of this many entries. Any words are a lead.
    pub fn new(surplus: u64, shortened: u64, entries: u64) -> Lead {
        let is_sound = surplus.abs_diff(SURPLUS_BIAS) <= SURPLUS_MAX;
        let surplus = if is_sound { surplus } else { SURPLUS_BIAS };
        Lead { surplus, shortened: shortened.min(entries / SHORTENED_PART) }
    }

    /// After a request that the shadow and the cache hit or missed.
    pub fn after(self, shadow: bool, cache: bool, entries: u64) -> Lead {
        let surplus = self.surplus + u64::from(shadow) - u64::from(cache);
        if surplus.abs_diff(SURPLUS_BIAS) < SURPLUS_MAX {
            return Lead { surplus, ..self };
        }
        let shortened = if surplus > SURPLUS_BIAS {
            (self.shortened + 1).min(entries / SHORTENED_PART)
        } else {
            self.shortened.saturating_sub(1)
        };
        Lead { surplus: SURPLUS_BIAS, shortened }
    }
}

/// The setting that most exceeds the price of the change, if any does. A hit counts at most
/// `worth_max`.
pub fn better_setting(
    regrets: &[u64],
    active: usize,
    entries: u64,
    worth_max: u64,
) -> Option<usize> {
    let excess = |index: usize| {
        let rebuilt = SETTINGS[index].small_percent.abs_diff(SETTINGS[active].small_percent);
        let price = 100 * SWITCH_HITS + entries * (rebuilt + SWITCH_PERCENT);
        regrets[index].saturating_mul(100).checked_sub(worth_max * price + 1)
    };
    (0..regrets.len())
        .filter(|index| *index != active)
        .filter_map(|index| Some((excess(index)?, index)))
        .max()
        .map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_takes_over_when_it_has_paid_for_the_rebuilding() {
        // From 5 to 30 per cent of 64 entries: 4 + 64 * 0.5 = 36 hits.
        let mut regrets = [0u64; SETTINGS.len()];
        regrets[2] = 36 * WORTH_OF_HIT;
        assert_eq!(better_setting(&regrets, 0, 64, WORTH_OF_HIT), None);
        regrets[2] = 37 * WORTH_OF_HIT;
        assert_eq!(better_setting(&regrets, 0, 64, WORTH_OF_HIT), Some(2));
        // From 5 to 1 per cent it costs less, 4 + 64 * 0.29 = 22.6 hits, so it exceeds its price by
        // more.
        regrets[1] = 37 * WORTH_OF_HIT;
        assert_eq!(better_setting(&regrets, 0, 64, WORTH_OF_HIT), Some(1));
        // If a hit may count four, the price is four times as high.
        assert_eq!(better_setting(&regrets, 0, 64, WORTH_MAX), None);
        regrets[2] = 4 * 36 * WORTH_OF_HIT + 1;
        assert_eq!(better_setting(&regrets, 0, 64, WORTH_MAX), Some(2));
        // Damaged sums are accepted.
        assert!(better_setting(&[u64::MAX; SETTINGS.len()], 4, 64, WORTH_OF_HIT).is_some());
    }
}
