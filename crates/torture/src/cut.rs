//! `torture cut`: cuts the file short, punches holes into it, replaces it, removes it or makes it
//! inaccessible while processes use it. None of them may die or answer wrongly. A process that lost
//! its file gets an error, opens the cache again, and shares one cache with the others as before.

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tuckbox_engine::{ArenaError, Buffer, Cache, Config, Error, Place, Ttl, Value};
use tuckbox_testkit::process::Worker;
use tuckbox_testkit::shared::SharedWords;
use tuckbox_testkit::stamp::{self, Stamp};
use tuckbox_testkit::watchdog::Watchdog;

use crate::place::Folder;
use crate::report::Report;
use crate::roles::{Part, Role};

/// The arguments of `torture cut`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// How often a file is changed.
    #[arg(long, default_value_t = 200)]
    pub cases: u64,
    /// Files that are changed at the same time.
    #[arg(long, default_value_t = 8)]
    pub scenes: u64,
    /// The seed of the random choices.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Answers wrongly, as a negative control: every read of the victims misses.
    #[arg(long)]
    pub always_miss: bool,
}

/// Processes that share a file.
const VICTIMS: usize = 4;
/// Keys that each process writes.
const KEYS: u64 = 300;
const CANARIES: u64 = 200;
/// Large enough that nothing has to be evicted.
const SIZE_BYTES: u64 = 16 << 20;
/// A writer notices a lost file within a second. The rest allows for a busy machine.
const NOTICE_LIMIT: Duration = Duration::from_secs(60);

/// A change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    CutShort,
    CutToNothing,
    Hole,
    Replaced,
    Removed,
    ModeTaken,
}

const DEEDS: [Deed; 6] = [
    Deed::CutShort,
    Deed::CutToNothing,
    Deed::Hole,
    Deed::Replaced,
    Deed::Removed,
    Deed::ModeTaken,
];

/// What a victim reports about itself.
#[derive(Debug, Clone, Copy)]
enum Show {
    Operations,
    Hits,
    Wrong,
    /// How often an operation reported that the file is lost.
    Lost,
    /// Inode of the file that the victim uses, 0 while it has none.
    Inode,
    /// The round that the victim saw last, see `ROUND`.
    Round,
    Refused,
    /// How often the victim found no room for a while.
    Full,
}

const SHOWS: usize = 8;
/// The word in which the supervisor counts the changes of the file.
const ROUND: usize = VICTIMS * SHOWS;
const STOP: usize = ROUND + 1;
/// Set while the file has a hole, or may have one because a victim lengthened the cut file before
/// it noticed the cut. Where part of the index was, an older slot of a key may reappear. Its value
/// was still stored under that key.
const HOLED: usize = STOP + 1;
const WORDS: usize = HOLED + 1;

fn show(words: &SharedWords, victim: usize, what: Show) -> &AtomicU64 {
    words.word(victim * SHOWS + what as usize)
}

fn words_path(path: &Path) -> PathBuf {
    path.with_extension("words")
}

fn open(path: &Path) -> tuckbox_engine::Result<Cache> {
    // A long limit: lock timeouts are not tested here, and the machine may be busy.
    let lock_limit = Duration::from_secs(10);
    let config = Config { size_bytes: SIZE_BYTES, lock_limit, ..Config::default() };
    Cache::open(&Place::Path(path.into()), &config)
}

fn greeting(victim: usize, round: u64) -> Vec<u8> {
    format!("victim/{victim}/{round}").into_bytes()
}

fn canary(index: u64) -> Vec<u8> {
    format!("canary/{index}").into_bytes()
}

fn put(cache: &Cache, key: &[u8], sequence: u64, len: usize) -> Result<(), Error> {
    let mut value = Vec::new();
    stamp::make(key, Stamp { writer: 0, sequence }, len, &mut value);
    cache.set(key, Value::bytes(&value), Ttl::Never)
}

/// The sequence of the value found; none for a miss; an error for a value that was never stored
/// under this key.
fn find(cache: &Cache, key: &[u8], buffer: &mut Buffer) -> Result<Result<Option<u64>, ()>, Error> {
    let Some(entry) = cache.get(key, buffer)? else { return Ok(Ok(None)) };
    let Value::Bytes { bytes, .. } = entry.value else { return Ok(Err(())) };
    Ok(stamp::read(key, bytes).map(|stamp| Some(stamp.sequence)).map_err(drop))
}

/// Runs a victim, which uses the file whatever happens to it.
pub fn run_victim(role: &Role) -> bool {
    let words = SharedWords::open(&words_path(&role.path)).expect("the supervisor made it");
    let victim = (role.number & 0xff) as usize;
    let always_misses = role.number >> 8 == 1;
    let mut random = fastrand::Rng::with_seed(role.seed);
    let mut sequence = 0;
    while words.word(STOP).load(SeqCst) == 0 {
        show(&words, victim, Show::Inode).store(0, SeqCst);
        let Ok(cache) = open(&role.path) else {
            // The file is damaged, or is being replaced. The supervisor has to remove it.
            show(&words, victim, Show::Refused).fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        let inode = std::fs::metadata(&role.path).map_or(1, |data| data.ino());
        show(&words, victim, Show::Inode).store(inode, SeqCst);
        let mut stored = vec![0; KEYS as usize];
        let mut buffer = Buffer::new();
        let outcome = loop {
            if words.word(STOP).load(SeqCst) != 0 {
                break Ok(());
            }
            sequence += 1;
            let step = Step { cache: &cache, victim, sequence, words: &words, always_misses };
            if let Err(error) = step.run(&mut random, &mut stored, &mut buffer) {
                break Err(error);
            }
            show(&words, victim, Show::Operations).fetch_add(1, SeqCst);
            if random.u8(..) < 16 {
                std::thread::sleep(Duration::from_micros(500));
            }
        };
        match outcome {
            Ok(()) => {}
            Err(Error::Arena(ArenaError::Lost { .. })) => {
                show(&words, victim, Show::Lost).fetch_add(1, SeqCst);
                let again = cache.set(b"again", Value::Int(1), Ttl::Never);
                if !matches!(again, Err(Error::Arena(ArenaError::Lost { .. }))) {
                    eprintln!("victim {victim}: a lost cache accepted a write: {again:?}");
                    return false;
                }
            }
            // Another victim lengthened the cut file before it noticed the cut. There is no room
            // until somebody notices.
            Err(Error::Full { .. }) if finds_room_or_the_loss(&cache) => {
                show(&words, victim, Show::Full).fetch_add(1, SeqCst);
            }
            Err(error) => {
                eprintln!("victim {victim}: an error other than Lost: {error}");
                return false;
            }
        }
    }
    true
}

/// Whether writes succeed again, or report that the file is lost, within `NOTICE_LIMIT`.
fn finds_room_or_the_loss(cache: &Cache) -> bool {
    let began = Instant::now();
    while began.elapsed() < NOTICE_LIMIT {
        match cache.set(b"again", Value::Int(1), Ttl::Never) {
            Err(Error::Full { .. }) => std::thread::sleep(Duration::from_millis(5)),
            Ok(()) | Err(Error::Arena(ArenaError::Lost { .. })) => return true,
            Err(_) => return false,
        }
    }
    false
}

struct Step<'a> {
    cache: &'a Cache,
    victim: usize,
    sequence: u64,
    words: &'a SharedWords,
    always_misses: bool,
}

impl Step<'_> {
    fn wrong(&self, what: &str) {
        eprintln!("victim {}: {what}", self.victim);
        show(self.words, self.victim, Show::Wrong).fetch_add(1, SeqCst);
    }

    fn run(
        &self,
        random: &mut fastrand::Rng,
        stored: &mut [u64],
        buffer: &mut Buffer,
    ) -> Result<(), Error> {
        let index = random.u64(..KEYS);
        let key = format!("{}/{index}", self.victim).into_bytes();
        match random.u8(..100) {
            0..=44 => self.look(&key, stored[index as usize], buffer),
            45..=79 => {
                let len = if random.u8(..) < 8 { 20_000 } else { random.usize(60..3000) };
                put(self.cache, &key, self.sequence, len)?;
                stored[index as usize] = self.sequence;
                Ok(())
            }
            80..=84 => self.cache.incr(b"sum", 1, Some(0), Ttl::Never).map(drop).or_else(overflow),
            85..=88 => self.cache.touch(&key, Ttl::Us(1 << 40)).map(drop),
            89..=91 => self.cache.pop(&key, buffer).map(drop),
            92..=93 => {
                let mut scan = self.cache.scan();
                (0..50).try_for_each(|_| scan.next(buffer).map(drop))
            }
            94 => self.cache.expire().map(drop),
            95 => self.cache.check().map(drop),
            96 => {
                let key = format!("{}/large", self.victim).into_bytes();
                put(self.cache, &key, self.sequence, 300_000)?;
                self.look(&key, 0, buffer)
            }
            _ => {
                let round = self.words.word(ROUND).load(SeqCst);
                put(self.cache, &greeting(self.victim, round), round, 100)?;
                show(self.words, self.victim, Show::Round).store(round, SeqCst);
                Ok(())
            }
        }
    }

    fn look(&self, key: &[u8], stored: u64, buffer: &mut Buffer) -> Result<(), Error> {
        match find(self.cache, key, buffer)? {
            Err(()) => self.wrong("a value that was never stored under its key"),
            Ok(Some(found)) if found < stored && self.words.word(HOLED).load(SeqCst) == 0 => {
                self.wrong("an older value than was stored");
            }
            Ok(Some(_)) if !self.always_misses => {
                show(self.words, self.victim, Show::Hits).fetch_add(1, SeqCst);
            }
            Ok(_) => {}
        }
        Ok(())
    }
}

/// A hole may have zeroed part of the number, or an older number may be there.
fn overflow(error: Error) -> Result<(), Error> {
    match error {
        Error::Overflow { .. } | Error::NotAnInteger => Ok(()),
        other => Err(other),
    }
}

/// Runs `torture cut`.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::new("cut");
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let cases_each = arguments.cases.div_ceil(arguments.scenes);
    let limit = Duration::from_secs(300) + Duration::from_secs(20) * cases_each as u32;
    let _watchdog = Watchdog::new("torture cut", limit);
    let results: Vec<Tally> = std::thread::scope(|scope| {
        let scenes: Vec<_> = (0..arguments.scenes)
            .map(|number| scope.spawn(move || treat(arguments, seed ^ number, cases_each)))
            .collect();
        scenes.into_iter().map(|scene| scene.join().expect("a scene does not panic")).collect()
    });
    let mut all = Tally::default();
    for tally in results {
        tally.failures.into_iter().for_each(|failure| report.fail(failure));
        for (sum, count) in all.deeds.iter_mut().zip(tally.deeds) {
            *sum += count;
        }
        for (sum, count) in all.shown.iter_mut().zip(tally.shown) {
            *sum += count;
        }
    }
    let foreign = own_bus_errors(&mut report);
    for (deed, count) in DEEDS.iter().zip(all.deeds) {
        report.figure(&format!("{deed:?}"), count);
    }
    for (name, what) in [
        ("operations", Show::Operations),
        ("hits", Show::Hits),
        ("wrong", Show::Wrong),
        ("told_lost", Show::Lost),
        ("told_full", Show::Full),
    ] {
        report.figure(name, all.shown[what as usize]);
    }
    report
        .expect(all.shown[Show::Hits as usize] * 20 > all.shown[Show::Operations as usize], || {
            "the victims found almost nothing, so the run proves nothing".into()
        });
    report.figure("foreign_bus_errors", foreign);
    report.figure("seed", seed);
    report.trials(all.deeds.iter().sum(), "files cut, holed, replaced, removed or locked away");
    report.finish()
}

#[derive(Default)]
struct Tally {
    failures: Vec<String>,
    deeds: [u64; DEEDS.len()],
    shown: [u64; SHOWS],
}

/// One file and its victims.
fn treat(arguments: &Arguments, seed: u64, cases: u64) -> Tally {
    let mut tally = Tally::default();
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = Folder::new(None);
    let path = folder.file("cache.tuck");
    let words = SharedWords::create(&words_path(&path), WORDS).expect("a new file");
    let lies = u64::from(arguments.always_miss) << 8;
    let mut victims: Vec<Worker> = (0..VICTIMS)
        .map(|number| Role::new(Part::Victim, &path).number(number as u64 | lies).start())
        .collect();
    let all_share = |round: u64, victims: &mut [Worker]| share(&path, &words, round, victims);
    if let Err(why) = all_share(0, &mut victims) {
        tally.failures.push(format!("at the beginning: {why}"));
    }
    for round in 1..=cases {
        let place = random.usize(..DEEDS.len());
        let (deed, trial) = (DEEDS[place], format!("{:?} in round {round}", DEEDS[place]));
        tally.deeds[place] += 1;
        let canaries = if deed == Deed::ModeTaken { store_canaries(&path) } else { None };
        if matches!(deed, Deed::Hole | Deed::CutShort) {
            words.word(HOLED).store(1, SeqCst);
        }
        if let Err(error) = commit(deed, &path, &mut random) {
            tally.failures.push(format!("{trial}: the deed failed: {error}"));
            break;
        }
        std::thread::sleep(Duration::from_millis(random.u64(1..10)));
        if let Some(cache) = canaries {
            // The file is unchanged: nothing may be lost.
            let found = count_canaries(&cache);
            if found * 100 < CANARIES * 99 {
                tally.failures.push(format!("{trial}: {found} of {CANARIES} canaries are there"));
            }
        } else if !matches!(deed, Deed::Removed | Deed::Replaced) {
            // A person who finds a damaged cache would remove it.
            let _ = std::fs::remove_file(&path);
        }
        words.word(ROUND).store(round, SeqCst);
        if let Err(why) = all_share(round, &mut victims) {
            tally.failures.push(format!("{trial}: {why}"));
            break;
        }
        words.word(HOLED).store(0, SeqCst);
    }
    words.word(STOP).store(1, SeqCst);
    for (number, victim) in victims.iter_mut().enumerate() {
        let status = victim.wait(NOTICE_LIMIT);
        if !status.is_some_and(|status| status.success()) {
            tally.failures.push(format!("victim {number} ended with {status:?}"));
        }
        for what in 0..SHOWS {
            tally.shown[what] += words.word(number * SHOWS + what).load(SeqCst);
        }
        let wrong = show(&words, number, Show::Wrong).load(SeqCst);
        if wrong > 0 {
            tally.failures.push(format!("victim {number} got {wrong} wrong answers"));
        }
    }
    tally
}

fn store_canaries(path: &Path) -> Option<Cache> {
    let cache = open(path).ok()?;
    (0..CANARIES).all(|index| put(&cache, &canary(index), index, 100).is_ok()).then_some(cache)
}

fn count_canaries(cache: &Cache) -> u64 {
    let mut buffer = Buffer::new();
    let is_there = |index: &u64| {
        let found = find(cache, &canary(*index), &mut buffer);
        matches!(found, Ok(Ok(Some(found))) if found == *index)
    };
    (0..CANARIES).filter(is_there).count() as u64
}

fn commit(deed: Deed, path: &Path, random: &mut fastrand::Rng) -> std::io::Result<()> {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path)?;
    let len = file.metadata()?.len();
    match deed {
        Deed::CutShort => file.set_len(random.u64(..len)),
        Deed::CutToNothing => file.set_len(0),
        Deed::Hole => {
            let from = random.u64(..len / 4096) * 4096;
            let bytes = random.u64(1..=16) * 4096;
            punch(&file, from, bytes)
        }
        Deed::Replaced => {
            // By another cache, or by a file that is no cache and is removed again.
            let other = path.with_extension("other");
            let _ = std::fs::remove_file(&other);
            if random.bool() {
                open(&other).map_err(|error| std::io::Error::other(error.to_string()))?;
                std::fs::rename(&other, path)
            } else {
                std::fs::write(&other, "somebody else's file")?;
                std::fs::rename(&other, path)?;
                std::thread::sleep(Duration::from_millis(5));
                std::fs::remove_file(path)
            }
        }
        Deed::Removed => std::fs::remove_file(path),
        Deed::ModeTaken => {
            file.set_permissions(std::fs::Permissions::from_mode(0o000))?;
            std::thread::sleep(Duration::from_millis(5));
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
            // As a copying program does, which may read it.
            file.read_at(&mut [0; 4096], 0).map(drop)
        }
    }
}

fn punch(file: &std::fs::File, from: u64, bytes: u64) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: no memory is passed.
    let code = unsafe { libc::fallocate(file.as_raw_fd(), mode, from as i64, bytes as i64) };
    if code == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Waits until all victims use the file that is at the path now: until each has stored its value of
/// this round in it.
fn share(
    path: &Path,
    words: &SharedWords,
    round: u64,
    victims: &mut [Worker],
) -> Result<(), String> {
    let began = Instant::now();
    let mut buffer = Buffer::new();
    loop {
        for (number, victim) in victims.iter_mut().enumerate() {
            if let Some(status) = victim.poll() {
                return Err(format!("victim {number} died: {status}"));
            }
        }
        let missing = match open(path) {
            Ok(cache) => (0..VICTIMS)
                .find(|victim| {
                    let found = find(&cache, &greeting(*victim, round), &mut buffer);
                    !matches!(found, Ok(Ok(Some(sequence))) if sequence == round)
                })
                .map(|victim| format!("victim {victim} does not share the cache")),
            Err(error) => Some(error.to_string()),
        };
        let Some(missing) = missing else { return Ok(()) };
        if began.elapsed() > NOTICE_LIMIT {
            let shown: Vec<_> = (0..VICTIMS)
                .map(|victim| {
                    let load = |what| show(words, victim, what).load(SeqCst);
                    (load(Show::Inode), load(Show::Round), load(Show::Lost), load(Show::Refused))
                })
                .collect();
            return Err(format!("{missing}; victims show {shown:?}"));
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Demands that signals unrelated to a cache reach their earlier handlers. Returns the number of
/// trials.
fn own_bus_errors(report: &mut Report) -> u64 {
    use std::os::unix::process::ExitStatusExt;
    let folder = Folder::new(None);
    let mut handled = Role::new(Part::BusHandler, &folder.file("first.tuck")).number(1).start();
    let status = handled.wait(Duration::from_secs(20));
    report.expect(status.is_some_and(|status| status.success()), || {
        format!("a program with a handler of its own ended with {status:?}")
    });
    let mut unhandled = Role::new(Part::BusHandler, &folder.file("second.tuck")).start();
    let status = unhandled.wait(Duration::from_secs(20));
    report.expect(status.and_then(|status| status.signal()) == Some(libc::SIGBUS), || {
        format!("a program that touches a cut file of its own ended with {status:?}")
    });
    2
}

static OWN_HANDLER: AtomicU64 = AtomicU64::new(0);
static OWN_PAGE: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_and_map(_: libc::c_int) {
    OWN_HANDLER.fetch_add(1, SeqCst);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let page = OWN_PAGE.load(SeqCst) as *mut libc::c_void;
    // SAFETY: the page is a mapping of this test alone, to which there are no references.
    unsafe { libc::mmap(page, 4096, libc::PROT_READ, flags, -1, 0) };
}

/// Touches a file of its own that was cut, with a cache open; then a cache that was cut.
pub fn own_bus_error(role: &Role) -> bool {
    use std::os::fd::AsRawFd;
    if role.number == 1 {
        let handler = count_and_map as *const () as libc::sighandler_t;
        // SAFETY: the handler touches atomics and makes a system call.
        unsafe { libc::signal(libc::SIGBUS, handler) };
    } else {
        // SAFETY: removes the handler that the standard library installed for stack overflows.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    }
    let cache = open(&role.path).expect("a cache can be made");
    put(&cache, b"key", 1, 500).expect("it takes a value");
    let own = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(role.path.with_extension("own"))
        .expect("a file can be made");
    own.set_len(4096).expect("it can be made longer");
    let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
    // SAFETY: a new mapping at an address of the kernel's choosing.
    let page =
        unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, own.as_raw_fd(), 0) };
    OWN_PAGE.store(page as u64, SeqCst);
    own.set_len(0).expect("it can be cut");
    // SAFETY: one byte of the mapping. The fault at this access is the test.
    let byte = unsafe { page.cast::<u8>().read_volatile() };
    let handled = OWN_HANDLER.load(SeqCst);
    std::fs::File::options().write(true).open(&role.path).unwrap().set_len(0).unwrap();
    let lost = cache.set(b"key", Value::Int(1), Ttl::Never);
    let is_told = matches!(lost, Err(Error::Arena(ArenaError::Lost { .. })));
    if byte != 0 || handled != 1 || OWN_HANDLER.load(SeqCst) != 1 || !is_told {
        eprintln!("own handler {handled} times, then {lost:?}");
        return false;
    }
    true
}
