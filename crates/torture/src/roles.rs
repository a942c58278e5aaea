//! The roles of child processes other than workers. Each role is this program, run again with a
//! hidden subcommand.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tuckbox_engine::{ArenaError, Cache, Error, Place};
use tuckbox_testkit::process::{self, Worker};

use crate::actor::Actor;
use crate::board::{Board, Flag};
use crate::points;
use crate::scene::{look, probe, Probe, Scene};
use crate::worker::{config, myself, Orders};

/// How long a child that was left alone may live.
const LIFE_SECONDS: libc::c_uint = 60;

/// A role, as the command line names it.
#[derive(Debug, Clone, clap::Args)]
pub struct Role {
    /// The part to play.
    #[arg(value_enum)]
    pub part: Part,
    /// The cache file.
    #[arg(long)]
    pub path: PathBuf,
    /// A number whose meaning depends on the part.
    #[arg(long, default_value_t = 0)]
    pub number: u64,
    /// A named point, for the parts that are held up at one.
    #[arg(long)]
    pub at: Option<String>,
    /// The seed of its random choices.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// The parts that a child can play.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Runs threads, and forks `number` children while they work.
    ForkParent,
    /// Holds a lock and dies. Its child lives on, and uses the cache if `number` is 1.
    ForkHolder,
    /// Holds a lock in one thread, and calls `exec` in another.
    ExecHolder,
    /// Opens the cache and runs this part again by `exec`, `number` times.
    ExecChain,
    /// Does nothing for a while.
    Sleeper,
    /// Closes all descriptors, opens other files under the same numbers, and goes on.
    Daemon,
    /// Opens, works and closes in a loop, and dies at some point.
    Churner,
    /// One of several processes that create the same cache at once; `number` is its index.
    Creator,
    /// Creates a cache and exits.
    Maker,
    /// Gives a worker a PID namespace of its own. `number` is its incarnation (from bit 16 on), its
    /// row (from bit 1 on), and whether it mounts its own `/proc`.
    NamespaceHost,
    /// Works on a file system of `number` bytes.
    FullDisk,
    /// Works under a limit on file sizes.
    SizeLimit,
    /// Works on a file that the supervisor damages; `number` is its index.
    Victim,
    /// Touches a cut file that is no cache, with its own handler if `number` is 1.
    BusHandler,
}

impl Role {
    /// A role on the cache at `path`.
    pub fn new(part: Part, path: &Path) -> Role {
        Role { part, path: path.into(), number: 0, at: None, seed: fastrand::u64(..) }
    }

    /// This role with a number.
    pub fn number(mut self, number: u64) -> Role {
        self.number = number;
        self
    }

    /// This role, held up at a named point.
    pub fn held_at(mut self, point: &str) -> Role {
        self.at = Some(format!("hold:{point}"));
        self
    }

    fn command(&self) -> Command {
        let mut command = myself();
        let part = clap::ValueEnum::to_possible_value(&self.part).expect("no part is hidden");
        command.arg("role").arg(part.get_name()).arg("--path").arg(&self.path);
        command.args(["--number", &self.number.to_string(), "--seed", &self.seed.to_string()]);
        if let Some(at) = &self.at {
            command.args(["--at", at]);
        }
        command
    }

    /// Starts the child.
    ///
    /// # Panics
    /// If the system cannot start a child.
    pub fn start(&self) -> Worker {
        Worker::start(&mut self.command()).expect("a child can be started")
    }

    fn orders(&self, row: usize) -> Orders {
        Orders {
            path: self.path.clone(),
            first_row: row,
            threads: 1,
            incarnation: 1,
            seed: self.seed,
            die_one_in: 0,
            own_proc: false,
            at: self.at.clone(),
            lie: None,
        }
    }

    fn open(&self) -> Cache {
        Cache::open(&Place::Path(self.path.clone()), &config(32 << 20))
            .unwrap_or_else(|error| panic!("the cache cannot be opened: {error}"))
    }

    fn board(&self) -> Board {
        Board::open(&self.path).expect("the supervisor made the board")
    }
}

/// Plays a role.
pub fn play(role: &Role) -> ExitCode {
    let is_good = match role.part {
        Part::ForkParent => fork_parent(role),
        Part::ForkHolder => fork_holder(role),
        Part::ExecHolder => exec_holder(role),
        Part::ExecChain => exec_chain(role),
        Part::Sleeper => {
            std::thread::sleep(Duration::from_secs(role.number.max(10)));
            true
        }
        Part::Daemon => daemon(role),
        Part::Churner => churner(role),
        Part::Creator => creator(role),
        Part::Maker => {
            drop(role.open());
            true
        }
        Part::NamespaceHost => namespace_host(role),
        Part::Victim => crate::cut::run_victim(role),
        Part::BusHandler => crate::cut::own_bus_error(role),
        Part::FullDisk => full_disk(role),
        Part::SizeLimit => size_limit(role),
    };
    ExitCode::from(u8::from(!is_good))
}

/// Forks. The child runs `child` and exits with its status.
fn fork(child: impl FnOnce() -> libc::c_int) -> libc::pid_t {
    // SAFETY: the child uses memory, the allocator and the cache. The allocator and the cache
    // prepare for a fork; whether the cache does so correctly is the test.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "this process can fork");
    if pid == 0 {
        // SAFETY: no memory is passed. The alarm ends a child that hangs.
        unsafe { libc::alarm(LIFE_SECONDS) };
        let status = child();
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(status) };
    }
    pid
}

fn reap(pid: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    // SAFETY: the status outlives the call, which fills it in.
    unsafe { libc::waitpid(pid, &mut status, 0) };
    status
}

/// Threads use three rows, children the next eight.
fn fork_parent(role: &Role) -> bool {
    const THREADS: usize = 3;
    const PLACES: usize = 8;
    const STEPS: u64 = 50;
    let (cache, board) = (role.open(), role.board());
    let (cache, board) = (&cache, &board);
    std::thread::scope(|scope| {
        for row in 0..THREADS {
            scope.spawn(move || {
                let mut actor = Actor::new(cache, board, row, 1, role.seed, None);
                while !board.is_stopped() {
                    actor.step();
                }
            });
        }
        let mut living: Vec<Option<libc::pid_t>> = vec![None; PLACES];
        let mut is_good = true;
        let mut settle = |place: usize, living: &mut Vec<Option<libc::pid_t>>| {
            if let Some(pid) = living[place].take() {
                let status = reap(pid);
                let killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
                if status != 0 && !killed {
                    board.report(&format!("wrong: a forked child ended with status {status:#x}"));
                    is_good = false;
                }
                board.account_for_death(THREADS + place);
            }
        };
        for child in 0..role.number {
            let place = child as usize % PLACES;
            settle(place, &mut living);
            let seed = role.seed ^ child;
            living[place] = Some(fork(|| {
                let mut actor = Actor::new(cache, board, THREADS + place, child + 2, seed, None);
                actor.resolve();
                if child % 5 == 4 {
                    // Dies in an operation, sooner or later.
                    let mut orders = role.orders(THREADS + place);
                    (orders.die_one_in, orders.incarnation) = (100, child);
                    points::arm(board, THREADS + place, &orders);
                }
                (0..STEPS).for_each(|_| actor.step());
                match child % 5 {
                    0 => {
                        cache.close();
                        0
                    }
                    // Forks again.
                    1 => reap(fork(|| {
                        actor.step();
                        0
                    })),
                    // SAFETY: ends the process, as `sys.exit` would.
                    2 => unsafe { libc::exit(0) },
                    _ => 0,
                }
            }));
            std::thread::sleep(Duration::from_micros(seed % 2000));
        }
        for place in 0..PLACES {
            settle(place, &mut living);
        }
        board.stop();
        is_good
    })
}

/// Writes until this thread is held up at the role's point.
fn hold(role: &Role, cache: &Cache, board: &Board) {
    points::arm(board, 0, &role.orders(0));
    while !board.is_stopped() {
        // The key and length stay the same, so that the record is rewritten in place and other
        // writers of the key meet the lock.
        let (stored, _) = probe(cache, b"held", 300);
        if stored != Probe::Done {
            board.report("wrong: a write of the holder was refused");
        }
    }
}

fn fork_holder(role: &Role) -> bool {
    let (cache, board) = (role.open(), role.board());
    let child = fork(|| {
        if role.number == 1 {
            let _ = probe(&cache, b"child", 100);
        }
        board.flag(Flag::Arrived).store(1, SeqCst);
        while !board.is_stopped() {
            if role.number == 1 {
                let _ = probe(&cache, b"child", 100);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        0
    });
    board.flag(Flag::ProcessId).store(child as u64, SeqCst);
    board.wait_for(Flag::Arrived, 1, Duration::from_secs(10));
    hold(role, &cache, &board);
    true
}

fn exec_holder(role: &Role) -> bool {
    use std::os::unix::process::CommandExt;
    let (cache, board) = (role.open(), role.board());
    std::thread::scope(|scope| {
        scope.spawn(|| hold(role, &cache, &board));
        if !board.wait_for(Flag::Holding, 1, Duration::from_secs(10)) {
            return false;
        }
        let error = Role::new(Part::Sleeper, &role.path).number(30).command().exec();
        board.report(&format!("wrong: exec failed: {error}"));
        false
    })
}

fn exec_chain(role: &Role) -> bool {
    use std::os::unix::process::CommandExt;
    let cache = role.open();
    let (stored, _) = probe(&cache, format!("chain/{}", role.number).as_bytes(), 100);
    if stored != Probe::Done || role.number == 0 {
        return stored == Probe::Done;
    }
    let error = Role::new(Part::ExecChain, &role.path).number(role.number - 1).command().exec();
    eprintln!("exec failed: {error}");
    false
}

/// Closes all descriptors and opens others, as daemons do.
fn close_descriptors() -> Vec<libc::c_int> {
    // SAFETY: closes descriptors, as many daemons do. The test is that the cache survives it.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
    (0..16)
        // SAFETY: the name is a NUL-terminated string that outlives the call.
        .map(|_| unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) })
        .collect()
}

fn are_open(descriptors: &[libc::c_int]) -> bool {
    // SAFETY: no memory is passed.
    descriptors.iter().all(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } != -1)
}

fn daemon(role: &Role) -> bool {
    let (cache, board) = (role.open(), role.board());
    let mut is_good = true;
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            board.report(&format!("wrong: {what}"));
            is_good = false;
        }
    };
    let _ = probe(&cache, b"before", 100);
    let descriptors = close_descriptors();
    for index in 0..200 {
        let key = format!("daemon/{index}");
        let (stored, _) = probe(&cache, key.as_bytes(), 100 + index);
        expect(stored == Probe::Done, "a daemon without descriptors could not write");
        expect(look(&cache, key.as_bytes()) == Some(true), "a daemon could not read");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| hold(role, &cache, &board));
        board.wait_for(Flag::Release, 1, Duration::from_secs(20));
    });
    // A child has lost the file. Its operation reports that, and the daemon's own files stay open.
    let status = reap(fork(|| {
        let value = vec![0; 100];
        let result =
            cache.set(b"child", tuckbox_engine::Value::bytes(&value), tuckbox_engine::Ttl::Never);
        let is_told = matches!(result, Err(Error::Arena(ArenaError::Lost { .. })));
        libc::c_int::from(!is_told) | libc::c_int::from(!are_open(&descriptors)) << 1
    }));
    expect(status == 0, &format!("a forked child of a daemon ended with status {status:#x}"));
    cache.close();
    drop(cache);
    expect(are_open(&descriptors), "closing the cache closed files of the daemon");
    is_good
}

fn churner(role: &Role) -> bool {
    let board = role.board();
    let row = role.number as usize;
    let mut random = fastrand::Rng::with_seed(role.seed);
    for round in 0.. {
        if board.is_stopped() {
            return true;
        }
        let cache = role.open();
        let mut actor =
            Actor::new(&cache, &board, row, role.seed % 1_000_000 + round, role.seed, None);
        actor.resolve();
        for _ in 0..random.u32(1..40) {
            actor.step();
        }
        match random.u32(0..8) {
            0 => process::signal_myself(libc::SIGKILL),
            // SAFETY: ends the process with the handle open, as a crash does.
            1 => unsafe { libc::_exit(0) },
            2 => cache.close(),
            _ => {}
        }
    }
    true
}

fn creator(role: &Role) -> bool {
    let board = role.board();
    let limit = Duration::from_secs(60);
    board.flag(Flag::Arrived).fetch_add(1, SeqCst);
    // A busy machine needs long to start all creators.
    if !board.wait_for(Flag::Go, 1, 5 * limit) {
        board.report(&format!("wrong: creator {} was not told to start", role.number));
        return false;
    }
    // The supervisor's cache is another file; this one does not exist yet.
    let path = role.path.with_extension("made");
    let cache = match Cache::open(&Place::Path(path), &config(32 << 20)) {
        Ok(cache) => cache,
        Err(error) => {
            board.report(&format!("wrong: creator {}: {error}", role.number));
            return false;
        }
    };
    let key = |number: u64| format!("creator/{number}").into_bytes();
    let (stored, _) = probe(&cache, &key(role.number), 200);
    board.flag(Flag::Release).fetch_add(1, SeqCst);
    let all = board.flag(Flag::ProcessId).load(SeqCst);
    if stored != Probe::Done || !board.wait_for(Flag::Release, all, limit) {
        board.report(&format!("wrong: creator {}: {stored:?}", role.number));
        return false;
    }
    let seen = (0..all).filter(|number| look(&cache, &key(*number)) == Some(true)).count() as u64;
    if seen != all {
        board.report(&format!("wrong: creator {} sees {seen} of {all} entries", role.number));
    }
    seen == all
}

fn check(code: libc::c_int) -> std::io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Mounts the `/proc` of this process's PID namespace, visible to this process only.
///
/// # Errors
/// What the system answers.
pub fn mount_proc() -> std::io::Result<()> {
    // SAFETY: all strings are NUL-terminated and outlive the call.
    check(unsafe {
        libc::mount(c"proc".as_ptr(), c"/proc".as_ptr(), c"proc".as_ptr(), 0, std::ptr::null())
    })
}

/// Gives this process its own mount namespace, in which it may mount file systems.
fn own_mounts() -> std::io::Result<()> {
    // SAFETY: no memory is passed; the new namespace is this process's alone.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: all strings are NUL-terminated and outlive the call.
    check(unsafe {
        libc::mount(c"none".as_ptr(), c"/".as_ptr(), std::ptr::null(), flags, std::ptr::null())
    })
}

fn namespace_host(role: &Role) -> bool {
    // SAFETY: no memory is passed; the next child begins the new namespace.
    let unshared = own_mounts().and_then(|()| check(unsafe { libc::unshare(libc::CLONE_NEWPID) }));
    if let Err(error) = unshared {
        eprintln!("no PID namespace: {error}");
        std::process::exit(i32::from(NOT_PERMITTED));
    }
    let mut orders = role.orders((role.number >> 1 & 0x7fff) as usize);
    orders.incarnation = role.number >> 16;
    orders.own_proc = role.number & 1 == 1;
    let mut worker = orders.start().expect("a worker can be started");
    let status = worker.wait(Duration::from_secs(600));
    if status.and_then(|status| status.code()) == Some(i32::from(NOT_PERMITTED)) {
        std::process::exit(i32::from(NOT_PERMITTED));
    }
    status.is_some_and(|status| status.success())
}

/// Mounts a new file system of `size_bytes` at `folder`, for this process only.
fn mount_small(folder: &Path, size_bytes: u64) -> std::io::Result<()> {
    let text = |text: &str| std::ffi::CString::new(text).expect("no NUL in it");
    let (target, options) = (text(&folder.to_string_lossy()), text(&format!("size={size_bytes}")));
    own_mounts()?;
    // SAFETY: all strings are NUL-terminated and outlive the call.
    check(unsafe {
        libc::mount(
            c"tmpfs".as_ptr(),
            target.as_ptr(),
            c"tmpfs".as_ptr(),
            0,
            options.as_ptr().cast(),
        )
    })
}

/// The exit status if the machine does not permit the role.
pub const NOT_PERMITTED: u8 = 77;

fn list(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn is_no_space(result: tuckbox_engine::Result<Cache>) -> bool {
    match result {
        Err(Error::Arena(ArenaError::NoSpace { .. })) => true,
        Err(error) => {
            eprintln!("an error other than NoSpace: {error}");
            false
        }
        Ok(_) => {
            eprintln!("a cache was created where there is no space for it");
            false
        }
    }
}

/// Stores much more than fits. No value may be refused, and every value found must be right.
fn overfill(cache: &Cache, count: u64) -> bool {
    let key = |index: u64| format!("fill/{index}").into_bytes();
    let mut refused = 0;
    for index in 0..count {
        let (stored, _) = probe(cache, &key(index), 100 + (index * 37 % 1900) as usize);
        refused += u64::from(stored != Probe::Done);
    }
    let found = (0..count).filter_map(|index| look(cache, &key(index)));
    let (mut right, mut wrong) = (0, 0);
    for is_right in found {
        if is_right {
            right += 1
        } else {
            wrong += 1
        }
    }
    let stats = cache.stats();
    let sound = cache.check().is_ok_and(|report| report.is_sound());
    let is_good = refused == 0 && wrong == 0 && right > 0 && stats.evictions > 0 && sound;
    if !is_good {
        eprintln!("{refused} refused, {wrong} wrong, {right} right, sound {sound}, {stats:?}");
    }
    is_good
}

/// Takes the rest of the file system.
fn fill_up(mut filler: &std::fs::File) {
    let page = vec![1u8; 64 << 10];
    while std::io::Write::write_all(&mut filler, &page).is_ok() {}
}

fn full_disk(role: &Role) -> bool {
    let folder = role.path.parent().expect("the cache is in a folder").join("small");
    std::fs::create_dir_all(&folder).expect("the run's folder can be written to");
    if let Err(error) = mount_small(&folder, role.number) {
        eprintln!("no file system of its own: {error}");
        std::process::exit(i32::from(NOT_PERMITTED));
    }
    let path = folder.join("cache.tuck");
    let filler = std::fs::File::create(folder.join("filler")).expect("a file can be made");
    let size_bytes = role.number;
    if role.number < 1 << 20 {
        // Not even the initial part of the file fits.
        fill_up(&filler);
        let no_space = is_no_space(Cache::open(&Place::Path(path), &config(size_bytes)));
        let left = list(&folder);
        if left != ["filler"] {
            eprintln!("left behind: {left:?}");
        }
        return no_space && left.len() == 1;
    }
    let cache = Cache::open(&Place::Path(path), &config(size_bytes)).expect("there is room");
    for index in 0..200u32 {
        let _ = probe(&cache, format!("first/{index}").as_bytes(), 500);
    }
    fill_up(&filler);
    let is_good = overfill(&cache, 20_000);
    let another = Cache::open(&Place::Path(folder.join("second.tuck")), &config(size_bytes));
    let no_space = is_no_space(another);
    let mut left = list(&folder);
    left.sort();
    if left != ["cache.tuck", "filler"] {
        eprintln!("left behind: {left:?}");
    }
    is_good && no_space && left.len() == 2
}

fn size_limit(role: &Role) -> bool {
    let limit = |bytes: u64| {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the structure outlives the call.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) };
    };
    let folder = role.path.parent().expect("the cache is in a folder").join("limited");
    std::fs::create_dir_all(&folder).expect("the run's folder can be written to");
    limit(100_000);
    let no_space = is_no_space(Cache::open(&Place::Path(folder.join("a")), &config(64 << 20)));
    let left = list(&folder);
    limit(3 << 20);
    let cache = Cache::open(&Place::Path(folder.join("b")), &config(16 << 20)).expect("it fits");
    no_space && left.is_empty() && overfill(&cache, 20_000)
}

/// For supervisors: writes the held key. Returns the outcome and the duration.
pub fn write_held(scene: &Scene, limit: Duration) -> (Probe, Duration) {
    probe(&scene.impatient(limit), b"held", 300)
}
