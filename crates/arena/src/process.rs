//! The process slots in the file: taking one, giving it back, and testing whether its owner is
//! dead. Must not know locks, segments or the cache.
//!
//! A handle holds a slot together with a *liveness lock*: one byte of the file, locked through an
//! open file description of its own, which the kernel releases however the process ends. A
//! descriptor and a mapping keep that description open; a forked child inherits neither. Words in
//! the file name a slot and its incarnation, never a process id, so processes of different
//! containers can share a cache. A forked child closes the parent's liveness locks (see
//! [`close_inherited_locks`]) and takes a slot at its first operation.
//!
//! An owner is dead if its slot has moved on to another incarnation. It is also dead if its
//! liveness lock is free *and*, within the same PID namespace, the recorded process has ended or
//! runs another program. (A process that unmapped the lock by mistake is alive; an `exec` ends all
//! threads and the mapping but keeps the process id.) See `docs/concurrency.md`, "Death".

use std::cell::RefCell;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

use crate::error::{Error, Result};
use crate::file::CacheFile;
use crate::layout::process as slot_layout;
use crate::layout::Geometry;
use crate::os;
use crate::region::Region;

/// What a process slot counts. `stats` reports the sums over all slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Counter {
    /// Reads that found their entry.
    Hits = 0,
    /// Reads that did not find their entry.
    Misses = 1,
    // 2 and 3 are free.
    /// Reads that were disturbed too often and continued under the lock.
    ReadsUnderLock = 4,
    /// Reads that gave up and reported a miss.
    ReadsGivenUp = 5,
    /// Records whose checksum did not match.
    ChecksumMismatches = 6,
    /// Locks taken over from a dead process.
    Takeovers = 7,
}

/// Number of counters in a slot.
pub const COUNTER_COUNT: usize = 8;

/// A process slot and its incarnation, as lock and owner words name it. Never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerId(u32);

const SLOT_BITS: u32 = 12;
const INCARNATION_BITS: u32 = 19;
const TAKEN: u64 = 1 << 32;

impl OwnerId {
    fn new(slot: u32, incarnation: u32) -> OwnerId {
        let incarnation = incarnation & ((1 << INCARNATION_BITS) - 1);
        OwnerId(incarnation << SLOT_BITS | (slot + 1))
    }

    /// From the 31 bits of a word in the file; none if they name no owner.
    pub fn from_bits(bits: u32) -> Option<OwnerId> {
        let bits = bits & !(1 << 31);
        (bits & ((1 << SLOT_BITS) - 1) != 0).then_some(OwnerId(bits))
    }

    /// The 31 bits for a word in the file.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The process slot.
    pub fn slot(self) -> u32 {
        (self.0 & ((1 << SLOT_BITS) - 1)) - 1
    }

    fn incarnation(self) -> u32 {
        self.0 >> SLOT_BITS
    }
}

/// Number of forks that led to this process. A handle with another number was inherited.
pub static FORKS: AtomicU64 = AtomicU64::new(1);

const LIVENESS_LOCKS_MAX: usize = 1024;
static LIVENESS_LOCK_FDS: [AtomicI32; LIVENESS_LOCKS_MAX] =
    [const { AtomicI32::new(-1) }; LIVENESS_LOCKS_MAX];
/// Device and inode of each liveness lock's file. A daemon that closed all descriptors may have
/// reused the number for another file, which is not ours to close.
static LIVENESS_LOCK_FILES: [[AtomicU64; 2]; LIVENESS_LOCKS_MAX] =
    [const { [AtomicU64::new(0), AtomicU64::new(0)] }; LIVENESS_LOCKS_MAX];
static AT_FORK: Once = Once::new();

/// Held while a process slot is taken, used or given back, and across a fork: a child must not be
/// born while a thread of its parent changes a slot.
static FORK_LOCK: Mutex<()> = Mutex::new(());
thread_local! {
    static HELD_OVER_FORK: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

fn fork_lock() -> MutexGuard<'static, ()> {
    AT_FORK.call_once(|| os::at_fork(lock_for_fork, unlock_after_fork, close_inherited_locks));
    FORK_LOCK.lock().unwrap_or_else(|broken| broken.into_inner())
}

/// A value that is accessed only while [`FORK_LOCK`] is held.
#[derive(Debug)]
pub struct ForkMutex<T>(Mutex<T>);

/// Access to a [`ForkMutex`] value. Fields drop in order, so the inner mutex is free before the
/// fork lock: a child forked in between would inherit it locked by a thread that does not exist
/// there. Two local guards would not guarantee this order.
pub struct ForkMutexGuard<'a, T> {
    held: MutexGuard<'a, T>,
    _fork_lock: MutexGuard<'static, ()>,
}

impl<T> ForkMutex<T> {
    /// Wraps a value.
    pub fn new(value: T) -> ForkMutex<T> {
        ForkMutex(Mutex::new(value))
    }

    /// Locks the fork lock and the value until the guard is dropped.
    pub fn lock(&self) -> ForkMutexGuard<'_, T> {
        let _fork_lock = fork_lock();
        let held = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        ForkMutexGuard { held, _fork_lock }
    }
}

impl<T> Deref for ForkMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> DerefMut for ForkMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held
    }
}

extern "C" fn lock_for_fork() {
    let held = FORK_LOCK.lock().unwrap_or_else(|broken| broken.into_inner());
    HELD_OVER_FORK.with(|place| *place.borrow_mut() = Some(held));
}

extern "C" fn unlock_after_fork() {
    HELD_OVER_FORK.with(|place| *place.borrow_mut() = None);
}

/// The child's side of a fork: closes every inherited liveness lock, so that the parent's death is
/// visible while the child lives. May only close descriptors and store to atomics.
extern "C" fn close_inherited_locks() {
    unlock_after_fork();
    FORKS.fetch_add(1, Ordering::Relaxed);
    for (place, lock_fd) in LIVENESS_LOCK_FDS.iter().enumerate() {
        let fd = lock_fd.swap(-1, Ordering::Relaxed);
        if fd >= 0 && !crate::mutants::is_on("lock-inherited") {
            close_liveness_lock(place, fd);
        }
    }
}

/// Whether the descriptor still leads to the liveness lock's file. One system call, no allocation.
fn is_liveness_lock(place: usize, fd: RawFd) -> bool {
    let [device, inode] = &LIVENESS_LOCK_FILES[place];
    os::device_and_inode(fd)
        == Some((device.load(Ordering::Relaxed), inode.load(Ordering::Relaxed)))
}

fn close_liveness_lock(place: usize, fd: RawFd) {
    if is_liveness_lock(place, fd) {
        os::close_raw(fd);
    }
}

/// A liveness lock: an open file description whose byte lock shows that the slot's owner is alive.
/// A mapping keeps it open too, for daemons that close all their descriptors.
#[derive(Debug)]
pub struct LivenessLock {
    fd: RawFd,
    /// Address of that mapping, which a child does not inherit.
    mapped_at: usize,
    place: usize,
    forks: u64,
}

impl LivenessLock {
    /// Opens the file again, for a separate open file description.
    fn open(file: RawFd) -> io::Result<Option<LivenessLock>> {
        use std::os::fd::IntoRawFd;
        let again = std::path::PathBuf::from(format!("/proc/self/fd/{file}"));
        let fd = os::open(&again, libc::O_RDWR, 0)?.into_raw_fd();
        // Needed when the lock is closed.
        let Some((device, inode)) = os::device_and_inode(fd) else {
            let error = io::Error::last_os_error();
            os::close_raw(fd);
            return Err(error);
        };
        let mapped = match crate::mutants::is_on("lock-not-mapped") {
            true => Ok(0),
            false => os::map_to_keep_open(fd).map(|base| base.addr()),
        };
        let mapped_at = mapped.inspect_err(|_| os::close_raw(fd))?;
        let forks = FORKS.load(Ordering::Relaxed);
        let free = |lock_fd: &AtomicI32| {
            lock_fd.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        match LIVENESS_LOCK_FDS.iter().position(free) {
            Some(place) => {
                LIVENESS_LOCK_FILES[place][0].store(device, Ordering::Relaxed);
                LIVENESS_LOCK_FILES[place][1].store(inode, Ordering::Relaxed);
                Ok(Some(LivenessLock { fd, mapped_at, place, forks }))
            }
            None => {
                unmap_lock(mapped_at);
                os::close_raw(fd);
                Ok(None)
            }
        }
    }

    fn is_of_this_process(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }
}

impl Drop for LivenessLock {
    fn drop(&mut self) {
        // After a fork `close_inherited_locks` has closed the number, which may now be another
        // file's.
        if self.is_of_this_process() {
            LIVENESS_LOCK_FDS[self.place].store(-1, Ordering::Relaxed);
            close_liveness_lock(self.place, self.fd);
            unmap_lock(self.mapped_at);
        }
    }
}

/// Unmaps a liveness lock's mapping.
fn unmap_lock(mapped_at: usize) {
    if mapped_at != 0 {
        os::unmap(mapped_at as *mut u8, os::KEEP_OPEN_BYTES);
    }
}

/// A process slot that this handle holds.
#[derive(Debug)]
pub struct ProcessSlot {
    /// The owner as lock and owner words name it.
    pub owner: OwnerId,
    /// Whether the slot's previous owner died in it.
    pub was_abandoned: bool,
    liveness_lock: LivenessLock,
}

struct ProcessIdentity {
    pid: u64,
    start_ticks: u64,
    pid_namespace: u64,
    stack_start: u64,
}

/// None if the file or process does not exist.
pub fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Ok(None),
            _ => Err(error),
        },
    }
}

/// 0 if the kernel or `/proc` has none.
fn namespace_inode(name: &str) -> io::Result<u64> {
    let data = if_exists(std::fs::metadata(format!("/proc/self/ns/{name}")))?;
    Ok(data.map_or(0, |data| data.ino()))
}

/// The reference for the boot clock that this process sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeFrame {
    /// 0 for the machine's own boot clock, else the time namespace of the clock.
    pub namespace: u64,
    /// By how much this process's boot clock is ahead of the reference, in microseconds modulo
    /// 2^64.
    pub ahead_us: u64,
}

/// The frame of this process: the machine's, wherever the system tells the offset of our time
/// namespace.
///
/// # Errors
/// The system's error, if it cannot tell.
pub fn time_frame() -> io::Result<TimeFrame> {
    let namespace = namespace_inode("time")?;
    if namespace == 0 {
        // A kernel without time namespaces, or a `/proc` that does not show us.
        let is_shown = if_exists(std::fs::metadata("/proc/self/ns"))?.is_some();
        return Ok(TimeFrame { namespace: if is_shown { 0 } else { u64::MAX }, ahead_us: 0 });
    }
    // The offsets are those of our children's namespace, which need not be ours.
    let ours = namespace_inode("time_for_children")? == namespace;
    let text = match ours {
        true => if_exists(std::fs::read_to_string("/proc/self/timens_offsets"))?,
        false => None,
    };
    Ok(match text.as_deref().and_then(boot_offset_us) {
        Some(offset_us) => TimeFrame { namespace: 0, ahead_us: offset_us as u64 },
        None => TimeFrame { namespace, ahead_us: 0 },
    })
}

/// The boot clock's offset in microseconds, from lines of clock name, seconds and nanoseconds.
fn boot_offset_us(text: &str) -> Option<i64> {
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let fields = lines.find(|fields| fields.first() == Some(&"boottime"))?;
    let [_, seconds, nanoseconds] = fields[..] else { return None };
    let (seconds, nanoseconds): (i64, i64) = (seconds.parse().ok()?, nanoseconds.parse().ok()?);
    seconds.checked_mul(1_000_000)?.checked_add(nanoseconds / 1_000)
}

/// Inode of this process's PID namespace. 0 if `/proc` shows the processes of another namespace (it
/// was not mounted again), so that process ids cannot be looked up.
fn pid_namespace() -> io::Result<u64> {
    let shown = if_exists(std::fs::read_link("/proc/self"))?;
    let is_ours = shown.is_some_and(|name| name.as_os_str() == &*std::process::id().to_string());
    if is_ours {
        namespace_inode("pid")
    } else {
        Ok(0)
    }
}

/// Start time of process `pid` in clock ticks since boot, and start of its stack (0 if hidden).
/// None if it has ended or is a zombie. An error means that nobody could tell: a process out of
/// descriptors must not take others for dead.
fn process_start(pid: u64) -> io::Result<Option<(u64, u64)>> {
    let text = if_exists(std::fs::read_to_string(format!("/proc/{pid}/stat")))?;
    Ok(text.and_then(|text| parse_process_start(&text)))
}

fn parse_process_start(text: &str) -> Option<(u64, u64)> {
    // The name in parentheses may itself contain spaces and parentheses.
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X" | "x") {
        return None;
    }
    let stack_start = fields.get(25).and_then(|field| field.parse().ok()).unwrap_or(0);
    Some((fields.get(19)?.parse().ok()?, stack_start))
}

impl ProcessIdentity {
    fn new() -> io::Result<ProcessIdentity> {
        let pid = u64::from(std::process::id());
        let (start_ticks, stack_start) = process_start(pid)?.unwrap_or((0, 0));
        Ok(ProcessIdentity { pid, start_ticks, pid_namespace: pid_namespace()?, stack_start })
    }
}

/// Whether the process recorded in a slot is alive, as far as this namespace can tell.
fn recorded_process_is_alive(region: &Region, at: u64) -> io::Result<bool> {
    let recorded = region.get(at + slot_layout::PID_NAMESPACE);
    if recorded == 0 || recorded != pid_namespace()? {
        return Ok(false);
    }
    let Some((start_ticks, stack_start)) = process_start(region.get(at + slot_layout::PID))? else {
        return Ok(false);
    };
    let stack_then = region.get(at + slot_layout::STACK_START);
    let is_same_program = stack_start == stack_then || stack_start == 0 || stack_then == 0;
    Ok(start_ticks == region.get(at + slot_layout::START_TICKS) && is_same_program)
}

/// Whether any participant is alive, as far as this process can tell. If none is, everything that
/// participants wrote is in the file. For a handle that has released its own slot.
pub fn is_anyone_alive(region: &Region, geometry: &Geometry, file: &CacheFile) -> bool {
    (0..geometry.process_count as u32).map(|slot| geometry.process_at(slot)).any(|at| {
        let is_taken = region.load(at + slot_layout::STATE, Ordering::Acquire) & TAKEN != 0;
        is_taken
            && match os::byte_is_locked(file.fd(), at) {
                Ok(true) | Err(_) => true,
                Ok(false) => recorded_process_is_alive(region, at).unwrap_or(true),
            }
    })
}

impl ProcessSlot {
    /// Takes the first slot that is free or whose owner is dead. The caller holds the fork lock.
    ///
    /// # Errors
    /// [`Error::TooManyProcesses`], [`Error::TooManyHandles`], or the system's error.
    pub fn take(
        region: &Region,
        geometry: &Geometry,
        file: RawFd,
        path: &std::path::Path,
    ) -> Result<ProcessSlot> {
        let io = |source| Error::Io { action: "take a process slot of", path: path.into(), source };
        let liveness_lock = LivenessLock::open(file)
            .map_err(io)?
            .ok_or(Error::TooManyHandles { limit: LIVENESS_LOCKS_MAX })?;
        let identity = ProcessIdentity::new().map_err(io)?;
        for slot in 0..geometry.process_count as u32 {
            let at = geometry.process_at(slot);
            if !os::try_lock_byte(liveness_lock.fd, at).map_err(io)? {
                continue;
            }
            // With its byte locked, no other process takes or judges this slot.
            let state = region.load(at + slot_layout::STATE, Ordering::Acquire);
            let is_taken = state & TAKEN != 0;
            // This process is alive, but a handle that it lost in a fork or closed half way may
            // have left a slot whose liveness lock is free.
            let is_lost = is_taken && recorded_process_is_alive(region, at).unwrap_or(true);
            if is_lost || (is_taken && crate::mutants::is_on("slots-kept")) {
                os::unlock_byte(liveness_lock.fd, at).map_err(io)?;
                continue;
            }
            let incarnation = (state as u32).wrapping_add(1);
            region.set(at + slot_layout::PID, identity.pid);
            region.set(at + slot_layout::START_TICKS, identity.start_ticks);
            region.set(at + slot_layout::PID_NAMESPACE, identity.pid_namespace);
            region.set(at + slot_layout::STACK_START, identity.stack_start);
            let state = TAKEN | u64::from(incarnation);
            region.store(at + slot_layout::STATE, state, Ordering::Release);
            let owner = OwnerId::new(slot, incarnation);
            return Ok(ProcessSlot { owner, was_abandoned: is_taken, liveness_lock });
        }
        let slots = geometry.process_count as u32;
        Err(Error::TooManyProcesses { path: path.into(), slots })
    }

    /// Whether the slot was taken by this process, not inherited over a fork.
    pub fn is_of_this_process(&self) -> bool {
        self.liveness_lock.is_of_this_process()
    }

    /// Gives the slot back, unless it is the parent's.
    pub fn release(self, region: &Region, geometry: &Geometry) {
        if self.liveness_lock.is_of_this_process() {
            let at = geometry.process_at(self.owner.slot()) + slot_layout::STATE;
            let state = region.get(at);
            region.store(at, state & !TAKEN, Ordering::Release);
            // Closing is not enough while a child that was just forked still has the descriptor.
            if is_liveness_lock(self.liveness_lock.place, self.liveness_lock.fd) {
                let _ =
                    os::unlock_byte(self.liveness_lock.fd, geometry.process_at(self.owner.slot()));
            }
        }
    }

    /// Gives the slot back by a write to the file, for a handle that lost its mapping. Locks and
    /// segments that name the slot then belong to a dead owner.
    pub fn release_in_file(&self, file: &CacheFile, geometry: &Geometry) {
        if self.liveness_lock.is_of_this_process() {
            let at = geometry.process_at(self.owner.slot()) + slot_layout::STATE;
            let state = u64::from(self.owner.incarnation());
            // If that part of the file is missing too, nobody can read the slot.
            let _ = file.overwrite(at, state);
        }
    }

    /// Whether `owner`, which is not this handle, is dead. Asks the kernel.
    pub fn is_dead(&self, region: &Region, geometry: &Geometry, owner: OwnerId) -> bool {
        if u64::from(owner.slot()) >= geometry.process_count {
            return true;
        }
        let at = geometry.process_at(owner.slot());
        let state = region.load(at + slot_layout::STATE, Ordering::Acquire);
        if state & TAKEN == 0 || OwnerId::new(owner.slot(), state as u32) != owner {
            return true;
        }
        debug_assert_eq!(
            OwnerId::new(owner.slot(), state as u32).incarnation(),
            owner.incarnation()
        );
        if crate::mutants::is_on("pid-alone") {
            return matches!(process_start(region.get(at + slot_layout::PID)), Ok(None));
        }
        // Without its liveness lock this process cannot ask, so it waits until its time limit.
        if !is_liveness_lock(self.liveness_lock.place, self.liveness_lock.fd) {
            return false;
        }
        match os::byte_is_locked(self.liveness_lock.fd, at) {
            Ok(true) | Err(_) => false,
            // If nobody can tell, the owner counts as alive.
            Ok(false) => !recorded_process_is_alive(region, at)
                .unwrap_or(!crate::mutants::is_on("doubt-is-death")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn an_owner_survives_its_bits() {
        for (slot, incarnation) in [(0, 0), (1023, 5), (7, (1 << 19) - 1)] {
            let owner = OwnerId::new(slot, incarnation);
            assert_eq!(OwnerId::from_bits(owner.bits() | 1 << 31), Some(owner));
            assert_eq!(owner.slot(), slot);
        }
        assert_eq!(OwnerId::from_bits(0), None);
    }

    #[test]
    fn offsets_of_the_boot_clock() {
        let text = "monotonic          -7         0\nboottime           -3   1500000\n";
        assert_eq!(boot_offset_us(text), Some(-2_998_500));
        assert_eq!(boot_offset_us("monotonic 1 2\n"), None);
        assert_eq!(boot_offset_us("boottime x 2\n"), None);
        assert_eq!(boot_offset_us("boottime 9223372036854775807 0\n"), None);
    }

    /// A fork happens while the fork lock is free; the inner mutex must be free then, too.
    #[test]
    #[cfg_attr(miri, ignore = "asks the system for a word before each fork")]
    fn a_fork_mutex_is_free_while_the_fork_lock_is() {
        let (guarded, is_over) = (ForkMutex::new(0u64), AtomicBool::new(false));
        let is_free = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    *guarded.lock() += 1;
                }
            });
            // Wait until the other thread is running.
            while *guarded.lock() == 0 {}
            let is_free = (0..100_000).all(|_| {
                let _fork_lock = fork_lock();
                let free = guarded.0.try_lock().is_ok();
                free
            });
            is_over.store(true, Ordering::Relaxed);
            is_free
        });
        assert!(is_free, "a child would find it taken for ever");
    }

    #[test]
    fn this_process_lives_and_an_impossible_one_does_not() {
        let (start_ticks, stack_start) =
            process_start(u64::from(std::process::id())).unwrap().unwrap();
        assert!(start_ticks > 0 && stack_start > 0);
        assert_eq!(process_start(u64::MAX).unwrap(), None);
    }
}
