//! What happens when the file under a mapping ends too early.
//!
//! A file can be cut short by anybody who may write to it. Touching a page behind its new end is
//! answered with the signal SIGBUS, which kills. So the mappings of this process are written down
//! here, and a handler puts memory of zeros in the place of a whole mapping that met the signal:
//! the operation under way goes on, finds nothing that proves itself, and ends; the mapping is
//! marked as lost, and its handle says so from then on. Knows nothing of what is in the memory.
//!
//! A signal that is not about one of our mappings goes to the handler that was there before.
//! Everything the handler does is allowed in a handler: it loads and stores atomics, and makes
//! system calls.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::Once;

use crate::os::{self, BusError};

/// A handle has one mapping, and another of the header alone while it is being opened.
const MAPPINGS_MAX: usize = 2048;

/// A mapping of this process.
pub struct Mapping {
    is_taken: AtomicBool,
    /// 0 until the mapping is there.
    base: AtomicUsize,
    len_bytes: AtomicUsize,
    /// How much of it the file was seen to have.
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

impl Mapping {
    /// A place to write a mapping down; none if too many are written down already.
    pub fn reserve(fd: i32) -> Option<&'static Mapping> {
        HANDLER.call_once(|| {
            if !crate::mutants::is_on("no-guard") {
                os::handle_bus_errors(may_go_on);
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

    /// States where the mapping is, before it is touched.
    pub fn begin(&self, base: *mut u8, len_bytes: usize) {
        self.len_bytes.store(len_bytes, Ordering::Relaxed);
        self.base.store(base as usize, Ordering::Release);
    }

    /// States that the file was seen to have as many bytes.
    pub fn set_usable(&self, bytes: u64) {
        self.usable_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Gives the place up, when nobody touches the mapping any more.
    pub fn end(&self) {
        self.base.store(0, Ordering::Relaxed);
        self.is_taken.store(false, Ordering::Release);
    }

    /// Whether the mapping is memory of zeros by now.
    #[inline(always)]
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    fn holds(&self, address: usize) -> bool {
        let base = self.base.load(Ordering::Acquire);
        base != 0 && address.wrapping_sub(base) < self.len_bytes.load(Ordering::Relaxed)
    }

    /// Whether its file is shorter than it was seen to be.
    fn is_cut(&self) -> bool {
        self.base.load(Ordering::Acquire) != 0
            && os::file_bytes(self.fd.load(Ordering::Relaxed))
                .is_some_and(|bytes| bytes < self.usable_bytes.load(Ordering::Relaxed))
    }

    fn replace_by_zeros(&self) -> bool {
        // Said first: who reads the zeros finds out why.
        self.is_lost.store(true, Ordering::Release);
        let base = self.base.load(Ordering::Relaxed) as *mut u8;
        os::zeros_over(base, self.len_bytes.load(Ordering::Relaxed))
    }
}

/// Whether the thread that met the signal may go on where it was.
fn may_go_on(error: BusError) -> bool {
    match error {
        // Two threads may come here for one mapping: either puts zeros there, and what the other
        // one has written meanwhile is lost with the rest.
        BusError::At(address) => MAPPINGS
            .iter()
            .find(|mapping| mapping.holds(address))
            .is_some_and(Mapping::replace_by_zeros),
        // Raised by a handler that stood before ours and has had its say (Python's faulthandler
        // does that): the access is tried again, meets the signal again, and then it is ours.
        BusError::Raised => MAPPINGS.iter().any(Mapping::is_cut),
    }
}
