//! The tournament: which setting of the policy is in force.
//!
//! No setting is good at everything, so each plays on a shadow of its own, fed by the requests for
//! a sample of the keys. For each setting a sum is kept of the hits that its shadow had more than
//! that of the setting in force, never below zero (a CUSUM, Page 1954); it takes over when the sum
//! has paid for the change. Every place that changes its role costs up to one hit, of those that
//! count most, so the price is the part of the cache to be rebuilt: short phases, and sweeps that
//! favour now one setting and now another, do not pay it.
//!
//! Who reads takes no lock, so a hit of a sampled key is only *noted* (two words that are not
//! touched otherwise), and replayed by the next sampled write, under the shard's lock. Notes may be
//! lost to other readers, or when nobody writes: a few less requests in the sample.
//!
//! A sample can have fewer of the keys that matter than its share: then every shadow hits what the
//! cache does not, and nothing tells the settings apart. So the shadow of the setting in force is
//! compared with the cache itself, and while it hits more, all shadows get less room.
//!
//! Sampled are the keys whose hash is below a word of the shard, at most one in four of caches
//! beyond a few dozen entries, and as few as make a shadow of 64 entries of larger ones.

use smallvec::SmallVec;

use super::setting::SETTINGS;
use super::shadow::{Event, Shadow, COST_OF_MEAN};
use crate::cache::Cache;
use crate::hash::KeyHash;
use crate::layout::{shadow_bytes, shard, tournament, Shape};
use crate::log::LogKind;
use crate::read::ReadersLine;
use crate::record::Head;
use crate::shard::Shard;
use crate::value::Favour;

/// What a hit counts in the sums: as much as an entry of mean size costs, so that where bytes are
/// favoured a hit can count what its entry costs,
const WORTH_OF_HIT: u64 = COST_OF_MEAN;
/// though not more than so much: no single one decides.
const WORTH_MOST: u64 = 4 * COST_OF_MEAN;
/// Hits that a change of setting costs in any case.
const SWITCH_HITS: u64 = 4;
/// Of the cache's places, in per cent, how many change their role in any case.
const SWITCH_PERCENT: u64 = 25;
/// Entries of a shadow at the least, if the cache has as many; and the part of the cache at the most.
const SHADOW_LEAST: u64 = 16;
const SHADOW_PART: u64 = 4;
/// What one sampled write replays at the most: all notes, and itself.
const EVENTS_MOST: usize = tournament::NOTED_LEN as usize + 1;
/// The sample is measured anew after so many writes.
const MEASURE_EVERY: u64 = 16;
/// Bits of a request's size, in units of eight bytes.
const SIZE_MOST: u64 = u32::MAX as u64;
/// Hits more than the cache's after which the shadows' room is shortened by an entry, and the part
/// of it that can be taken.
const SURPLUS_MOST: u64 = 8;
const SHORTENED_PART: u64 = 4;
const SURPLUS_BIAS: u64 = 1 << 63;
/// Set in [`tournament::SHADOW_ROOM`] if bytes are short, not entries.
const HAS_COSTS: u64 = 1 << 32;

fn size_of(head: &Head, shape: &Shape) -> u64 {
    (head.total_bytes(shape) / 8).min(SIZE_MOST)
}

impl Cache {
    /// Shows the tournament a hit, if its key is sampled. Takes no lock.
    #[inline(always)]
    pub(crate) fn sample_hit(&self, shard: ReadersLine<'_>, hash: KeyHash, head: &Head) {
        let below = shard.get(shard::readers_word(shard::SAMPLED_BELOW));
        if u64::from(hash.first()) < below {
            self.note_hit(hash, size_of(head, &self.shape));
        }
    }

    #[cold]
    fn note_hit(&self, hash: KeyHash, size: u64) {
        let region = self.arena.region();
        let at = self.shape.tournament_at(self.shard_at(hash));
        let count = region.get(at + tournament::NOTED_COUNT);
        let place = count % tournament::NOTED_LEN;
        let word = hash.0 >> 32 << 32 | size;
        region.set(at + tournament::NOTED + place * 8, word);
        region.set(at + tournament::NOTED_COUNT, count.wrapping_add(1));
    }
}

impl Shard<'_> {
    /// Shows the tournament that a key was looked up in vain and is stored now.
    #[inline]
    pub(super) fn sample_insert(&self, hash: KeyHash, head: &Head) {
        self.sample(Event::Read, hash, head);
    }

    /// Shows the tournament that a key is stored over.
    #[inline(always)]
    pub fn sample_overwrite(&self, hash: KeyHash, head: &Head) {
        self.sample(Event::Overwritten, hash, head);
    }

    /// Shows the tournament that a key was removed, or had expired: no shadow shall hit it.
    #[inline]
    pub(super) fn sample_remove(&self, hash: KeyHash, head: &Head) {
        self.sample(Event::Removed, hash, head);
    }

    #[inline(always)]
    fn sample(&self, event: Event, hash: KeyHash, head: &Head) {
        if u64::from(hash.first()) < self.word(shard::SAMPLED_BELOW) {
            self.play(event, hash.0 >> 32 << 32 | size_of(head, &self.cache.shape));
        }
    }

    /// Measures, now and then, how many entries the shard can have, and so how many keys to sample.
    #[inline]
    pub(super) fn measure_sample(&self) {
        if self.word(shard::SEQUENCE) % MEASURE_EVERY == 0 {
            self.measure_sample_now();
        }
    }

    #[cold]
    fn measure_sample_now(&self) {
        let shape = &self.cache.shape;
        let segments = self.arena().geometry().segment_count / shape.shard_count;
        let segments = segments.saturating_sub(self.word(shard::INDEX_SEGMENTS));
        let used = self.used(LogKind::Small, super::capacity::Unit::Bytes)
            + self.used(LogKind::Main, super::capacity::Unit::Bytes);
        let mean_bytes = (used / self.entries().max(1)).max(8);
        let by_bytes = (segments * shape.log_bytes / mean_bytes).max(1);
        let by_entries = match shape.max_entries {
            0 => u64::MAX,
            most => most.div_ceil(shape.shard_count),
        };
        let entries = by_bytes.min(by_entries);
        let least = SHADOW_LEAST.min(entries);
        let room = (entries / SHADOW_PART).clamp(least, shape.shadow_len.max(least));
        let has_costs = by_bytes < by_entries;
        // With entries of many sizes their number varies: places are kept for more than the mean.
        let sampled = if has_costs { (room * 3 / 4).max(1) } else { room };
        let below = ((u128::from(sampled) << 32) / u128::from(entries)) as u64;
        let at = shape.tournament_at(self.at);
        let costs = if has_costs { HAS_COSTS } else { 0 };
        self.region().set(at + tournament::SHADOW_ROOM, sampled | costs);
        self.region().set(at + tournament::MEAN_BYTES, mean_bytes);
        self.set_word(shard::SAMPLED_BELOW, below);
    }

    /// Replays what readers noted, and then this event, on all shadows; changes the setting if
    /// another has earned it.
    #[cold]
    fn play(&self, event: Event, request: u64) {
        let region = self.region();
        let shape = &self.cache.shape;
        let at = shape.tournament_at(self.at);
        let room_word = region.get(at + tournament::SHADOW_ROOM);
        let entries = (room_word & (HAS_COSTS - 1)).clamp(1, shape.shadow_len);
        let shortened = region.get(at + tournament::SHORTENED).min(entries / SHORTENED_PART);
        let room = (entries - shortened) * COST_OF_MEAN;
        let mean_bytes = region.get(at + tournament::MEAN_BYTES).clamp(8, 1 << 40);
        let cost_of = |request: u64| match room_word & HAS_COSTS {
            0 => COST_OF_MEAN,
            _ => ((request & SIZE_MOST) * 8 * COST_OF_MEAN / mean_bytes).max(1),
        };
        let noted = region.get(at + tournament::NOTED_COUNT);
        let replayed = region.get(at + tournament::REPLAYED_COUNT);
        let new = noted.wrapping_sub(replayed).min(tournament::NOTED_LEN);
        region.set(at + tournament::REPLAYED_COUNT, noted);
        // No memory is asked for under the lock.
        let mut events = SmallVec::<[_; EVENTS_MOST]>::new();
        for count in (1..=new).rev() {
            let place = noted.wrapping_sub(count) % tournament::NOTED_LEN;
            events.push((Event::Read, region.get(at + tournament::NOTED + place * 8)));
        }
        events.push((event, request));
        let mut regrets = region.view::<{ SETTINGS.len() }>(at + tournament::REGRETS).words();
        let in_force = self.setting_in_force();
        let mut won = [[false; SETTINGS.len()]; EVENTS_MOST];
        for (index, setting) in SETTINGS.iter().enumerate() {
            let shadow_at =
                at + tournament::SHADOWS + index as u64 * shadow_bytes(shape.shadow_len);
            let mut shadow =
                Shadow::load(region, shadow_at, shape.shadow_len, setting, shape.favour);
            for ((event, request), won) in events.iter().zip(&mut won) {
                let hash = (request >> 32) as u32;
                let was_there = shadow.happen(*event, hash, cost_of(*request), room);
                won[index] = was_there && *event == Event::Read;
            }
            shadow.store();
        }
        let is_hit = |index: usize| (index as u64) < new;
        let shadow_hits = events
            .iter()
            .zip(&won)
            .enumerate()
            .filter(|(_, ((event, _), _))| *event == Event::Read)
            .map(|(index, (_, won))| (won[in_force], is_hit(index)));
        self.compare_with_cache(at, shortened, entries, shadow_hits);
        let weighs_bytes = shape.favour == Favour::Bytes && room_word & HAS_COSTS != 0;
        // In a shadow of a dozen entries of many sizes a few large ones are ahead by luck: so a change
        // costs hits that count most.
        let worth_most = if weighs_bytes { WORTH_MOST } else { WORTH_OF_HIT };
        for ((_, request), won) in events.iter().zip(&won) {
            let worth = if weighs_bytes { cost_of(*request) } else { WORTH_OF_HIT };
            let worth = worth.min(worth_most);
            for (regret, hit) in regrets.iter_mut().zip(won) {
                let gain = worth * u64::from(*hit);
                let given_up = worth * u64::from(won[in_force]);
                *regret = regret.saturating_add(gain).saturating_sub(given_up);
            }
            if let Some(better) = better_setting(&regrets, in_force, entries, worth_most) {
                regrets = [0; SETTINGS.len()];
                self.set_word(shard::SETTING, better as u64);
                self.add_word(shard::SWITCHES, 1);
                break;
            }
        }
        region.copy_in(at + tournament::REGRETS, &regrets);
    }
}

impl Shard<'_> {
    /// Shortens or lengthens the shadows' room by what the shadow of the setting in force hit, and
    /// what the cache did.
    fn compare_with_cache(
        &self,
        at: u64,
        shortened: u64,
        entries: u64,
        hits: impl Iterator<Item = (bool, bool)>,
    ) {
        let mut surplus = self.region().get(at + tournament::SURPLUS);
        if surplus.abs_diff(SURPLUS_BIAS) > SURPLUS_MOST {
            surplus = SURPLUS_BIAS;
        }
        let mut shortened = shortened;
        for (shadow, cache) in hits {
            surplus = surplus + u64::from(shadow) - u64::from(cache);
            if surplus.abs_diff(SURPLUS_BIAS) < SURPLUS_MOST {
                continue;
            }
            shortened = if surplus > SURPLUS_BIAS {
                (shortened + 1).min(entries / SHORTENED_PART)
            } else {
                shortened.saturating_sub(1)
            };
            surplus = SURPLUS_BIAS;
        }
        self.region().set(at + tournament::SURPLUS, surplus);
        self.region().set(at + tournament::SHORTENED, shortened);
    }
}

/// The setting that has most more than the price of the change, if one has. A hit counts `worth_most`
/// at the most.
fn better_setting(
    regrets: &[u64],
    in_force: usize,
    entries: u64,
    worth_most: u64,
) -> Option<usize> {
    let excess = |index: usize| {
        let rebuilt = SETTINGS[index].small_percent.abs_diff(SETTINGS[in_force].small_percent);
        let price = 100 * SWITCH_HITS + entries * (rebuilt + SWITCH_PERCENT);
        regrets[index].saturating_mul(100).checked_sub(worth_most * price + 1)
    };
    (0..regrets.len())
        .filter(|index| *index != in_force)
        .filter_map(|index| Some((excess(index)?, index)))
        .max()
        .map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Config, Place, Ttl, Value};

    fn cache(max_entries: u64) -> Cache {
        let config = Config { max_entries: Some(max_entries), ..Config::default() };
        Cache::open(&Place::Private, &Config { size_bytes: 1 << 20, ..config }).unwrap()
    }

    /// Hits of a stream of keys, each stored when it is not there.
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
    fn the_setting_follows_what_the_keys_do() {
        let cache = cache(200);
        let setting = || cache.lock_shard(0).unwrap().setting_in_force();
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
    fn any_words_are_a_tournament() {
        let cache = cache(100);
        let at = cache.arena.geometry().shard_at(0);
        let tournament_at = cache.shape.tournament_at(at);
        let end = tournament_at
            + tournament::SHADOWS
            + tournament::SETTING_COUNT * shadow_bytes(cache.shape.shadow_len);
        let mut state = 3u64;
        for round in 0..50u64 {
            for word in (tournament_at..end).step_by(8) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                cache.arena.region().set(word, state ^ state >> 31);
            }
            cache.arena.region().set(at + shard::SETTING, state);
            cache.arena.region().set(at + shard::SAMPLED_BELOW, u64::MAX);
            hits(&cache, (0..400).map(|n| round * 150 + n % 300));
            assert_eq!(cache.len(), 100);
        }
    }

    #[test]
    fn a_setting_takes_over_when_it_has_paid_for_what_is_rebuilt() {
        // From 5 to 30 per cent of 64 entries: 4 + 64 * 0.5 = 36 hits.
        let mut regrets = [0u64; SETTINGS.len()];
        regrets[2] = 36 * WORTH_OF_HIT;
        assert_eq!(better_setting(&regrets, 0, 64, WORTH_OF_HIT), None);
        regrets[2] = 37 * WORTH_OF_HIT;
        assert_eq!(better_setting(&regrets, 0, 64, WORTH_OF_HIT), Some(2));
        // From 5 to 1 per cent it is less, 4 + 64 * 0.29 = 22.6: farther above its price, it wins.
        regrets[1] = 37 * WORTH_OF_HIT;
        assert_eq!(better_setting(&regrets, 0, 64, WORTH_OF_HIT), Some(1));
        // Where a hit may count four, the price is four times as high.
        assert_eq!(better_setting(&regrets, 0, 64, WORTH_MOST), None);
        regrets[2] = 4 * 36 * WORTH_OF_HIT + 1;
        assert_eq!(better_setting(&regrets, 0, 64, WORTH_MOST), Some(2));
        // Damaged sums are sums.
        assert!(better_setting(&[u64::MAX; SETTINGS.len()], 4, 64, WORTH_OF_HIT).is_some());
    }
}
