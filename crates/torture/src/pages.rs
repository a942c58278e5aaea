//! `torture pages`: simulates the effect of a power cut on a file. Pages of the mapping reach the
//! disk in any order, and some never do. So each image is composed page by page from the file at
//! several moments, with a few pages of zeros or garbage. It is then opened as if in the next boot.
//!
//! A cache that keeps its entries may hold values that were deleted, overwritten or evicted by a tag
//! shortly before, but no value that it never had. Evicting their tags and clearing their namespace
//! then removes them. A cache that discards its entries is empty. After an orderly
//! close both hold exactly what they held. Cuts at the system calls of opening and closing are in
//! `creation`.

use std::collections::{BTreeMap, HashMap};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::time::Duration;

use tuckbox_arena::layout::{header, HEADER_BYTES};
use tuckbox_engine::{
    AfterPowerCut, Attributes, Buffer, Cache, Clock, Config, Error, Place, Terms, Ttl, Value,
};
use tuckbox_testkit::specimen::{self, config, name, Scratch};
use tuckbox_testkit::stamp::{self, Stamp};
use tuckbox_testkit::watchdog::Watchdog;

use crate::creation;
use crate::points;
use crate::report::Report;

/// The arguments of `torture pages`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The number of images.
    #[arg(long, default_value_t = 2_000)]
    pub images: u64,
    /// The size limits of the files, used in turn. A large file has several shards.
    #[arg(long, value_delimiter = ',', default_values_t = [2 << 20, 64 << 20])]
    pub sizes_bytes: Vec<u64>,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Negative control: claims that nothing is ever found.
    #[arg(long)]
    pub lie_miss: bool,
}

const KEYS: u64 = 500;
/// Keys below this are stored once, before the first moment, and never touched again.
const UNTOUCHED: u64 = 200;
/// Moments at which the file is copied.
const MOMENTS: u64 = 6;
/// Images that are composed from one history.
const IMAGES_EACH: u64 = 50;

/// At most this much is written to a large cache, so that an image takes milliseconds.
const WRITTEN_BYTES_MAX: u64 = 2 << 20;

const NUMBERS: u64 = 20;

/// Keys that are not untouched have one of these tags, or none,
const TAGS: [&str; 3] = ["users", "staff", "guests"];
/// and those from here on are in a namespace.
const IN_NAMESPACE: u64 = 450;
const NAMESPACE: &[u8] = b"blog";

fn tag_of(key: u64) -> Option<&'static str> {
    TAGS.get(key as usize % 5).copied().filter(|_| key >= UNTOUCHED)
}

/// The name of a key in the cache: with the present era of its namespace.
fn name_in(cache: &Cache, key: u64) -> Result<Vec<u8>, Error> {
    Ok(match key {
        IN_NAMESPACE.. => [name(key), cache.era(NAMESPACE)?.to_le_bytes().to_vec()].concat(),
        _ => name(key),
    })
}

fn number_name(number: u64) -> Vec<u8> {
    format!("number {number}").into_bytes()
}

/// The file of a cache at several moments of one boot, and its contents at each.
struct History {
    after_power_cut: AfterPowerCut,
    size_bytes: u64,
    moments: Vec<Vec<u8>>,
    /// The file after the cache was closed, a little after the last moment.
    closed: Vec<u8>,
    /// What is in the file at each moment, and after the close: the sequence number of the value under
    /// each name. Also entries whose tag was evicted or namespace cleared.
    kept: Vec<HashMap<Vec<u8>, u64>>,
    /// The keys that are found after the close, likewise.
    last_state: HashMap<u64, u64>,
}

impl History {
    fn config(&self) -> Config {
        Config { after_power_cut: self.after_power_cut, ..config(self.size_bytes) }
    }

    /// Whether a name had this value at a moment that may have reached the disk.
    fn had(&self, name: &[u8], sequence: u64) -> bool {
        self.kept.iter().any(|kept| kept.get(name) == Some(&sequence))
    }
}

fn history(size_bytes: u64, after_power_cut: AfterPowerCut, random: &mut fastrand::Rng) -> History {
    points::pretend_next_boot();
    let scratch = Scratch::new();
    let Place::Path(path) = scratch.place() else { unreachable!("a scratch has a path") };
    std::fs::remove_file(&path).expect("it is there");
    let mut history = History {
        after_power_cut,
        size_bytes,
        moments: Vec::new(),
        closed: Vec::new(),
        kept: Vec::new(),
        last_state: HashMap::new(),
    };
    let open = || Cache::open(&scratch.place(), &history.config()).expect("a cache");
    let mut cache = open();
    let (mut sequences, mut state, mut now_kept) = (HashMap::new(), HashMap::new(), HashMap::new());
    type Kept = HashMap<Vec<u8>, u64>;
    let mut store =
        |cache: &Cache, state: &mut HashMap<u64, u64>, kept: &mut Kept, key: u64, len, ttl| {
            let sequence = sequences.entry(key).or_insert(0);
            *sequence += 1;
            let name = name_in(cache, key).expect("an era");
            let mut value = Vec::new();
            stamp::make(&name, Stamp { writer: 1, sequence: *sequence }, len, &mut value);
            let tags: &[&str] = &tag_of(key).into_iter().collect::<Vec<_>>();
            let attributes = Attributes { tags, ..Attributes::default() };
            let terms = Terms { attributes, ..Terms::plain(ttl) };
            cache.store(&name, Value::bytes(&value), &terms).expect("there is room");
            state.insert(key, *sequence);
            kept.insert(name, *sequence);
        };
    for key in 0..UNTOUCHED {
        store(&cache, &mut state, &mut now_kept, key, 60 + (key as usize * 31) % 300, Ttl::Never);
    }
    let (mut moments, mut kept) = (Vec::new(), Vec::new());
    for moment in 0..=MOMENTS {
        moments.push(scratch_bytes(&path));
        kept.push(now_kept.clone());
        if moment == MOMENTS / 2 {
            // So that the mark of an orderly end is among the earlier pages.
            drop(cache);
            cache = open();
        }
        for _ in 0..60 {
            let key = random.u64(UNTOUCHED..KEYS);
            let ttl = if random.bool() { Ttl::Never } else { Ttl::Us(1 << 40) };
            match random.u8(..10) {
                0 => {
                    let name = name_in(&cache, key).expect("an era");
                    cache.delete(&name).expect("a delete");
                    state.remove(&key);
                    now_kept.remove(&name);
                }
                1 => {
                    cache.touch(&name_in(&cache, key).expect("an era"), ttl).expect("a touch");
                }
                3 if key % 16 == 0 => {
                    cache.advance_era(NAMESPACE).expect("a clear");
                    state.retain(|key, _| *key < IN_NAMESPACE);
                }
                3 if key % 4 == 0 => {
                    let tag = random.choice(TAGS).expect("there are some");
                    cache.evict(tag, false).expect("an eviction");
                    state.retain(|key, _| tag_of(*key) != Some(tag));
                }
                2 => {
                    store(&cache, &mut state, &mut now_kept, key, random.usize(9_000..20_000), ttl)
                }
                _ => store(&cache, &mut state, &mut now_kept, key, random.usize(60..500), ttl),
            }
            let number = random.u64(..NUMBERS);
            let least = number as i64 * 1000;
            cache.incr(&number_name(number), 1, Some(least), ttl).expect("a sum");
        }
    }
    assert_eq!(cache.stats().evictions, 0, "all of it fits");
    drop(cache);
    kept.push(now_kept);
    history.closed = scratch_bytes(&path);
    (history.moments, history.kept, history.last_state) = (moments, kept, state);
    history
}

fn scratch_bytes(path: &std::path::Path) -> Vec<u8> {
    std::fs::read(path).expect("it can be read")
}

/// How an image is composed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mix {
    /// The last moment, but one in sixteen of the changed pages from an earlier moment.
    Few,
    /// Any page from any moment.
    Any,
    /// Any page from any moment, and one page in 32 holds zeros, ones or garbage.
    Torn,
    /// No cut: the machine was restarted after the cache was closed.
    Closed,
}

impl Mix {
    const ALL: [Mix; 4] = [Mix::Few, Mix::Any, Mix::Torn, Mix::Closed];

    /// The lowest percentage of untouched entries that must be found in a cache that keeps its
    /// entries.
    fn least_percent(self) -> u64 {
        match self {
            Mix::Few => 90,
            Mix::Any => 60,
            Mix::Torn => 50,
            Mix::Closed => 100,
        }
    }
}

fn image(history: &History, mix: Mix, random: &mut fastrand::Rng) -> Vec<u8> {
    if mix == Mix::Closed {
        return history.closed.clone();
    }
    let last = history.moments.last().expect("there are several");
    let mut bytes = last.clone();
    let pages = bytes.len() / HEADER_BYTES as usize;
    for page in 0..pages {
        let range = page * HEADER_BYTES as usize..(page + 1) * HEADER_BYTES as usize;
        let from = match mix {
            Mix::Few if random.u8(..16) != 0 => last,
            _ => &history.moments[random.usize(..history.moments.len())],
        };
        match from.get(range.clone()) {
            Some(old) => bytes[range.clone()].copy_from_slice(old),
            // The file was shorter then. Pages that were not written back read as zeros.
            None => bytes[range.clone()].fill(0),
        }
        if mix == Mix::Torn && page > 0 && random.u8(..32) == 0 {
            tear(&mut bytes[range], random);
        }
    }
    if mix == Mix::Torn {
        tear_header(history, &mut bytes[..HEADER_BYTES as usize], random);
    }
    // The open synced the mark, and its sector holds nothing else that changes.
    let mark = sector_of(header::USE_MARK);
    bytes[mark.clone()].copy_from_slice(&last[mark]);
    bytes
}

fn tear(bytes: &mut [u8], random: &mut fastrand::Rng) {
    match random.u8(..3) {
        0 => bytes.fill(0),
        1 => bytes.fill(0xff),
        _ => random.fill(bytes),
    }
}

/// The unit that a disk writes atomically.
const SECTOR_BYTES: usize = 512;

fn sector_of(at: u64) -> std::ops::Range<usize> {
    let from = at as usize / SECTOR_BYTES * SECTOR_BYTES;
    from..from + SECTOR_BYTES
}

/// Takes each sector of the header from any moment, or tears it if it has no constant fields. The
/// constant fields were durable before the file got its name, and their bytes never change.
fn tear_header(history: &History, bytes: &mut [u8], random: &mut fastrand::Rng) {
    for (number, sector) in bytes.chunks_mut(SECTOR_BYTES).enumerate() {
        let from = number * SECTOR_BYTES;
        let moment = &history.moments[random.usize(..history.moments.len())];
        sector.copy_from_slice(&moment[from..from + SECTOR_BYTES]);
        if from as u64 >= header::FIXED_END && random.u8(..8) == 0 {
            tear(sector, random);
        }
    }
}

/// What the images of one mix held.
#[derive(Debug, Clone, Copy, Default)]
struct Left {
    images: u64,
    /// How many of the untouched keys were found.
    untouched: u64,
    /// Entries that had been deleted or overwritten when the machine stopped.
    came_back: u64,
    /// Entries that the following check counted as lost.
    lost: u64,
}

/// Runs `torture pages`.
pub fn run(arguments: &Arguments) -> ExitCode {
    points::require("torture pages");
    let mut report = Report::new("pages");
    let mut random = fastrand::Rng::with_seed(arguments.seed);
    let scratch = Scratch::new();
    let mut sums: BTreeMap<(AfterPowerCut, Mix), Left> = BTreeMap::new();
    let (mut watchdog, mut past) = (None, None);
    for number in 0..arguments.images {
        if number % IMAGES_EACH == 0 {
            watchdog = Some(Watchdog::new("50 images of torture pages", Duration::from_secs(120)));
            let which = number / IMAGES_EACH;
            let mode = [AfterPowerCut::Keep, AfterPowerCut::Discard][(which % 2) as usize];
            // One shard, or several.
            let size_bytes =
                arguments.sizes_bytes[(which / 2) as usize % arguments.sizes_bytes.len()];
            past = Some(history(size_bytes, mode, &mut random));
        }
        let history = past.as_ref().expect("it was just made");
        let mix = Mix::ALL[(number % 4) as usize];
        scratch.fill(&image(history, mix, &mut random));
        let is_used = number % 8 >= 4;
        let played = catch_unwind(AssertUnwindSafe(|| {
            points::pretend_next_boot();
            judge(&scratch, history, mix, is_used, arguments.lie_miss)
        }));
        let what = match played {
            Ok(Ok(left)) => {
                let sum = sums.entry((history.after_power_cut, mix)).or_default();
                sum.images += 1;
                sum.untouched += left.untouched;
                sum.came_back += left.came_back;
                sum.lost += left.lost;
                continue;
            }
            Ok(Err(what)) => what,
            Err(panic) => {
                format!("panic: {}", panic.downcast_ref::<String>().cloned().unwrap_or_default())
            }
        };
        let mode = history.after_power_cut;
        report.fail(format!(
            "image {number}, {mode:?}, {} bytes, {mix:?}: {what}",
            history.size_bytes
        ));
        if number > 200 {
            break;
        }
    }
    drop(watchdog);
    report_sums(&sums, &mut report);
    report.figure("seed", arguments.seed);
    let cuts = creation::run(&mut report);
    report.figure("cuts_at_calls", cuts);
    report.trials(arguments.images + cuts, "images");
    report.finish()
}

/// Reports the sums, and demands that caches that keep their entries have them.
fn report_sums(sums: &BTreeMap<(AfterPowerCut, Mix), Left>, report: &mut Report) {
    for ((mode, mix), left) in sums {
        let name = format!("{mode:?}_{mix:?}").to_lowercase();
        let all = left.images * UNTOUCHED;
        report.figure(&format!("{name}_untouched_found"), left.untouched);
        report.figure(&format!("{name}_untouched"), all);
        report.figure(&format!("{name}_came_back"), left.came_back);
        let keeps = *mode == AfterPowerCut::Keep || *mix == Mix::Closed;
        let least = if keeps { mix.least_percent() } else { 0 };
        report.expect(left.untouched * 100 >= all * least, || {
            format!("{name}: {} of {all} untouched entries are found", left.untouched)
        });
    }
    let sum_of = |of: fn(&Left) -> u64| sums.values().map(of).sum::<u64>();
    let images = sum_of(|left| left.images);
    report.figure("lost_entries", sum_of(|left| left.lost));
    report.expect(sum_of(|left| left.lost) > 0 || images < 50, || {
        "no entry was counted as lost".into()
    });
    // Otherwise the images do not test the mode.
    report.expect(sum_of(|left| left.came_back) > 0 || images < 50, || "no entry came back".into());
}

/// Opens an image and judges its contents.
fn judge(
    scratch: &Scratch,
    history: &History,
    mix: Mix,
    is_used: bool,
    lie_miss: bool,
) -> Result<Left, String> {
    let text = |error: Error| error.to_string();
    // Later than any eviction of the history: no clock goes on at the moment of the cut.
    let later_us = Arc::new(AtomicU64::new(specimen::NOW_US + 60_000_000));
    let config = Config { clock: Clock::Manual(later_us), ..history.config() };
    let cache = Cache::open(&scratch.place(), &config).map_err(text)?;
    let is_discarded = history.after_power_cut == AfterPowerCut::Discard && mix != Mix::Closed;
    if (cache.stats().discards > 0) != is_discarded {
        return Err(format!("it was emptied {} times", cache.stats().discards));
    }
    let found = read(&cache, history, false)?;
    let deviates = found.came_back > 0 || found.untouched < UNTOUCHED || found.is_less;
    if mix == Mix::Closed && deviates {
        return Err(format!("nothing was cut, and it differs from what was closed: {found:?}"));
    }
    if is_discarded && (found.entries > 0 || !cache.is_empty()) {
        return Err(format!("{} entries are there though all were discarded", found.entries));
    }
    if is_used {
        specimen::use_it(&cache, history.size_bytes.min(WRITTEN_BYTES_MAX))?;
    }
    let lost = cache.check().map_err(text)?.lost_entries;
    let again = read(&cache, history, is_used)?;
    if is_discarded && again.entries > 0 && !is_used {
        return Err(format!("{} entries are there after a check", again.entries));
    }
    TAGS.iter().try_for_each(|tag| cache.evict(tag, false)).map_err(text)?;
    cache.advance_era(NAMESPACE).map_err(text)?;
    if let Some(key) = read(&cache, history, is_used)?.evicted {
        return Err(format!("key {key} is there after an eviction of its tag or namespace"));
    }
    specimen::works_after_check(&cache, history.size_bytes.min(WRITTEN_BYTES_MAX))?;
    // The use ended with a clear.
    let after = read(&cache, history, false)?;
    if after.entries > 0 {
        return Err(format!("{} entries are there after a clear", after.entries));
    }
    let untouched = if lie_miss { 0 } else { found.untouched };
    Ok(Left { images: 1, untouched, came_back: found.came_back, lost })
}

/// The contents of a cache.
#[derive(Debug, Clone, Copy, Default)]
struct Read {
    entries: u64,
    untouched: u64,
    came_back: u64,
    /// Whether an entry that was there at the close is missing.
    is_less: bool,
    /// A key that was found and has a tag or a namespace.
    evicted: Option<u64>,
}

/// Reads all keys. Demands that each value is one that its key had at a moment that may have
/// reached the disk, or, if the cache `was_used` since, one that this use stored.
fn read(cache: &Cache, history: &History, was_used: bool) -> Result<Read, String> {
    let mut buffer = Buffer::new();
    let mut found = Read::default();
    for key in 0..KEYS {
        let text = |error: Error| error.to_string();
        let name = name_in(cache, key).map_err(text)?;
        let last = history.last_state.get(&key);
        let Some(entry) = cache.get(&name, &mut buffer).map_err(text)? else {
            found.is_less |= last.is_some();
            continue;
        };
        let Value::Bytes { bytes, .. } = entry.value else {
            return Err(format!("key {key} is a number"));
        };
        match stamp::read(&name, bytes) {
            Ok(stamp) if history.had(&name, stamp.sequence) => {
                if key >= IN_NAMESPACE || tag_of(key).is_some() {
                    found.evicted = Some(key);
                }
                found.came_back += u64::from(last != Some(&stamp.sequence));
            }
            Ok(stamp) if was_used && stamp.sequence == 1 => {}
            other => return Err(format!("key {key} has {other:?}")),
        }
        found.entries += 1;
        found.untouched += u64::from(key < UNTOUCHED);
    }
    for number in 0..NUMBERS {
        let value = cache.get(&number_name(number), &mut buffer).map_err(|e| e.to_string())?;
        let Some(entry) = value else { continue };
        found.entries += 1;
        let least = number as i64 * 1000;
        if !matches!(entry.value, Value::Int(sum) if (0..1000).contains(&(sum - least))) {
            return Err(format!("number {number} is {:?}", entry.value));
        }
    }
    Ok(found)
}
