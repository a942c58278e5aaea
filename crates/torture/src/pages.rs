//! `torture pages`: a power cut, as far as a file sees it. Pages of the mapping reach the disk in any
//! order, and some not at all: so an image is put together page by page from what the file was at
//! several moments, with a page of zeros or garbage now and then, and opened. And a cache is created,
//! with a power cut at each system call of it: see `creation`.

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::ExitCode;
use std::time::Duration;

use tuckbox_arena::layout::{header, HEADER_BYTES};
use tuckbox_engine::{Buffer, Cache, Place, Ttl, Value};
use tuckbox_testkit::specimen::{self, config, name, stamped, Scratch};
use tuckbox_testkit::stamp;
use tuckbox_testkit::watchdog::Watchdog;

use crate::creation;
use crate::report::Report;

/// The arguments of `torture pages`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Images that are put together.
    #[arg(long, default_value_t = 2_000)]
    pub images: u64,
    /// Limit of the file.
    #[arg(long, default_value_t = 2 << 20)]
    pub size_bytes: u64,
    /// Where the random numbers begin.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Claims that nothing is ever found, to see whether that is noticed.
    #[arg(long)]
    pub lie_miss: bool,
}

const KEYS: u64 = 500;
/// Keys below this are stored once, before the first moment, and never touched again.
const UNTOUCHED: u64 = 200;
/// Moments at which the file is copied.
const MOMENTS: u64 = 6;
/// Images for which one history is used.
const IMAGES_EACH: u64 = 50;

const NUMBERS: u64 = 20;

fn number_name(number: u64) -> Vec<u8> {
    format!("number {number}").into_bytes()
}

/// A cache's file at several moments, and what was ever stored.
struct History {
    moments: Vec<Vec<u8>>,
    /// How often each key was stored.
    sequences: HashMap<u64, u64>,
}

fn history(size_bytes: u64, random: &mut fastrand::Rng) -> History {
    let scratch = Scratch::new();
    let Place::Path(path) = scratch.place() else { unreachable!("a scratch has a path") };
    std::fs::remove_file(&path).expect("it is there");
    let cache = Cache::open(&scratch.place(), &config(size_bytes)).expect("a new cache");
    let mut sequences = HashMap::new();
    let mut store = |key: u64, len: usize, ttl| {
        let sequence = sequences.entry(key).or_insert(0);
        *sequence += 1;
        let value = stamped(key, *sequence, len);
        cache.set(&name(key), Value::bytes(&value), ttl).expect("there is room");
    };
    for key in 0..UNTOUCHED {
        store(key, 60 + (key as usize * 31) % 300, Ttl::Never);
    }
    let mut moments = Vec::new();
    for _ in 0..MOMENTS {
        moments.push(scratch_bytes(&path));
        for _ in 0..60 {
            let key = random.u64(UNTOUCHED..KEYS);
            let ttl = if random.bool() { Ttl::Never } else { Ttl::Us(1 << 40) };
            match random.u8(..10) {
                0 => drop(cache.delete(&name(key)).expect("a delete")),
                1 => drop(cache.touch(&name(key), ttl).expect("a touch")),
                2 => store(key, random.usize(9_000..20_000), ttl),
                _ => store(key, random.usize(60..500), ttl),
            }
            let number = random.u64(..NUMBERS);
            let least = number as i64 * 1000;
            cache.incr(&number_name(number), 1, Some(least), ttl).expect("a sum");
        }
    }
    assert_eq!(cache.stats().evictions, 0, "all of it fits");
    moments.push(scratch_bytes(&path));
    History { moments, sequences }
}

fn scratch_bytes(path: &std::path::Path) -> Vec<u8> {
    std::fs::read(path).expect("it can be read")
}

/// What an image is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mix {
    /// The last moment, and one page in sixteen of those that changed from an earlier one.
    Few,
    /// Any page from any moment.
    Any,
    /// The same, and one page in thirty-two holds zeros, ones or garbage.
    Torn,
}

fn image(history: &History, mix: Mix, random: &mut fastrand::Rng) -> Vec<u8> {
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
            // The file was shorter then: what was not written back reads as zeros.
            None => bytes[range.clone()].fill(0),
        }
        if mix == Mix::Torn && page > 0 && random.u8(..32) == 0 {
            tear(&mut bytes[range], random);
        }
    }
    if mix == Mix::Torn {
        tear_header(history, &mut bytes[..HEADER_BYTES as usize], random);
    }
    bytes
}

fn tear(bytes: &mut [u8], random: &mut fastrand::Rng) {
    match random.u8(..3) {
        0 => bytes.fill(0),
        1 => bytes.fill(0xff),
        _ => random.fill(bytes),
    }
}

/// What a disk writes at once.
const SECTOR_BYTES: usize = 512;

/// Each sector of the header from any moment, or torn if it holds none of what never changes. That part
/// was durable before the file got its name, and is written with the same bytes ever after.
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

/// Runs it.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::new("pages");
    let mut random = fastrand::Rng::with_seed(arguments.seed);
    let scratch = Scratch::new();
    let mut found = HashMap::from([(Mix::Few as u8, [0u64; 3]), (1, [0; 3]), (2, [0; 3])]);
    let (mut dropped, mut watchdog) = (0u64, None);
    let mut past = None;
    for number in 0..arguments.images {
        if number % IMAGES_EACH == 0 {
            watchdog = Some(Watchdog::new("50 images of torture pages", Duration::from_secs(120)));
            past = Some(history(arguments.size_bytes, &mut random));
        }
        let history = past.as_ref().expect("it was just made");
        let mix = [Mix::Few, Mix::Any, Mix::Torn][(number % 3) as usize];
        let bytes = image(history, mix, &mut random);
        scratch.fill(&bytes);
        let played = catch_unwind(AssertUnwindSafe(|| {
            let cache = Cache::open(&scratch.place(), &config(arguments.size_bytes))
                .map_err(|error| error.to_string())?;
            let mut left = read(&cache, history)?;
            if number % 2 == 0 {
                specimen::use_it(&cache, arguments.size_bytes)?;
            }
            let lost = cache.check().map_err(|error| error.to_string())?.lost_entries;
            read(&cache, history)?;
            specimen::works_after_check(&cache, arguments.size_bytes)?;
            if arguments.lie_miss {
                left = 0;
            }
            Ok::<_, String>((left, lost))
        }));
        match played {
            Ok(Ok((untouched, lost))) => {
                let sums = found.entry(mix as u8).or_default();
                *sums = [sums[0] + untouched, sums[1] + UNTOUCHED, sums[2] + 1];
                dropped += lost;
            }
            Ok(Err(what)) => report.fail(format!("image {number}, {mix:?}: {what}")),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                report.fail(format!("image {number}, {mix:?}: panic: {text}"));
            }
        }
        if !report.is_good() && number > 200 {
            break;
        }
    }
    drop(watchdog);
    for (mix, least_percent) in [(Mix::Few, 90), (Mix::Any, 60), (Mix::Torn, 50)] {
        let [found, all, images] = found[&(mix as u8)];
        report.figure(&format!("untouched_found_{mix:?}").to_lowercase(), found);
        report.figure(&format!("untouched_{mix:?}").to_lowercase(), all);
        report.expect(found * 100 >= all * least_percent, || {
            format!("{mix:?}: {found} of {all} untouched entries of {images} images are found")
        });
    }
    report.figure("lost_entries", dropped);
    report.expect(dropped > 0 || arguments.images < 50, || "nothing was counted as lost".into());
    report.figure("seed", arguments.seed);
    let cuts = creation::run(&mut report);
    report.figure("creation_cuts", cuts);
    report.trials(arguments.images + cuts, "images");
    report.finish()
}

/// Every value is one that its key had. How many of the untouched keys are there.
fn read(cache: &Cache, history: &History) -> Result<u64, String> {
    let mut buffer = Buffer::new();
    let mut untouched = 0;
    for key in 0..KEYS {
        let name = name(key);
        let Some(entry) = cache.get(&name, &mut buffer).map_err(|error| error.to_string())? else {
            continue;
        };
        let Value::Bytes { bytes, .. } = entry.value else {
            return Err(format!("key {key} is a number"));
        };
        let most = history.sequences.get(&key).copied().unwrap_or(0);
        match stamp::read(&name, bytes) {
            Ok(stamp) if stamp.sequence <= most || stamp.sequence == 1 => {}
            other => return Err(format!("key {key} has {other:?}, stored {most} times")),
        }
        untouched += u64::from(key < UNTOUCHED);
    }
    for number in 0..NUMBERS {
        let found = cache.get(&number_name(number), &mut buffer).map_err(|e| e.to_string())?;
        let Some(entry) = found else { continue };
        let least = number as i64 * 1000;
        if !matches!(entry.value, Value::Int(sum) if (0..1000).contains(&(sum - least))) {
            return Err(format!("number {number} is {:?}", entry.value));
        }
    }
    Ok(untouched)
}
