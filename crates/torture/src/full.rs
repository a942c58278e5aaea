//! `torture full`: keeps a cache full, with values from 16 bytes to a megabyte, mixed and in
//! phases, so that its memory is fragmented. No value that fits may be refused, no write may empty
//! the cache, and its hit ratio must be near that of an exact LRU of the same bytes.

use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tuckbox_engine::{Buffer, Cache, Config, Place, Ttl, Value};
use tuckbox_testkit::watchdog::Watchdog;
use twox_hash::XxHash3_64;

use crate::place::Folder;
use crate::report::Report;

/// The arguments of `torture full`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The number of sets in all phases.
    #[arg(long, default_value_t = 60_000)]
    pub sets: u64,
    /// The size limit of the file.
    #[arg(long, default_value_t = 48 << 20)]
    pub size_bytes: u64,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Negative control: claims that nothing is ever found.
    #[arg(long)]
    pub lie_miss: bool,
}

/// An exact LRU of `most_bytes`, as the reference for hits.
struct Lru {
    most_bytes: u64,
    bytes: u64,
    clock: u64,
    entries: HashMap<u64, (u64, u64)>,
    order: BTreeMap<u64, u64>,
}

impl Lru {
    fn has(&mut self, key: u64) -> bool {
        self.clock += 1;
        let Some((at, _)) = self.entries.get_mut(&key) else { return false };
        self.order.remove(at);
        *at = self.clock;
        self.order.insert(self.clock, key);
        true
    }

    fn put(&mut self, key: u64, bytes: u64) {
        self.clock += 1;
        if let Some((at, old)) = self.entries.insert(key, (self.clock, bytes)) {
            self.order.remove(&at);
            self.bytes -= old;
        }
        self.order.insert(self.clock, key);
        self.bytes += bytes;
        while self.bytes > self.most_bytes {
            let Some((_, key)) = self.order.pop_first() else { break };
            self.bytes -= self.entries.remove(&key).map_or(0, |(_, bytes)| bytes);
        }
    }
}

/// The phases: the range of value lengths, as exponents of two.
const PHASES: [(f64, f64); 5] = [(4.0, 9.0), (14.0, 20.0), (4.0, 12.0), (4.0, 20.0), (6.0, 16.0)];

/// The length of a value depends on its key and phase only, so that a later set has the same.
fn len_of(key: u64, phase: usize, most: usize) -> usize {
    let part =
        XxHash3_64::oneshot_with_seed(phase as u64, &key.to_le_bytes()) as f64 / u64::MAX as f64;
    let (low, high) = PHASES[phase];
    ((low + part * (high - low)).exp2() as usize).min(most)
}

fn fill(value: &mut Vec<u8>, key: u64, version: u64, len: usize) {
    value.clear();
    let word = XxHash3_64::oneshot_with_seed(version, &key.to_le_bytes());
    value.resize(len, word as u8);
    let head = len.min(8);
    value[..head].copy_from_slice(&word.to_le_bytes()[..head]);
}

/// Runs `torture full`.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::new("full");
    let _watchdog = Watchdog::new("torture full", Duration::from_secs(3600));
    let folder = Folder::new(None);
    let config = Config { size_bytes: arguments.size_bytes, ..Config::default() };
    let cache = Cache::open(&Place::Path(folder.file("cache.tuck")), &config).expect("a new cache");
    let most = cache.value_bytes_max().min(1 << 20);
    let mut random = fastrand::Rng::with_seed(arguments.seed);
    let (mut buffer, mut value) = (Buffer::new(), Vec::new());
    let mut took_ns: Vec<u64> = Vec::with_capacity(arguments.sets as usize);
    let (mut fewest_percent, mut versions) = (100, HashMap::<u64, (u64, usize)>::new());
    for phase in 0..PHASES.len() {
        let sets = arguments.sets / PHASES.len() as u64;
        let mean = (0..2_000).map(|key| len_of(key, phase, most) as u64).sum::<u64>() / 2_000;
        // About four times what fits, so that most of them are evicted.
        let keys = (arguments.size_bytes * 4 / (mean + 64)).clamp(400, 400_000);
        let mut lru = Lru {
            most_bytes: arguments.size_bytes * 9 / 10,
            bytes: 0,
            clock: 0,
            entries: HashMap::new(),
            order: BTreeMap::new(),
        };
        let (mut reads, mut hits, mut model_hits, mut done, mut step) = (0u64, 0u64, 0u64, 0u64, 0);
        while done < sets {
            step += 1;
            // A few keys are read often, as in real use: a power law.
            let key = (random.f64().powi(3) * keys as f64) as u64 + phase as u64 * 10_000_000;
            let len = len_of(key, phase, most);
            let name = key.to_le_bytes();
            let found =
                cache.get(&name, &mut buffer).expect("a read").filter(|_| !arguments.lie_miss);
            let is_model_hit = lru.has(key);
            // Only the second half counts, when both caches are full.
            if done * 2 > sets {
                reads += 1;
                hits += u64::from(found.is_some());
                model_hits += u64::from(is_model_hit);
            }
            if !is_model_hit {
                lru.put(key, len as u64 + 32);
            }
            if let Some(entry) = found {
                let (version, len) = versions.get(&key).copied().unwrap_or_default();
                fill(&mut value, key, version, len);
                report.expect(entry.value == Value::bytes(&value), || {
                    format!("phase {phase}: key {key} has a wrong value")
                });
                if step % 16 != 0 {
                    continue;
                }
            }
            fill(&mut value, key, step, len);
            let before = cache.stats().entry_bytes;
            let began = Instant::now();
            let stored = cache.set(&name, Value::bytes(&value), Ttl::Never);
            took_ns.push(began.elapsed().as_nanos() as u64);
            versions.insert(key, (step, len));
            done += 1;
            if let Err(error) = stored {
                report.fail(format!("phase {phase}: {len} bytes were refused: {error}"));
            }
            let after = cache.stats().entry_bytes;
            if before > arguments.size_bytes / 4 {
                fewest_percent = fewest_percent.min(after * 100 / before);
                report.expect(after * 10 >= before * 9, || {
                    format!("phase {phase}: {len} bytes left {after} of {before} bytes of entries")
                });
            }
        }
        let percent = |hits: u64| hits as f64 * 100.0 / reads.max(1) as f64;
        let (ours, model) = (percent(hits), percent(model_hits));
        report.figure(&format!("phase_{phase}_hit_percent"), (ours * 10.0).round() / 10.0);
        report.figure(&format!("phase_{phase}_lru_hit_percent"), (model * 10.0).round() / 10.0);
        report.expect(ours + 5.0 >= model, || {
            format!("phase {phase}: {ours:.1} % are found, {model:.1} % by an exact LRU")
        });
        let checked = cache.check();
        let sound = matches!(&checked, Ok(found) if found.is_sound());
        report.expect(sound, || format!("phase {phase}: not sound: {checked:?}"));
    }
    report.figure("fewest_bytes_left_by_a_set_percent", fewest_percent);
    let stats = cache.stats();
    report.expect(stats.evictions > 0, || "the cache never was full".into());
    report.figure("evictions", stats.evictions);
    took_ns.sort_unstable();
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
        let index = ((took_ns.len().max(1) - 1) as f64 * part) as usize;
        report.figure(&format!("set_ns_{name}"), took_ns.get(index).copied());
    }
    report.figure("seed", arguments.seed);
    report.trials(took_ns.len() as u64, "sets");
    report.finish()
}
