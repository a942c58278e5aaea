//! What happens when the file under a mapping becomes too short. Must not know what is in the
//! memory.
//!
//! Anyone who may write to a file can truncate it, and touching a page behind the new end raises a
//! signal that kills the process. So this module registers the mappings of this process, and its
//! signal handler replaces a whole mapping that was hit by private zeros. The running operation
//! continues, finds nothing that passes its checks, and ends; the handle then reports its file as
//! lost.
//!
//! A signal that does not concern one of our mappings goes to the previous handler. The handler
//! only uses atomics and system calls, which are allowed there.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::Once;

use crate::platform::{clock, faults, files, space, Fault};

/// A file has one mapping, a read-only handle too, plus one of the header alone while it is opened.
const MAPPINGS_MAX: usize = 2048;

/// A mapping of this process.
pub struct Mapping {
    is_taken: AtomicBool,
    /// 0 until the mapping exists.
    base: AtomicUsize,
    len_bytes: AtomicUsize,
    /// The longest usable length that was seen.
    usable_bytes: AtomicU64,
    fd: AtomicI32,
    is_lost: AtomicBool,
}

static MAPPINGS: [Mapping; MAPPINGS_MAX] = [const {
    Mapping {
        is_taken: AtomicBool::new(false),
        base: AtomicUsize::new(0),
        len_bytes: AtomicUsize::new(0),
        usable_bytes: AtomicU64::new(0),
        fd: AtomicI32::new(-1),
        is_lost: AtomicBool::new(false),
    }
}; MAPPINGS_MAX];

static HANDLER: Once = Once::new();

/// When a mapping was last released while threads may have been using it.
static LET_GO_S: AtomicU64 = AtomicU64::new(u64::MAX);
/// How long a thread may take from the fault to the handler.
const LATE_FAULT_S: u64 = 2;

impl Mapping {
    /// Reserves an entry for a mapping; none if all are in use.
    pub fn reserve(fd: i32) -> Option<&'static Mapping> {
        HANDLER.call_once(|| {
            if !crate::mutants::is_on("no-guard") {
                faults::handle(may_go_on);
            }
        });
        let free = |mapping: &&Mapping| {
            let taken = &mapping.is_taken;
            taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let mapping = MAPPINGS.iter().find(free)?;
        mapping.is_lost.store(false, Ordering::Relaxed);
        mapping.usable_bytes.store(0, Ordering::Relaxed);
        mapping.fd.store(fd, Ordering::Relaxed);
        Some(mapping)
    }

    /// Sets the mapping's address before the mapping is touched.
    pub fn begin(&self, base: *mut u8, len_bytes: usize) {
        self.len_bytes.store(len_bytes, Ordering::Relaxed);
        self.base.store(base as usize, Ordering::Release);
    }

    /// Records that the file was seen to have this many bytes.
    pub fn set_usable(&self, bytes: u64) {
        self.usable_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Releases the entry, once nobody touches the mapping any more.
    pub fn end(&self) {
        self.base.store(0, Ordering::Relaxed);
        self.is_taken.store(false, Ordering::Release);
    }

    /// Replaces the mapping by zeros and releases the entry, although threads may be reading; whether
    /// that succeeded.
    ///
    /// The race: a thread has met a page that the file lacks, and comes to the handler only after the
    /// entry was released. The handler does not find the address any more, but lets the thread try
    /// again for a while, and then the thread reads the zeros.
    pub fn let_go(&self) -> bool {
        LET_GO_S.store(clock::coarse_seconds(), Ordering::SeqCst);
        let done = self.replace_by_zeros();
        if done {
            self.end();
        }
        done
    }

    /// Whether the mapping has been replaced by zeros.
    #[inline(always)]
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    fn holds(&self, address: usize) -> bool {
        let base = self.base.load(Ordering::Acquire);
        base != 0 && address.wrapping_sub(base) < self.len_bytes.load(Ordering::Relaxed)
    }

    /// Whether the file is shorter than it was seen to be.
    pub fn is_truncated(&self) -> bool {
        self.base.load(Ordering::Acquire) != 0
            && files::status(self.fd.load(Ordering::Relaxed))
                .is_some_and(|status| status.len_bytes < self.usable_bytes.load(Ordering::Relaxed))
    }

    fn replace_by_zeros(&self) -> bool {
        // Set first, so that a thread that reads zeros can find out why.
        self.is_lost.store(true, Ordering::Release);
        let base = self.base.load(Ordering::Relaxed) as *mut u8;
        space::zeros_over(base, self.len_bytes.load(Ordering::Relaxed))
    }
}

/// Whether the thread that received the signal may continue.
fn may_go_on(error: Fault) -> bool {
    match error {
        // Two threads may get here for one mapping. Both put zeros there; what one has written
        // meanwhile is lost with the rest.
        Fault::At(address) => match MAPPINGS.iter().find(|mapping| mapping.holds(address)) {
            Some(mapping) => mapping.replace_by_zeros(),
            None => was_just_let_go(),
        },
        // Raised by a handler that was installed before ours and has finished (Python's
        // faulthandler does this): the access is tried again, faults again, and then comes to us.
        Fault::Raised => MAPPINGS.iter().any(Mapping::is_truncated),
    }
}

/// Whether the address may be one of a mapping that was released after the fault. An address that is
/// not faults again, until this is false.
fn was_just_let_go() -> bool {
    let let_go_s = LET_GO_S.load(Ordering::SeqCst);
    let_go_s != u64::MAX && clock::coarse_seconds().saturating_sub(let_go_s) <= LATE_FAULT_S
}
