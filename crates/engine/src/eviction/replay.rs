//! Policy selection on a shard: requests for sampled keys are replayed on the shadow caches. Must not
//! know how a setting is chosen; that is in [`crate::policy`].
//!
//! Reads take no lock. The race: two readers *note* a hit at once (two words of no other use), and
//! one note is lost, as are notes that no write replays. That only makes the sample a little
//! smaller. The next sampled write replays the notes under the shard's lock.
//!
//! Keys are sampled if their hash is below a word of the shard: at most one in four, except in
//! caches of a few dozen entries, and in larger ones as few as fill a shadow of 64 entries.

use smallvec::SmallVec;
use tuckbox_arena::region::Region;

use super::notes::{size_of, SIZE_MAX};
use super::Eviction;
use crate::format::{log, policy_selection, shadow_bytes, shard, KeyHash, LogKind, RecordHeader};
use crate::policy::{
    active_setting, better_setting, Event, Lead, Shadow, Words, COST_OF_MEAN, SETTINGS, WORTH_MAX,
    WORTH_OF_HIT,
};
use crate::value::Favour;

/// Minimum entries of a shadow, if the cache has as many; and the maximum part of the cache.
const SHADOW_MIN: u64 = 16;
const SHADOW_PART: u64 = 4;
/// Most events that a sampled write replays: all notes and itself.
const EVENTS_MAX: usize = policy_selection::NOTED_LEN as usize + 1;
/// The sample is measured again after this many writes.
const MEASURE_EVERY: u64 = 16;
/// Set in [`policy_selection::SHADOW_CAPACITY`] if the byte limit binds.
const HAS_COSTS: u64 = 1 << 32;

impl Words for Region {
    fn load(&self, at: u64, words: &mut [u64]) {
        self.copy_out(at, words);
    }

    fn store(&self, at: u64, words: &[u64]) {
        self.copy_in(at, words);
    }
}

impl Eviction<'_> {
    /// The number of the active setting.
    pub(super) fn active_setting(&self) -> usize {
        active_setting(self.word(shard::SETTING))
    }

    /// Replays an overwrite.
    #[inline(always)]
    pub fn sample_overwrite(&self, hash: KeyHash, header: &RecordHeader) {
        self.sample(Event::Overwritten, hash, header);
    }

    /// Replays an event if its key is sampled.
    #[inline(always)]
    pub(super) fn sample(&self, event: Event, hash: KeyHash, header: &RecordHeader) {
        if u64::from(hash.first()) < self.word(shard::SAMPLED_BELOW) {
            self.replay(event, hash.0 >> 32 << 32 | size_of(header, &self.cx.shape));
        }
    }

    /// Measures from time to time how many entries the shard can hold, and so how many keys to
    /// sample.
    #[inline]
    pub(super) fn measure_sample(&self) {
        if self.word(shard::SEQUENCE) % MEASURE_EVERY == 0 {
            self.measure_sample_now();
        }
    }

    #[cold]
    fn measure_sample_now(&self) {
        let shape = &self.cx.shape;
        let segments = shape.segments_each;
        // Pinned entries leave this for the others.
        let of_pinned = self.log_count(LogKind::Pinned, log::SEGMENTS)
            + self.log_count(LogKind::Pinned, log::BODY_BYTES) / shape.segment_bytes;
        let segments = segments.saturating_sub(self.word(shard::INDEX_SEGMENTS) + of_pinned);
        let used = self.used(LogKind::Small, super::capacity::Unit::Bytes)
            + self.used(LogKind::Main, super::capacity::Unit::Bytes);
        let mean_bytes = (used / self.entries().max(1)).max(8);
        let by_bytes = (segments * shape.log_bytes / mean_bytes).max(1);
        let by_entries = match shape.max_entries_each {
            0 => u64::MAX,
            most => most.saturating_sub(self.log_count(LogKind::Pinned, log::ENTRIES)).max(1),
        };
        let entries = by_bytes.min(by_entries);
        let least = SHADOW_MIN.min(entries);
        let capacity = (entries / SHADOW_PART).clamp(least, shape.shadow_len.max(least));
        let has_costs = by_bytes < by_entries;
        // With varying sizes the number of entries varies: leave places for more than the mean.
        let sampled = if has_costs { (capacity * 3 / 4).max(1) } else { capacity };
        let below = ((u128::from(sampled) << 32) / u128::from(entries)) as u64;
        let at = shape.policy_selection_at(self.at);
        let costs = if has_costs { HAS_COSTS } else { 0 };
        self.region().set(at + policy_selection::SHADOW_CAPACITY, sampled | costs);
        self.region().set(at + policy_selection::MEAN_BYTES, mean_bytes);
        self.set_word(shard::SAMPLED_BELOW, below);
    }

    /// Replays the readers' notes and then this event on all shadows. Changes the setting if
    /// another one has earned it.
    #[cold]
    fn replay(&self, event: Event, request: u64) {
        let region = self.region();
        let shape = &self.cx.shape;
        let at = shape.policy_selection_at(self.at);
        let capacity_word = region.get(at + policy_selection::SHADOW_CAPACITY);
        let entries = (capacity_word & (HAS_COSTS - 1)).clamp(1, shape.shadow_len);
        let [surplus, shortened] = [policy_selection::SURPLUS, policy_selection::SHORTENED];
        let mut lead = Lead::new(region.get(at + surplus), region.get(at + shortened), entries);
        let capacity = (entries - lead.shortened) * COST_OF_MEAN;
        let mean_bytes = region.get(at + policy_selection::MEAN_BYTES).clamp(8, 1 << 40);
        let cost_of = |request: u64| match capacity_word & HAS_COSTS {
            0 => COST_OF_MEAN,
            _ => ((request & SIZE_MAX) * 8 * COST_OF_MEAN / mean_bytes).max(1),
        };
        let noted = region.get(at + policy_selection::NOTED_COUNT);
        let replayed = region.get(at + policy_selection::REPLAYED_COUNT);
        let new = noted.wrapping_sub(replayed).min(policy_selection::NOTED_LEN);
        region.set(at + policy_selection::REPLAYED_COUNT, noted);
        // On the stack: nothing is allocated under the lock.
        let mut events = SmallVec::<[_; EVENTS_MAX]>::new();
        for count in (1..=new).rev() {
            let place = noted.wrapping_sub(count) % policy_selection::NOTED_LEN;
            events.push((Event::Read, region.get(at + policy_selection::NOTED + place * 8)));
        }
        events.push((event, request));
        let mut regrets = region.view::<{ SETTINGS.len() }>(at + policy_selection::REGRETS).words();
        let active = self.active_setting();
        let mut won = [[false; SETTINGS.len()]; EVENTS_MAX];
        for (index, setting) in SETTINGS.iter().enumerate() {
            let len = shape.shadow_len;
            let at = at + policy_selection::SHADOWS + index as u64 * shadow_bytes(len);
            // Changes nothing in a shadow that has the key; if the capacity was reduced, the next event counts.
            let is_overwrite = new == 0 && event == Event::Overwritten;
            if is_overwrite && Shadow::has_entry(region, at, len, (request >> 32) as u32) {
                continue;
            }
            let mut shadow = Shadow::load(region, at, len, setting, shape.favour);
            for ((event, request), won) in events.iter().zip(&mut won) {
                let hash = (request >> 32) as u32;
                let was_there = shadow.apply(*event, hash, cost_of(*request), capacity);
                won[index] = was_there && *event == Event::Read;
            }
            shadow.store();
        }
        // Notes come first, and each was a hit of the cache.
        for (index, ((event, _), won)) in events.iter().zip(&won).enumerate() {
            if *event == Event::Read {
                lead = lead.after(won[active], (index as u64) < new, entries);
            }
        }
        region.set(at + surplus, lead.surplus);
        region.set(at + shortened, lead.shortened);
        let weighs_bytes = shape.favour == Favour::Bytes && capacity_word & HAS_COSTS != 0;
        // In a shadow of a dozen entries of different sizes a few large ones are ahead by luck, so
        // a change costs hits that count most.
        let worth_max = if weighs_bytes { WORTH_MAX } else { WORTH_OF_HIT };
        for ((_, request), won) in events.iter().zip(&won) {
            let worth = if weighs_bytes { cost_of(*request) } else { WORTH_OF_HIT };
            let worth = worth.min(worth_max);
            for (regret, hit) in regrets.iter_mut().zip(won) {
                let gain = worth * u64::from(*hit);
                let given_up = worth * u64::from(won[active]);
                *regret = regret.saturating_add(gain).saturating_sub(given_up);
            }
            if let Some(better) = better_setting(&regrets, active, entries, worth_max) {
                regrets = [0; SETTINGS.len()];
                self.set_word(shard::SETTING, better as u64);
                self.add_word(shard::SWITCHES, 1);
                break;
            }
        }
        region.copy_in(at + policy_selection::REGRETS, &regrets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Cache, Config, Place, Ttl, Value};

    fn cache(max_entries: u64) -> Cache {
        let config = Config { max_entries: Some(max_entries), ..Config::default() };
        Cache::open(&Place::Private, &Config { size_bytes: 1 << 20, ..config }).unwrap()
    }

    /// Hits of a stream of keys, each stored when it is missing.
    fn hits(cache: &Cache, keys: impl Iterator<Item = u64>) -> u64 {
        let mut buffer = Buffer::new();
        keys.filter(|key| {
            let key = key.to_le_bytes();
            let hit = cache.get(&key, &mut buffer).unwrap().is_some();
            if !hit {
                cache.set(&key, Value::bytes(b""), Ttl::Never).unwrap();
            }
            hit
        })
        .count() as u64
    }

    #[test]
    fn the_setting_follows_the_requests() {
        let cache = cache(200);
        let setting = || cache.writes().lock(0).unwrap().active_setting();
        // Each key once more after 120 others: frequency keeps none of them.
        let pairs = (0..40_000u64).map(|n| if n % 2 == 0 { n } else { n.saturating_sub(121) });
        assert!(hits(&cache, pairs) > 18_000);
        assert!(SETTINGS[setting()].small_percent >= 80, "{}", setting());
        // A loop of 1.5 times the cache: recency keeps none of it.
        let looped = hits(&cache, (0..60_000u64).map(|n| (1 << 32) + n % 300));
        assert!(looped > 30_000, "{looped}");
        assert!(SETTINGS[setting()].small_percent <= 5, "{}", setting());
    }

    #[test]
    fn an_overwrite_is_replayed_where_its_key_is_missing_and_with_the_notes_of_readers() {
        let cache = cache(200);
        hits(&cache, 0..400);
        let shard = cache.writes().lock(0).unwrap();
        let (region, len) = (shard.region(), cache.cx.shape.shadow_len);
        let at = cache.cx.shape.policy_selection_at(shard.at);
        let shadows = (0..SETTINGS.len() as u64)
            .map(|index| at + policy_selection::SHADOWS + index * shadow_bytes(len));
        let have = |key: u64| {
            let has = |at| Shadow::has_entry(region, at, len, key as u32);
            shadows.clone().map(has).collect::<Vec<_>>()
        };
        let overwrite = |key: u64| shard.replay(Event::Overwritten, key << 32 | 1);
        // Their hashes are drawn for each file.
        let missing = || (1..).find(|key| have(*key) == [false; SETTINGS.len()]).unwrap();
        let present = missing();
        overwrite(present);
        assert_eq!(have(present), [true; SETTINGS.len()]);
        let end = at + policy_selection::SHADOWS + SETTINGS.len() as u64 * shadow_bytes(len);
        let words = || (at..end).step_by(8).map(|at| region.get(at)).collect::<Vec<_>>();
        let before = words();
        overwrite(present);
        assert_eq!(words(), before);
        let noted = missing();
        let count = region.get(at + policy_selection::NOTED_COUNT);
        let place = count % policy_selection::NOTED_LEN;
        region.set(at + policy_selection::NOTED + place * 8, noted << 32 | 1);
        region.set(at + policy_selection::NOTED_COUNT, count + 1);
        overwrite(present);
        assert!(have(noted).contains(&true));
    }

    #[test]
    fn any_words_are_a_policy_selection() {
        let cache = cache(100);
        let at = cache.cx.arena.geometry().shard_at(0);
        let policy_selection_at = cache.cx.shape.policy_selection_at(at);
        let end = policy_selection_at
            + policy_selection::SHADOWS
            + policy_selection::SETTING_COUNT * shadow_bytes(cache.cx.shape.shadow_len);
        let mut state = 3u64;
        for round in 0..50u64 {
            for word in (policy_selection_at..end).step_by(8) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                cache.cx.arena.region().set(word, state ^ state >> 31);
            }
            cache.cx.arena.region().set(at + shard::SETTING, state);
            cache.cx.arena.region().set(at + shard::SAMPLED_BELOW, u64::MAX);
            hits(&cache, (0..400).map(|n| round * 150 + n % 300));
            assert_eq!(cache.len(), 100);
        }
    }
}
