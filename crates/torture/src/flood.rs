//! `torture flood`: stores keys that were chosen to collide. Keys that collide in one file must not
//! collide in another, since every file has its own hash key. Anyone who can read a file can read
//! its hash key, and so find keys that collide there. Those must not harm other keys.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tuckbox_arena::layout::header;
use tuckbox_engine::format::hash::{Hasher, KeyHash};
use tuckbox_engine::{Buffer, Cache, Config, Place, Ttl, Value};
use tuckbox_testkit::watchdog::Watchdog;

use crate::place::Folder;
use crate::report::Report;

/// The arguments of `torture flood`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Keys that collide.
    #[arg(long, default_value_t = 2_000)]
    pub keys: u64,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Negative control: claims that nothing is ever found.
    #[arg(long)]
    pub lie_miss: bool,
    /// Negative control: floods the very file whose hash key chose the keys, as if hashes had no
    /// key.
    #[arg(long)]
    pub lie_one_key: bool,
}

const SIZE_BYTES: u64 = 8 << 20;
/// By how much the index may exceed twice its earlier size: a few begun segments, and their ghosts.
const INDEX_MORE_BYTES: u64 = 512 << 10;
/// How many bits of the first bucket choice all keys of a flood share.
const FIRST_BITS: u32 = 12;
/// How many keys also share the tag, so that each must be compared.
const TAGGED: u64 = 24;
/// How many keys share bits of both bucket choices, and how many bits of each.
const DOUBLE: u64 = 300;
const DOUBLE_BITS: u32 = 9;
/// A slower operation walked through a bucket without an end. The rest allows for a busy machine.
const SLOWEST_MOST: Duration = Duration::from_secs(5);

fn open(folder: &Folder, name: &str) -> (Cache, Hasher) {
    let path = folder.file(name);
    let config = Config { size_bytes: SIZE_BYTES, ..Config::default() };
    let cache = Cache::open(&Place::Path(path.clone()), &config).expect("a new cache");
    let bytes = std::fs::read(path).expect("it can be read");
    let word = |at: u64| {
        let at = at as usize;
        u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    };
    (cache, Hasher::new([word(header::HASH_KEY), word(header::HASH_KEY + 8)]))
}

/// As long as keys usually are.
type Key = [u8; 24];

fn key(number: u64) -> Key {
    let mut key = *b"a flood of similar keys.";
    key[8..16].copy_from_slice(&number.to_le_bytes());
    key
}

/// Keys whose hashes satisfy `is_it`, by trying.
fn search(hasher: &Hasher, count: u64, from: u64, is_it: impl Fn(KeyHash) -> bool) -> Vec<Key> {
    (from..).map(key).filter(|key| is_it(hasher.key(key))).take(count as usize).collect()
}

/// The outcome of storing and reading some keys.
struct Outcome {
    found: u64,
    wrong: u64,
    refused: u64,
    took: Duration,
    slowest: Duration,
}

fn play(cache: &Cache, keys: &[Key], lie_miss: bool) -> Outcome {
    let mut buffer = Buffer::new();
    let mut outcome =
        Outcome { found: 0, wrong: 0, refused: 0, took: Duration::ZERO, slowest: Duration::ZERO };
    let began = Instant::now();
    for key in keys {
        let start = Instant::now();
        outcome.refused += u64::from(cache.set(key, Value::bytes(key), Ttl::Never).is_err());
        // The key that was just stored is there, however many others share its buckets.
        let found = cache.get(key, &mut buffer).expect("a read");
        outcome.wrong += u64::from(found.map(|entry| entry.value) != Some(Value::bytes(key)));
        outcome.slowest = outcome.slowest.max(start.elapsed());
    }
    for key in keys {
        if let Some(entry) = cache.get(key, &mut buffer).expect("a read").filter(|_| !lie_miss) {
            outcome.wrong += u64::from(entry.value != Value::bytes(key));
            outcome.found += 1;
        }
    }
    outcome.took = began.elapsed();
    outcome
}

/// Runs `torture flood`.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::new("flood");
    let _watchdog = Watchdog::new("torture flood", Duration::from_secs(300));
    let folder = Folder::new(None);
    let (count, lie) = (arguments.keys, arguments.lie_miss);
    let (known, known_hasher) = open(&folder, "known.tuck");
    let (other, _) = open(&folder, "other.tuck");
    let mask = (1 << FIRST_BITS) - 1;
    let from = arguments.seed << 40;
    let flood = search(&known_hasher, count, from, |hash| hash.first() & mask == 7);
    let tagged = search(&known_hasher, TAGGED, from, |hash| {
        hash.first() & 0x1f == 3 && hash.tag() == 0x1234
    });
    let mask = (1 << DOUBLE_BITS) - 1;
    let double = search(&known_hasher, DOUBLE, from, |hash| {
        hash.first() & mask == 5 && hash.second() & mask == 6
    });
    let plain: Vec<Key> = (0..count).map(|number| key(from ^ number << 20)).collect();

    let baseline = play(&other, &plain, lie);
    expect_all(&mut report, "ordinary keys", &baseline, count);
    let victim = if arguments.lie_one_key { &known } else { &other };
    let before = victim.stats().segments_index;
    let elsewhere = play(victim, &flood, lie);
    expect_all(&mut report, "keys that collide in another file", &elsewhere, count);
    let outcome = play(victim, &double, lie);
    expect_all(&mut report, "keys that collide twice in another file", &outcome, DOUBLE);
    let grown = victim.stats().segments_index - before;
    // Twice the keys may need twice the index.
    let more = INDEX_MORE_BYTES / victim.stats().segment_bytes;
    report
        .expect(grown <= before + more, || format!("they made the index grow by {grown} segments"));

    // Keys that really collide. Other keys are there before, and must be kept.
    let bystanders = play(&known, &plain, lie);
    expect_all(&mut report, "bystanders", &bystanders, count);
    let before = known.stats();
    let here = play(&known, &flood, lie);
    let close = play(&known, &tagged, lie);
    let twice = play(&known, &double, lie);
    for (name, outcome) in
        [("colliding", &here), ("colliding_tagged", &close), ("colliding_twice", &twice)]
    {
        report.figure(&format!("{name}_found"), outcome.found);
        report.figure(&format!("{name}_slowest_us"), outcome.slowest.as_micros() as u64);
        report.expect(outcome.wrong == 0 && outcome.refused == 0, || {
            format!(
                "{name}: {} wrong or missing at once, {} refused",
                outcome.wrong, outcome.refused
            )
        });
        report.expect(outcome.slowest < SLOWEST_MOST, || {
            format!("{name}: an operation took {:?}", outcome.slowest)
        });
        // At least two buckets.
        report.expect(outcome.found >= 7, || format!("{name}: {} are found", outcome.found));
    }
    let mut buffer = Buffer::new();
    let mut there = 0;
    for key in &plain {
        there += u64::from(known.get(key, &mut buffer).expect("a read").is_some() && !lie);
    }
    report.figure("bystanders_found", there);
    report
        .expect(there * 100 >= count * 99, || format!("{there} of {count} other entries are left"));
    let after = known.stats();
    report.figure("index_segments_before", before.segments_index);
    report.figure("index_segments_after", after.segments_index);
    report.figure("segments", after.segments);
    report.expect(after.segments_index <= 2 * before.segments_index + more, || {
        format!(
            "the index grew from {} to {} segments",
            before.segments_index, after.segments_index
        )
    });
    let sound = known.check().map(|report| report.is_sound());
    report.expect(matches!(sound, Ok(true)), || format!("check: {sound:?}"));
    let rate = |outcome: &Outcome| (count as f64 / outcome.took.as_secs_f64()) as u64;
    report.figure("plain_keys_per_second", rate(&baseline));
    report.figure("collide_elsewhere_keys_per_second", rate(&elsewhere));
    report.figure("colliding_keys_per_second", rate(&here));
    report.figure("seed", arguments.seed);
    report.trials(3 * count + TAGGED + 2 * DOUBLE, "keys");
    report.finish()
}

fn expect_all(report: &mut Report, what: &str, outcome: &Outcome, count: u64) {
    let Outcome { found, wrong, refused, .. } = outcome;
    report.expect(*found == count && *wrong == 0 && *refused == 0, || {
        format!("{what}: {found} of {count} are found, {wrong} wrong, {refused} refused")
    });
}
