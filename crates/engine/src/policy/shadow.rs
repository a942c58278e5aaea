//! A shadow cache: the policy under one setting, simulated on a sample of the keys without values.
//! Must not know which setting is active.
//!
//! It sees the requests for the sampled keys and has the same share of the cache's capacity, so its
//! hits estimate those of the whole cache under that setting. The policy is the same in small: two
//! logs and the rules of [`super::rules`]. Only cheap entries are not kept for further rounds, and
//! the entries behind a victim are taken to be like it. Logs are not ordered in memory; each entry
//! says when it was appended, and a search finds the oldest.
//!
//! Everything is read from the file and may be damaged: loops have a budget, and any words are a
//! valid state of a shadow.

use super::ghosts::{Row, ROW_WORDS};
use super::rules::{self, Facts, Logs, Verdict};
use super::setting::Setting;
use crate::format::{
    shadow, shadow_rows, LogKind, PolicyBits, Slot, FREQUENCY_MAX, GHOST_ROW_BYTES,
};
use crate::value::Favour;

/// The words that a shadow keeps in the file.
pub trait Words {
    /// Copies words from an offset on.
    fn load(&self, at: u64, words: &mut [u64]);
    /// Stores words from an offset on.
    fn store(&self, at: u64, words: &[u64]);
}

/// The cost of an entry of mean size.
pub const COST_OF_MEAN: u64 = 64;
/// The highest cost, also for larger entries.
const COST_MAX: u64 = 0xfff;
/// Entries of the longest shadow.
const LEN_MAX: usize = 64;
/// Words before the entries.
const HEADER_WORDS: usize = (shadow::ENTRIES / 8) as usize;
const STAMP_MASK: u64 = 0xffff;
/// In an entry's word: whether it is taken, and whether its log is the main one.
const TAKEN: u16 = 1 << 7;
const MAIN: u16 = 1 << 6;
const CLOCK_MASK: u64 = 0xfff;
/// Multiplying eight bytes of 0 or 1 by this gathers them in the highest eight bits, the first byte
/// lowest.
const GATHER: u64 = 0x0102_0408_1020_4080;

/// An entry of a shadow, as its word; see [`shadow::ENTRIES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    const NONE: Entry = Entry(0);

    fn new(hash: u32, cost: u64, frequency: u64, is_admitted: bool) -> Entry {
        Entry(
            u64::from(hash as u16) << 48
                | cost.clamp(1, COST_MAX) << 8
                | u64::from(TAKEN)
                | u64::from(is_admitted) << 5
                | frequency.min(FREQUENCY_MAX) << 2,
        )
    }

    fn is_taken(self) -> bool {
        self.0 as u16 & TAKEN != 0
    }

    fn tag(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Hits, frequency and whether it is admitted: the same bits as in a slot.
    fn bits(self) -> PolicyBits {
        Slot(self.0).policy()
    }

    fn with(self, hits: u64, frequency: u64) -> Entry {
        Entry(self.0 & !0x1f | frequency.min(FREQUENCY_MAX) << 2 | hits.min(3))
    }

    fn kind(self) -> LogKind {
        LogKind::of(self.0 as u16 & MAIN != 0)
    }

    /// The bits that tell whether it is an entry, and of which log.
    fn state(self) -> u16 {
        self.0 as u16 & (TAKEN | MAIN)
    }

    /// The [`Entry::state`] of the entries of a log.
    fn state_in(kind: LogKind) -> u16 {
        match kind {
            LogKind::Main => TAKEN | MAIN,
            LogKind::Small | LogKind::Pinned => TAKEN,
        }
    }

    fn cost(self) -> u64 {
        self.0 >> 8 & COST_MAX
    }

    fn stamp(self) -> u16 {
        (self.0 >> 20) as u16
    }

    fn clock(self) -> u64 {
        self.0 >> 36 & CLOCK_MASK
    }

    fn appended(self, kind: LogKind, stamp: u64, clock: u64) -> Entry {
        let kept = self.0 & !(u64::from(MAIN) | STAMP_MASK << 20 | CLOCK_MASK << 36);
        let main = u64::from(Entry::state_in(kind) & MAIN);
        Entry(kept | main | (stamp & STAMP_MASK) << 20 | (clock & CLOCK_MASK) << 36)
    }
}

/// A request for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A lookup, followed by a store if the key was missing.
    Read,
    /// A store over an existing entry.
    Overwritten,
    /// A removal.
    Removed,
}

/// A shadow, copied from the file.
pub struct Shadow<'a, W> {
    words: &'a W,
    at: u64,
    len: usize,
    setting: &'static Setting,
    favour: Favour,
    header: [u64; HEADER_WORDS],
    entries: [Entry; LEN_MAX],
    // The most searched fields side by side: hash parts, append stamps, and for each log all ones
    // at the places of its entries.
    tags: [u16; LEN_MAX],
    stamps: [u16; LEN_MAX],
    in_log: [[u16; LEN_MAX]; 2],
    /// The entries that differ from the file, one bit each.
    changed: u64,
    /// The entries of each log, one bit each, and their total cost.
    members: [u64; 2],
    used: [u64; 2],
}

fn bits_of(mut members: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = members.trailing_zeros() as usize;
        members &= members.wrapping_sub(1);
        (place < LEN_MAX).then_some(place)
    })
}

/// The places of `wanted`, one bit each. Compares all before branching, so that the compiler can
/// use vector instructions.
fn places_of(values: &[u16; LEN_MAX], wanted: u16) -> u64 {
    let same = values.map(|value| u8::from(value == wanted));
    (0..).zip(same.chunks_exact(8)).fold(0, |places, (part, same)| {
        let same = u64::from_le_bytes(same.try_into().expect("chunks of eight"));
        places | (same.wrapping_mul(GATHER) >> 56) << (8 * part)
    })
}

impl<'a, W: Words> Shadow<'a, W> {
    /// Whether the shadow at an offset has an entry for a key.
    pub fn has_entry(words: &W, at: u64, shadow_len: u64, hash: u32) -> bool {
        let len = (shadow_len as usize).min(LEN_MAX);
        let mut loaded = [0; LEN_MAX];
        words.load(at + shadow::ENTRIES, &mut loaded[..len]);
        let is_it = |word: &u64| Entry(*word).is_taken() & (Entry(*word).tag() == hash as u16);
        // All are compared, so that the compiler can use vector instructions.
        loaded.iter().fold(false, |has, word| has | is_it(word))
    }

    /// Reads the shadow at an offset.
    // Inline: the result is long, and would be copied in memory.
    #[inline(always)]
    pub fn load(
        words: &'a W,
        at: u64,
        shadow_len: u64,
        setting: &'static Setting,
        favour: Favour,
    ) -> Shadow<'a, W> {
        let len = (shadow_len as usize).min(LEN_MAX);
        let mut loaded = [0u64; HEADER_WORDS + LEN_MAX];
        words.load(at, &mut loaded[..HEADER_WORDS + len]);
        let mut header = [0; HEADER_WORDS];
        header.copy_from_slice(&loaded[..HEADER_WORDS]);
        let mut shadow = Shadow {
            words,
            at,
            len,
            setting,
            favour,
            header,
            entries: [Entry::NONE; LEN_MAX],
            tags: [0; LEN_MAX],
            stamps: [0; LEN_MAX],
            in_log: [[0; LEN_MAX]; 2],
            changed: 0,
            members: [0; 2],
            used: [0; 2],
        };
        // One field after the other, so that the compiler can use vector instructions.
        let words = &loaded[HEADER_WORDS..];
        shadow.entries.iter_mut().zip(words).for_each(|(entry, word)| *entry = Entry(*word));
        let Shadow { entries, tags, stamps, .. } = &mut shadow;
        let (mut states, mut costs) = ([0; LEN_MAX], [0; LEN_MAX]);
        let copy = |target: &mut [u16; LEN_MAX], field: fn(Entry) -> u16| {
            target.iter_mut().zip(&*entries).for_each(|(target, entry)| *target = field(*entry));
        };
        copy(tags, Entry::tag);
        copy(stamps, Entry::stamp);
        copy(&mut states, Entry::state);
        // The highest cost has twelve bits.
        copy(&mut costs, |entry| entry.cost() as u16);
        for kind in LogKind::BOTH {
            let log = kind as usize;
            let wanted = Entry::state_in(kind);
            shadow.in_log[log] = states.map(|state| if state == wanted { u16::MAX } else { 0 });
            shadow.members[log] = places_of(&shadow.in_log[log], u16::MAX);
            let masked = costs.iter().zip(&shadow.in_log[log]).map(|(cost, is_in)| cost & is_in);
            shadow.used[log] = u64::from(masked.map(u32::from).sum::<u32>());
        }
        shadow
    }

    /// Writes back what changed.
    pub fn store(self) {
        self.words.store(self.at, &self.header);
        for place in bits_of(self.changed) {
            let at = self.at + shadow::ENTRIES + place as u64 * 8;
            self.words.store(at, &[self.entries[place].0]);
        }
    }

    fn header_word(&self, offset: u64) -> u64 {
        self.header[(offset / 8) as usize]
    }

    fn word(&mut self, offset: u64) -> &mut u64 {
        &mut self.header[(offset / 8) as usize]
    }

    fn set(&mut self, place: usize, entry: Entry) {
        let old = self.entries[place];
        if old.is_taken() {
            let log = old.kind() as usize;
            self.in_log[log][place] = 0;
            self.members[log] &= !(1 << place);
            self.used[log] -= old.cost();
        }
        if entry.is_taken() {
            let log = entry.kind() as usize;
            self.in_log[log][place] = u16::MAX;
            self.members[log] |= 1 << place;
            self.used[log] += entry.cost();
        }
        self.entries[place] = entry;
        (self.tags[place], self.stamps[place]) = (entry.tag(), entry.stamp());
        self.changed |= 1 << place;
    }

    fn members(&self, kind: LogKind) -> u64 {
        self.members[kind as usize]
    }

    fn all_members(&self) -> u64 {
        self.members[0] | self.members[1]
    }

    fn find(&self, hash: u32) -> Option<usize> {
        bits_of(places_of(&self.tags, hash as u16) & self.all_members()).next()
    }

    /// Applies a request; whether the key was there. `capacity` is in units of cost.
    pub fn apply(&mut self, event: Event, hash: u32, cost: u64, capacity: u64) -> bool {
        self.evict_until_fits(0, capacity);
        let place = self.find(hash);
        match (place, event) {
            (Some(place), Event::Read) => {
                let entry = self.entries[place];
                if entry.bits().hits() < 3 {
                    self.set(place, entry.with(entry.bits().hits() + 1, entry.bits().frequency()));
                }
            }
            (Some(place), Event::Removed) => self.set(place, Entry::NONE),
            (None, Event::Read | Event::Overwritten) => self.insert(hash, cost, capacity),
            (Some(_), Event::Overwritten) | (None, Event::Removed) => {}
        }
        place.is_some()
    }

    fn insert(&mut self, hash: u32, cost: u64, capacity: u64) {
        if cost > capacity || cost > COST_MAX {
            return;
        }
        let rows = shadow_rows(self.len as u64);
        let (at, mut row) = self.row_of(hash);
        let ghost = row.take(fingerprint(hash), rows);
        if ghost.is_some() {
            self.words.store(at, &row.words());
        }
        let idle = || {
            let victim = self.entries[self.oldest(LogKind::Main)?];
            Some(self.header_word(shadow::CLOCK).wrapping_sub(victim.clock()) & CLOCK_MASK)
        };
        let small_entries = || self.count(LogKind::Small);
        let (frequency, is_admitted) = rules::newcomer(self.setting, ghost, small_entries, idle);
        self.count_increments(1);
        if self.evict_until_fits(cost, capacity) {
            let place = (!self.all_members()).trailing_zeros() as usize;
            let entry = Entry::new(hash, cost, frequency, is_admitted);
            self.append(place, entry, LogKind::Small);
        }
    }

    /// Evicts until an entry of this cost fits; whether it does. Also called with cost 0: the
    /// capacity may have been reduced while every request hits.
    fn evict_until_fits(&mut self, cost: u64, capacity: u64) -> bool {
        // More than enough: each step drops an entry, moves one, or takes a hit from one.
        for _ in 0..8 * LEN_MAX {
            let used = self.used(LogKind::Small) + self.used(LogKind::Main);
            let has_place = cost == 0 || (self.all_members().count_ones() as usize) < self.len;
            if has_place && used + cost <= capacity {
                return true;
            }
            self.evict_one(capacity);
        }
        false
    }

    fn append(&mut self, place: usize, entry: Entry, kind: LogKind) {
        let stamp = self.word(shadow::APPENDS).wrapping_add(1);
        *self.word(shadow::APPENDS) = stamp;
        let clock = *self.word(shadow::CLOCK);
        self.set(place, entry.appended(kind, stamp, clock));
    }

    fn used(&self, kind: LogKind) -> u64 {
        self.used[kind as usize]
    }

    fn count(&self, kind: LogKind) -> u64 {
        u64::from(self.members(kind).count_ones())
    }

    fn oldest(&self, kind: LogKind) -> Option<usize> {
        let now = self.header_word(shadow::APPENDS) as u16;
        let mut ages = [0; LEN_MAX];
        let members = self.stamps.iter().zip(&self.in_log[kind as usize]);
        for (age, (stamp, is_member)) in ages.iter_mut().zip(members) {
            *age = now.wrapping_sub(*stamp) & is_member;
        }
        let most = ages.iter().fold(0, |most, age| most.max(*age));
        bits_of(places_of(&ages, most) & self.members(kind)).next()
    }

    fn count_increments(&mut self, amount: u64) {
        let held = u64::from(self.all_members().count_ones());
        let increments = self.word(shadow::INCREMENTS).saturating_add(amount);
        *self.word(shadow::INCREMENTS) = increments;
        if !rules::halves(increments, held, self.header_word(shadow::CLOCK)) {
            return;
        }
        *self.word(shadow::INCREMENTS) = 0;
        let halvings = self.word(shadow::HALVINGS).wrapping_add(1);
        *self.word(shadow::HALVINGS) = halvings;
        for place in bits_of(self.all_members()) {
            let entry = self.entries[place];
            self.set(place, entry.with(entry.bits().hits(), entry.bits().frequency() / 2));
        }
    }

    fn facts(&self, place: usize) -> Facts {
        let entry = self.entries[place];
        let cost = if self.favour == Favour::Bytes { 1 } else { entry.cost() };
        Facts::new(entry.bits(), entry.bits().frequency(), cost)
    }

    /// An entry with these facts.
    fn with_facts(&self, place: usize, facts: Facts) -> Entry {
        self.entries[place].with(facts.hits, facts.frequency)
    }

    fn evict_one(&mut self, capacity: u64) {
        let small = (capacity * self.setting.small_percent / 100).max(COST_OF_MEAN);
        let main = if self.setting.is_clock { 0 } else { capacity.saturating_sub(small) };
        let (small_used, main_used) = (self.used(LogKind::Small), self.used(LogKind::Main));
        let is_first = rules::small_is_first(small_used, COST_OF_MEAN, small, main_used);
        match self.oldest(LogKind::Small).filter(|_| is_first) {
            Some(place) => self.leave_small(place, main, main_used),
            None => {
                if let Some(victim) = self.victim() {
                    self.drop_entry(victim);
                }
            }
        }
    }

    fn leave_small(&mut self, place: usize, main: u64, main_used: u64) {
        let hits = self.entries[place].bits().hits();
        let facts = match rules::small_oldest(self.setting, self.facts(place)) {
            Verdict::GoesRound(facts) => {
                self.count_increments(1);
                return self.append(place, self.with_facts(place, facts), LogKind::Small);
            }
            Verdict::Leaves(facts) => facts,
        };
        if hits > 0 {
            self.set(place, self.with_facts(place, facts));
        }
        let has_space = main_used + self.entries[place].cost() <= main;
        let passes = main != 0 && (has_space || self.passes_admission_test(facts));
        if hits > 0 {
            self.count_increments(hits);
        }
        if !passes {
            return self.drop_entry(place);
        }
        let entry = self.entries[place];
        self.append(place, entry, LogKind::Main);
        for _ in 0..LEN_MAX {
            if self.used(LogKind::Main) <= main {
                break;
            }
            let Some(victim) = self.victim() else { break };
            self.drop_entry(victim);
        }
    }

    /// The main log's oldest entry without a hit; entries with one go round.
    fn victim(&mut self) -> Option<usize> {
        for _ in 0..4 * LEN_MAX {
            let place = self.oldest(LogKind::Main)?;
            let Verdict::GoesRound(facts) = rules::main_oldest(self.facts(place), || false) else {
                return Some(place);
            };
            self.count_increments(1);
            *self.word(shadow::WINS) = 0;
            self.append(place, self.with_facts(place, facts), LogKind::Main);
        }
        self.oldest(LogKind::Main)
    }

    fn passes_admission_test(&mut self, entry: Facts) -> bool {
        let Some(place) = self.victim() else { return true };
        let wins = self.header_word(shadow::WINS);
        let verdict = rules::admission(self, entry, &place, self.facts(place), wins);
        *self.word(shadow::WINS) = verdict.wins;
        if verdict.victim_goes_round {
            self.append(place, self.entries[place], LogKind::Main);
        }
        verdict.passes
    }

    fn drop_entry(&mut self, place: usize) {
        let facts = self.facts(place);
        if facts.hits > 0 {
            self.count_increments(facts.hits);
        }
        let hash = (self.entries[place].0 >> 48) as u32;
        let (at, mut row) = self.row_of(hash);
        let frequency = (facts.frequency + facts.hits).min(FREQUENCY_MAX);
        row.put(fingerprint(hash), frequency, self.entries[place].kind() == LogKind::Main);
        self.words.store(at, &row.words());
        let clock = self.word(shadow::CLOCK).wrapping_add(1);
        *self.word(shadow::CLOCK) = clock;
        self.set(place, Entry::NONE);
    }

    /// The row of a key's ghost, and its offset.
    fn row_of(&self, hash: u32) -> (u64, Row) {
        let rows = shadow_rows(self.len as u64).max(1);
        let row = u64::from(hash >> 12 & 0xf) % rows;
        let at = self.at + shadow::ENTRIES + self.len as u64 * 8 + row * GHOST_ROW_BYTES;
        let mut words = [0; ROW_WORDS];
        self.words.load(at, &mut words);
        (at, Row::new(words, self.header_word(shadow::HALVINGS)))
    }
}

impl<W: Words> Logs for Shadow<'_, W> {
    /// The place of an entry.
    type Entry = usize;

    fn favour(&self) -> Favour {
        self.favour
    }

    fn mean_cost(&self) -> u64 {
        COST_OF_MEAN
    }

    fn is_large(&self, _cost: u64) -> bool {
        false
    }

    fn oldest_first<'s>(&'s self, oldest: &'s usize) -> impl Iterator<Item = Option<Facts>> + 's {
        std::iter::once(Some(self.facts(*oldest)))
    }
}

/// The fingerprint of a ghost, never 0; other bits choose its row.
fn fingerprint(hash: u32) -> u16 {
    ((hash & 0xfff) as u16).max(1)
}

#[cfg(test)]
mod tests {
    use tuckbox_arena::region::Region;

    use super::super::setting::SETTINGS;
    use super::*;
    use crate::format::shadow_bytes;

    const LEN: u64 = 64;
    const CAPACITY: u64 = LEN * COST_OF_MEAN;

    fn hash(key: u64) -> u32 {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    /// Hits of a stream of keys under a setting.
    fn hits(setting: usize, keys: impl Iterator<Item = u64>) -> u64 {
        let region = Region::heap(shadow_bytes(LEN));
        keys.filter(|key| {
            let mut shadow = Shadow::load(&region, 0, LEN, &SETTINGS[setting], Favour::Balanced);
            let hit = shadow.apply(Event::Read, hash(*key), COST_OF_MEAN, CAPACITY);
            assert!(shadow.used(LogKind::Small) + shadow.used(LogKind::Main) <= CAPACITY);
            shadow.store();
            hit
        })
        .count() as u64
    }

    #[test]
    fn a_loop_is_for_frequency_and_pairs_are_for_recency() {
        let looped = || (0..10_000).map(|n| n % 96);
        assert!(hits(1, looped()) > 5_000, "{}", hits(1, looped()));
        assert_eq!(hits(4, looped()), 0);
        // Each key once more after forty others.
        let pairs = || (0..10_000u64).map(|n| if n % 2 == 0 { n } else { n.saturating_sub(41) });
        assert!(hits(4, pairs()) > 4_800, "{}", hits(4, pairs()));
        assert!(hits(1, pairs()) < 2_400, "{}", hits(1, pairs()));
    }

    #[test]
    fn a_removed_key_is_missing_and_an_overwrite_is_no_hit() {
        let region = Region::heap(shadow_bytes(LEN));
        let mut shadow = Shadow::load(&region, 0, LEN, &SETTINGS[0], Favour::Balanced);
        assert!(!shadow.apply(Event::Overwritten, 5, COST_OF_MEAN, CAPACITY));
        assert!(shadow.apply(Event::Overwritten, 5, COST_OF_MEAN, CAPACITY));
        assert_eq!(shadow.entries.iter().filter(|entry| entry.bits().hits() > 0).count(), 0);
        assert!(shadow.apply(Event::Read, 5, COST_OF_MEAN, CAPACITY));
        assert!(shadow.apply(Event::Removed, 5, COST_OF_MEAN, CAPACITY));
        assert!(!shadow.apply(Event::Read, 5, COST_OF_MEAN, CAPACITY));
    }

    #[test]
    fn sizes_count_and_too_large_entries_are_left_out() {
        let region = Region::heap(shadow_bytes(LEN));
        let mut shadow = Shadow::load(&region, 0, LEN, &SETTINGS[0], Favour::Balanced);
        for key in 0..100 {
            shadow.apply(Event::Read, hash(key), 5 * COST_OF_MEAN, CAPACITY);
            assert!(shadow.used(LogKind::Small) + shadow.used(LogKind::Main) <= CAPACITY);
        }
        assert!(!shadow.apply(Event::Read, 7, COST_MAX + 1, CAPACITY));
        assert!(!shadow.apply(Event::Read, 7, COST_MAX + 1, CAPACITY));
    }

    #[test]
    fn a_reduced_capacity_holds_where_every_request_hits() {
        for (number, setting) in SETTINGS.iter().enumerate() {
            let region = Region::heap(shadow_bytes(LEN));
            let mut shadow = Shadow::load(&region, 0, LEN, setting, Favour::Balanced);
            for round in 0..20 {
                for key in 0..LEN - 4 {
                    let capacity = if round < 10 { CAPACITY } else { CAPACITY * 3 / 4 };
                    shadow.apply(Event::Read, hash(key), COST_OF_MEAN, capacity);
                    let used = shadow.used(LogKind::Small) + shadow.used(LogKind::Main);
                    assert!(used <= capacity, "{used} of {capacity}, setting {number}");
                }
            }
        }
    }

    #[test]
    fn a_loaded_shadow_is_one_whose_entries_were_set_one_by_one() {
        let mut state = 1u64;
        for len in (1..=LEN).cycle().take(500) {
            let region = Region::heap(shadow_bytes(len));
            for word in 0..shadow_bytes(len) / 8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                region.set(word * 8, state ^ state >> 31);
            }
            let loaded = Shadow::load(&region, 0, len, &SETTINGS[0], Favour::Balanced);
            let empty = Region::heap(shadow_bytes(len));
            let mut set = Shadow::load(&empty, 0, len, &SETTINGS[0], Favour::Balanced);
            for place in 0..len {
                set.set(place as usize, Entry(region.get(shadow::ENTRIES + place * 8)));
            }
            assert_eq!(
                (loaded.entries, loaded.tags, loaded.stamps),
                (set.entries, set.tags, set.stamps)
            );
            assert_eq!(
                (loaded.in_log, loaded.members, loaded.used),
                (set.in_log, set.members, set.used)
            );
            assert_eq!(loaded.changed, 0);
            let tags: Vec<u16> =
                loaded.tags.iter().map(|tag| tag.wrapping_add(state as u16 % 2)).collect();
            for tag in tags {
                let has = Shadow::has_entry(&region, 0, len, tag.into());
                assert_eq!(has, loaded.find(tag.into()).is_some(), "{tag} of {len}");
            }
        }
    }

    #[test]
    fn any_words_are_a_shadow() {
        let region = Region::heap(shadow_bytes(LEN));
        let mut state = 1u64;
        for _ in 0..500 {
            for word in 0..shadow_bytes(LEN) / 8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                region.set(word * 8, state ^ state >> 31);
            }
            for setting in &SETTINGS {
                let mut shadow = Shadow::load(&region, 0, LEN, setting, Favour::Balanced);
                for key in 0..8 {
                    shadow.apply(Event::Read, hash(key ^ state), 1 + state % 255, CAPACITY);
                }
                shadow.store();
            }
        }
    }
}
