//! The seam to the operating system: what a system must provide, by theme. Must not know what is in
//! the file.
//!
//! A port is one new folder with the modules and items that are listed here, and a line that selects
//! it. `tests/platform_seam.rs` checks that the rest of the arena names no call, flag, error number
//! or special file of a system.
//!
//! A descriptor is a small integer that a process has for an open file. Functions report the
//! system's errors as [`io::Error`], of which callers use the kind alone.

use std::io;

#[cfg(not(target_os = "linux"))]
compile_error!("Tuckbox runs on Linux: another system needs its folder in arena/src/platform");

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use self::linux as system;

/// Advice in error messages.
///
/// - `NOT_GROWABLE`: the file system cannot reserve space, and which ones can.
/// - `LOCAL_FOLDERS`: where files are that only this machine uses.
/// - `more_space`: how the file system of a file gets more space.
pub use self::system::advice;

/// Time.
///
/// - `boot_time_us`: since boot, including time asleep. `wall_time_us`: since 1970. `coarse_seconds`:
///   as cheap as possible.
/// - `boot_id`: differs in each boot; empty if the system tells none, for the reason in `NO_BOOT_ID`.
/// - `time_frame`: the reference of `boot_time_us`, for processes that see an offset one.
pub use self::system::clock;

/// Accesses beyond the end of a mapped file, which must not end the process.
///
/// - `handle`: calls a function at each such access and continues if it says so. The function makes
///   only calls that are allowed there: `space::zeros_over` and `files::status`.
pub use self::system::faults;

/// A directory that is held open, and who may use its files.
///
/// - `open` follows links of trusted users only, and refuses file systems that other machines use.
///   Where others could replace a new file, it opens a folder of this user's own.
/// - `examine`, `open_file`, `remove`: the file, which need not exist. `check_private`: that only this
///   user can enter its directory.
/// - `check_file`, `check_new_file`: refuse a file that another user could have put there, or can
///   change or remove.
/// - `create_nameless`, `create_named`, `name_file`, `make_durable`: create a file that gets its name
///   last, and only if the name is free. `name_temporarily`, `replace_file`: a file that replaces
///   the present one. `most_space`: all the space that a file could have there.
pub use self::system::directory::Directory;

/// Private files.
///
/// - `memory_file`: a file without a name for this process and its children. `shown_path`,
///   `open_shown`: a path by which other processes open it.
/// - `identify`, `links`, `belongs_to_us`, `special_kind`, `set_rights`, `copy_rights`, `overwrite`,
///   `keep`: of an open file. `create_private_folder`: for this user alone.
/// - `status`: which file a descriptor leads to. Allocates no memory and may be called in a signal
///   handler and in a forked child.
pub use self::system::files;

/// Forks. A system without them does nothing in `at_fork`.
///
/// - `at_fork`: runs three functions before each fork and after it on either side.
/// - `close`: closes a descriptor by number, also in a forked child.
pub use self::system::forks;

/// Which process is alive.
///
/// - `try_lock_byte`, `unlock_byte`, `byte_is_locked`: locks on single bytes of a file. Each belongs
///   to one open file, and the system releases it however the process ends.
/// - `open_again`: opens a file a second time, for locks of its own. `keep_open`,
///   `stop_keeping_open`: keeps it open though the descriptor is closed, but not in a forked child.
/// - `own_identity`, `is_alive`, `process_start`: tell a process from a later one with the same id.
pub use self::system::liveness;

/// Random numbers.
///
/// - `other_source`: for the case that the usual system call fails.
pub use self::system::random;

/// Memory and disk space: reserve and grow.
///
/// - `map_shared`, `unmap`: maps a file, further than it reaches. `no_memory`: the error if nothing
///   more can be mapped. `use_huge_pages`, `HUGE_BYTES`: pages that take fewer entries of the TLB.
/// - `zeros_over`: replaces a mapping by private zeros.
/// - `allocate`: makes a file longer without holes, and never changes bytes that are there.
/// - `most`, `most_at`: all the space that a file could have.
/// - `make_durable`: waits for the disk. `read_ahead`: does not wait.
pub use self::system::space;

/// Wait and wake: threads of any process sleep on a word of shared memory.
///
/// - `sleep_while`: sleeps while the low half of the word has a value. `wake_one`: wakes one sleeper.
///
/// Models of the protocol bring their own.
#[cfg(not(loom))]
pub use self::system::wait;

#[cfg(loom)]
pub(crate) use crate::modelled::wait;

/// Who may use a file, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights {
    /// The group that shares the file with its owner: members may read and change everything in it.
    /// None for the owner alone.
    pub group: Option<u32>,
    /// Only reads: the file may belong to another user, and no byte of it is changed.
    pub read_only: bool,
    /// The file must belong to this user, even if it is only read.
    pub only_mine: bool,
}

/// Two words that tell a file from all others of this machine.
pub type FileId = [u64; 2];

/// What a descriptor leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// Which file.
    pub id: FileId,
    /// Its length.
    pub len_bytes: u64,
    /// How many names it has.
    pub links: u64,
}

/// The words that a process slot records of its process, see `docs/explanation/format.md`: process
/// id, start in clock ticks, PID namespace, start of the stack.
pub type ProcessIdentity = [u64; 4];

/// The reference for the boot clock that this process sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeFrame {
    /// 0 for the machine's own boot clock, else the time namespace of the clock.
    pub namespace: u64,
    /// By how much this process's boot clock is ahead of the reference, in microseconds modulo
    /// 2^64.
    pub ahead_us: u64,
}

/// The cause of a fault that [`faults`] handles.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// An access to this address failed.
    At(usize),
    /// A program sent the signal; no access of this thread caused it.
    Raised,
}

/// Why a file cannot get longer.
#[derive(Debug)]
pub enum NotAllocated {
    /// The disk, a quota or a limit of this process.
    Full,
    /// The file system cannot allocate space before it is written.
    NotGrowable,
    /// Another error.
    Other(io::Error),
}
