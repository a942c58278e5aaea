//! `torture damage`: damages the file of a closed cache, opens it and uses it. Each byte is damaged
//! in four ways, each word of the tables and the index in sixteen. The file is also cut short
//! anywhere, gets other pages, or random words at random places.
//!
//! Most demands are in `tuckbox_testkit::specimen`. This module adds how many entries must still be
//! found, that lost entries are counted, and that no wrong length makes Tuckbox allocate more than
//! twice the file's size.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tuckbox_arena::layout::{header, segment};
use tuckbox_engine::Cache;
use tuckbox_testkit::specimen::{self, Damage, Filling, Left, Part, Scratch, Specimen};
use tuckbox_testkit::watchdog::Watchdog;

use crate::memory::most_bytes_of;
use crate::report::Report;

/// The arguments of `torture damage`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The number of systematic cases. If it is fewer than all, they are spread evenly.
    #[arg(long, default_value_t = u64::MAX)]
    pub cases: u64,
    /// Cases with random words at random places.
    #[arg(long, default_value_t = 0)]
    pub random: u64,
    /// Cases on larger files, where one damaged byte may cost one entry in a hundred.
    #[arg(long, default_value_t = 2_000)]
    pub large: u64,
    /// One case in this many is also used and checked after it was read.
    #[arg(long, default_value_t = 8)]
    pub use_one_in: u64,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How long 256 cases of one thread may take. Beyond that, one of them has hung.
    #[arg(long, default_value_t = 60)]
    pub seconds_each: u64,
    /// Negative control: claims that nothing is ever found.
    #[arg(long)]
    pub lie_miss: bool,
}

const THREADS: usize = 2;
/// Memory of the test itself while it uses a cache: values, and the keys that a scan returned.
const OWN_BYTES: u64 = 64 << 10;

/// Runs `torture damage`.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::new("damage");
    std::panic::set_hook(Box::new(|_| ()));
    let small = Specimen::small();
    let systematic = systematic(&small);
    let all = systematic.len() as u64;
    let step = (all / arguments.cases.clamp(1, all)).max(1);
    // Not simply every n-th case: the ways of damage repeat with a period.
    let offset = |number: u64| (number * step + (number * 7919) % step) as usize;
    let mut cases: Vec<Damage> =
        (0..all / step).map(|number| systematic[offset(number)].clone()).collect();
    cases.extend(links(&small));
    let seeds = arguments.seed..arguments.seed.saturating_add(arguments.random);
    cases.extend(seeds.map(Damage::Words));
    report.figure("systematic_cases_all", all);
    let mut trials = cases.len() as u64;
    let verdict = play(&small, &cases, arguments);
    verdict.add_to(&mut report, "small", cases.len());

    let large = Specimen::new(1 << 20, 3_000, 100, 4);
    let cases = pool_cases(&large, arguments);
    let verdict = play(&large, &cases, arguments);
    verdict.add_to(&mut report, "large", cases.len());
    let two = Specimen::new(33 << 20, 1_000, 150, 1);
    let cases = first_shard_cases(&two, arguments.large / 4);
    trials += arguments.large + cases.len() as u64;
    let verdict = play(&two, &cases, arguments);
    verdict.add_to(&mut report, "two_shards", cases.len());
    report.figure("seed", arguments.seed);
    report.trials(trials, "damaged files");
    report.finish()
}

/// Damages each byte in four ways, each word that may be a reference in sixteen, and cuts at many
/// lengths.
fn systematic(image: &Specimen) -> Vec<Damage> {
    let len = image.bytes.len() as u64;
    let mut cases = vec![Damage::None];
    for at in 0..len {
        let old = image.bytes[at as usize];
        for value in [0, 0xff, old ^ 1, old ^ 0x80] {
            if value != old {
                cases.push(Damage::Byte { at, value });
            }
        }
    }
    let (pool_at, segment_bytes) = (image.pool_at(), 4096);
    for at in (0..len - 8).step_by(8) {
        let old = image.word(at);
        // Zero words of logs and of unused segments lead nowhere.
        if at >= pool_at + segment_bytes && old == 0 {
            continue;
        }
        let segment = at / 8 % 14;
        let slot = |offset: u64| old & 0xffff << 48 | (offset / 8) << 8;
        for value in [
            0,
            at,
            segment,
            segment + 1,
            old.wrapping_add(1),
            old.wrapping_sub(8),
            old ^ 1 << 32,
            (segment + 1) << 32 | 128,
            (segment + 1) << 32 | 0xffff_fff8,
            slot(len - 8),
            slot(len),
            slot(pool_at + segment * segment_bytes),
            1 << 31,
            1 << 56 | segment,
            2 << 56 | 1 << 12 | 1,
            u64::MAX,
        ] {
            if value != old {
                cases.push(Damage::Word { at, value });
            }
        }
    }
    cases.extend((0..4096).chain((4096..len).step_by(512)).chain([len - 1]).map(Damage::Cut));
    for page in 0..len / 4096 {
        for with in [Filling::Zeros, Filling::Ones, Filling::Garbage, Filling::Neighbour] {
            cases.push(Damage::Page { page, with });
        }
    }
    cases
}

/// Makes every word of the segment tables a link to every segment, which includes cycles of any
/// length.
fn links(image: &Specimen) -> impl Iterator<Item = Damage> {
    let first = (0..image.pool_at()).step_by(8).find(|at| image.part(*at) == Part::Generation);
    let first = first.expect("there are segments");
    let count = image.word(header::SEGMENT_COUNT);
    let words = (first..first + count * segment::WORD_COUNT * 8).step_by(8);
    words.flat_map(move |at| (1..=count).map(move |value| Damage::Word { at, value }))
}

/// Single bytes anywhere in the pool of a larger file.
fn pool_cases(image: &Specimen, arguments: &Arguments) -> Vec<Damage> {
    let mut random = fastrand::Rng::with_seed(arguments.seed);
    (0..arguments.large)
        .map(|_| {
            let at = random.u64(image.pool_at()..image.bytes.len() as u64);
            Damage::Byte { at, value: image.bytes[at as usize] ^ random.u8(1..) }
        })
        .collect()
}

/// Damages words of the first of two shards. The second shard must not notice.
fn first_shard_cases(image: &Specimen, most: u64) -> Vec<Damage> {
    let guides = (0..image.pool_at()).step_by(8).filter(|at| image.part(*at) == Part::Guide);
    let guides: Vec<u64> = guides.collect();
    let first = &guides[..guides.len() / 2];
    let values = [0, 1, 3, 1 << 31, 1 << 56, u64::MAX];
    let cases = first.iter().flat_map(|&at| values.map(|value| Damage::Word { at, value }));
    cases.take(most as usize).collect()
}

/// The check of an expiry word detects all damage to one byte, and other damage except once in a
/// thousand. Few cases hit such a word, so hardly any case moves an expiry.
const CASES_PER_MOVED_EXPIRY: u64 = 20_000;
/// Allowance for chance: 20,000 cases move 0.1 expiries on average.
const MOVED_EXPIRIES_BY_LUCK: u64 = 4;

/// The outcome of the cases.
#[derive(Default)]
struct Verdict {
    failures: Mutex<Vec<String>>,
    opened: AtomicU64,
    refused: AtomicU64,
    used: AtomicU64,
    entries: AtomicU64,
    missed: AtomicU64,
    moved_expiries: AtomicU64,
    bytes_most: AtomicU64,
    case_us_most: AtomicU64,
}

impl Verdict {
    fn add_to(self, report: &mut Report, name: &str, cases: usize) {
        let moved = self.moved_expiries.load(Relaxed);
        let most = MOVED_EXPIRIES_BY_LUCK + cases as u64 / CASES_PER_MOVED_EXPIRY;
        report.expect(moved <= most, || {
            format!("{name}: {moved} expiries moved in {cases} cases, more than {most}")
        });
        for failure in self.failures.into_inner().expect("no thread panics with it") {
            report.fail(format!("{name}: {failure}"));
        }
        for (figure, number) in [
            ("opened", self.opened),
            ("refused", self.refused),
            ("used", self.used),
            ("entries_read", self.entries),
            ("entries_missed", self.missed),
            ("moved_expiries", self.moved_expiries),
            ("allocated_bytes_most", self.bytes_most),
            ("case_us_most", self.case_us_most),
        ] {
            report.figure(&format!("{name}_{figure}"), number.into_inner());
        }
    }
}

fn play(image: &Specimen, cases: &[Damage], arguments: &Arguments) -> Verdict {
    let (next, verdict) = (AtomicUsize::new(0), Verdict::default());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let scratch = Scratch::new();
                let mut watchdog = None;
                let mut bytes = Vec::new();
                for count in 0.. {
                    let number = next.fetch_add(1, Relaxed);
                    let Some(damage) = cases.get(number) else { break };
                    if count % 256 == 0 {
                        let what = format!("torture damage, {damage:?} or one of 512 more");
                        watchdog =
                            Some(Watchdog::new(&what, Duration::from_secs(arguments.seconds_each)));
                    }
                    image.bytes.clone_into(&mut bytes);
                    damage.apply(&mut bytes);
                    let began = Instant::now();
                    let is_used = number as u64 % arguments.use_one_in == 0;
                    let played = catch_unwind(AssertUnwindSafe(|| {
                        play_one(image, damage, &bytes, &scratch, is_used, arguments, &verdict)
                    }));
                    let failure = match played {
                        Ok(Ok(())) => None,
                        Ok(Err(what)) => Some(what),
                        Err(panic) => {
                            let text = panic.downcast_ref::<String>().cloned();
                            let text = text.or(panic.downcast_ref::<&str>().map(|t| (*t).into()));
                            Some(format!("panic: {}", text.unwrap_or_default()))
                        }
                    };
                    verdict.case_us_most.fetch_max(began.elapsed().as_micros() as u64, Relaxed);
                    let mut failures = verdict.failures.lock().expect("no thread panics with it");
                    failures.extend(failure.map(|what| format!("{damage:?}: {what}")));
                    if failures.len() >= 20 {
                        break;
                    }
                }
                drop(watchdog);
            });
        }
    });
    verdict
}

fn play_one(
    image: &Specimen,
    damage: &Damage,
    bytes: &[u8],
    scratch: &Scratch,
    is_used: bool,
    arguments: &Arguments,
    verdict: &Verdict,
) -> Result<(), String> {
    let (result, took_bytes) = most_bytes_of(|| -> Result<Option<Cache>, String> {
        let Some(cache) = image.open(bytes, scratch)? else {
            verdict.refused.fetch_add(1, Relaxed);
            judge(image, damage, Left::default())?;
            return Ok(None);
        };
        verdict.opened.fetch_add(1, Relaxed);
        let mut left = image.read_all(&cache)?;
        if arguments.lie_miss {
            left = Left { is_open: true, ..Left::default() };
        }
        verdict.entries.fetch_add(image.entries(), Relaxed);
        verdict.missed.fetch_add(image.entries() - left.found, Relaxed);
        verdict.moved_expiries.fetch_add(left.moved_expiries, Relaxed);
        judge(image, damage, left)?;
        if is_used {
            verdict.used.fetch_add(1, Relaxed);
            if is_used_first(damage) {
                specimen::use_it(&cache, image.size_bytes)?;
            } else {
                let expired = check_says_what_is_lost(image, &cache, left)?;
                verdict.moved_expiries.fetch_add(expired, Relaxed);
            }
            specimen::works_after_check(&cache, image.size_bytes)?;
        }
        Ok(Some(cache))
    });
    result?;
    // The comparison after a refusal holds one copy of the file.
    verdict.bytes_most.fetch_max(took_bytes, Relaxed);
    let most = 2 * image.size_bytes + OWN_BYTES;
    if took_bytes > most {
        return Err(format!("{took_bytes} bytes of memory were allocated, more than {most}"));
    }
    Ok(())
}

/// Whether a case is used before it is checked.
fn is_used_first(damage: &Damage) -> bool {
    match damage {
        Damage::Byte { at, .. } | Damage::Word { at, .. } => at / 8 % 2 == 0,
        Damage::Words(seed) => seed % 2 == 0,
        _ => true,
    }
}

/// Demands that enough entries are left.
fn judge(image: &Specimen, damage: &Damage, left: Left) -> Result<(), String> {
    let lost = image.entries() - left.found;
    let most = match damage {
        Damage::None => 0,
        Damage::Byte { at, .. } | Damage::Word { at, .. } => {
            if !left.is_open && image.part(*at) != Part::Header {
                return Err("the file was refused because of a word outside of the header".into());
            }
            image.loss_max(*at)
        }
        _ => image.entries(),
    };
    let moved = left.moved_expiries;
    if moved > 0 && matches!(damage, Damage::None | Damage::Byte { .. }) {
        return Err(format!("{moved} entries have another expiry"));
    }
    if lost > most {
        return Err(format!("{lost} of {} entries are gone, more than {most}", image.entries()));
    }
    if let Damage::Word { at, .. } = damage {
        let elsewhere = image.entries_elsewhere();
        if image.part(*at) == Part::Guide && left.found_elsewhere != elsewhere {
            let found = left.found_elsewhere;
            return Err(format!("{found} of {elsewhere} entries of other shards are there"));
        }
    }
    Ok(())
}

/// Demands that a check counts and names the entries that reads no longer find. Returns how many
/// entries expired too early.
fn check_says_what_is_lost(image: &Specimen, cache: &Cache, left: Left) -> Result<u64, String> {
    let report = cache.check().map_err(|error| error.to_string())?;
    let again = cache.check().map_err(|error| error.to_string())?;
    if !again.is_sound() || again.entries != report.entries {
        return Err(format!("a second check finds more than the first: {report:?}, {again:?}"));
    }
    let stats = cache.stats();
    // A damaged lock word looks like the lock of a dead process. Its repair does not report what
    // the process was doing, so a damaged epoch looks like a clear.
    let counted = stats.lost_entries.saturating_add(stats.takeovers);
    let named: u64 = report.losses.iter().map(|loss| loss.entries).sum();
    let found = image.read_all(cache)?.found;
    let expired = cache.expire().map_err(|error| error.to_string())?;
    let gone = image.entries() - found;
    if named != report.lost_entries || report.entries != found + expired {
        return Err(format!("{found} entries are there: {report:?}"));
    }
    // The counts themselves may be damaged.
    if gone > 0 && counted == 0 && report.wrong_counts == 0 {
        return Err(format!(
            "{gone} entries are gone, but none was counted as lost: {left:?}, {report:?}"
        ));
    }
    Ok(expired)
}
