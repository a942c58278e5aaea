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
    /// 0 unless the mapping exists.
    base: AtomicUsize,
    len_bytes: AtomicUsize,
    /// The longest usable length that was seen.
    usable_bytes: AtomicU64,
    fd: AtomicI32,
    is_lost: AtomicBool,
    /// When [`Mapping::let_go`] was called; [`NEVER_S`] if it was not.
    let_go_s: AtomicU64,
}

static MAPPINGS: [Mapping; MAPPINGS_MAX] = [const { Mapping::new() }; MAPPINGS_MAX];

static HANDLER: Once = Once::new();

const NEVER_S: u64 = u64::MAX;
/// How long a thread may take from the fault to the handler.
const LATE_FAULT_S: u64 = 2;

impl Mapping {
    const fn new() -> Mapping {
        Mapping {
            is_taken: AtomicBool::new(false),
            base: AtomicUsize::new(0),
            len_bytes: AtomicUsize::new(0),
            usable_bytes: AtomicU64::new(0),
            fd: AtomicI32::new(-1),
            is_lost: AtomicBool::new(false),
            let_go_s: AtomicU64::new(NEVER_S),
        }
    }

    /// Reserves an entry for a mapping; none if all are in use.
    pub fn reserve(fd: i32) -> Option<&'static Mapping> {
        HANDLER.call_once(|| {
            if !crate::mutants::is_on("no-guard") {
                faults::handle(may_go_on);
            }
        });
        Mapping::reserve_in(&MAPPINGS, fd, clock::coarse_seconds())
    }

    /// A handle that follows its path keeps the addresses of its former files, so the entries of
    /// those are used again when there are no others.
    fn reserve_in(mappings: &'static [Mapping], fd: i32, now_s: u64) -> Option<&'static Mapping> {
        let free = |mapping: &&Mapping| {
            let taken = &mapping.is_taken;
            taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let let_go = |mapping: &&Mapping| {
            let base = mapping.base.load(Ordering::Acquire);
            let let_go_s = mapping.let_go_s.load(Ordering::Acquire);
            let is_old = let_go_s != NEVER_S && now_s.saturating_sub(let_go_s) > LATE_FAULT_S;
            base != 0 && is_old && mapping.take_base(base)
        };
        let mut all = mappings.iter();
        let mapping = all.find(free).or_else(|| mappings.iter().find(let_go))?;
        mapping.let_go_s.store(NEVER_S, Ordering::Relaxed);
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

    /// Releases the entry of the mapping at `base`, once nobody touches the mapping any more. Does
    /// nothing if the entry is another mapping's by now.
    pub fn end(&self, base: usize) {
        if self.take_base(base) {
            self.is_taken.store(false, Ordering::Release);
        }
    }

    /// Whether this call was the one that ended the entry of the mapping at `base`.
    fn take_base(&self, base: usize) -> bool {
        self.base.compare_exchange(base, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Replaces the mapping by zeros, although threads may be reading; whether that succeeded.
    ///
    /// The race: a thread has met a page that the file lacks, and comes to the handler only after
    /// this. The handler still finds the address, and lets the thread try again: it reads the zeros.
    pub fn let_go(&self) -> bool {
        self.let_go_s.store(clock::coarse_seconds(), Ordering::Release);
        let done = self.replace_by_zeros();
        if !done {
            self.let_go_s.store(NEVER_S, Ordering::Release);
        }
        done
    }

    fn is_let_go(&self) -> bool {
        self.let_go_s.load(Ordering::Acquire) != NEVER_S
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
        // After `let_go` the descriptor may be another file's.
        self.base.load(Ordering::Acquire) != 0
            && !self.is_let_go()
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
            Some(mapping) => mapping.is_let_go() || mapping.replace_by_zeros(),
            None => false,
        },
        // Raised by a handler that was installed before ours and has finished (Python's
        // faulthandler does this): the access is tried again, faults again, and then comes to us.
        Fault::Raised => MAPPINGS.iter().any(Mapping::is_truncated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::CacheFile;
    use crate::layout::HEADER_BYTES;

    const LEN: usize = HEADER_BYTES as usize;

    /// Begins a mapping of anonymous memory; its address.
    fn begin(mapping: &Mapping) -> usize {
        let file = CacheFile::private(HEADER_BYTES, HEADER_BYTES).unwrap();
        let base = space::map_shared(file.fd(), LEN, true).unwrap();
        mapping.begin(base, LEN);
        base as usize
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn only_faults_in_a_mapping_that_was_let_go_are_tried_again() {
        let mapping = Mapping::reserve(-1).unwrap();
        let base = begin(mapping);
        assert!(mapping.let_go());
        assert!(may_go_on(Fault::At(base)) && may_go_on(Fault::At(base + LEN - 1)));
        assert!(!may_go_on(Fault::At(base.wrapping_sub(1))));
        assert!(!may_go_on(Fault::At(0)));
        mapping.end(base);
        assert!(!may_go_on(Fault::At(base)));
        space::unmap(base as *mut u8, LEN);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn an_entry_that_was_let_go_is_used_again_when_there_is_no_other() {
        static FEW: [Mapping; 2] = [const { Mapping::new() }; 2];
        let reserve = |after_s| Mapping::reserve_in(&FEW, -1, clock::coarse_seconds() + after_s);
        let (first, other) = (reserve(0).unwrap(), reserve(0).unwrap());
        let (base, other_base) = (begin(first), begin(other));
        assert!(reserve(99).is_none(), "both are in use");
        assert!(first.let_go());
        assert!(reserve(0).is_none(), "a thread may be on its way to the handler");
        let again = reserve(99).unwrap();
        assert!(std::ptr::eq(first, again) && !again.is_lost());
        let again_base = begin(again);
        // The former user of the entry ends.
        first.end(base);
        assert!(again.holds(again_base) && reserve(99).is_none());
        again.end(again_base);
        assert!(std::ptr::eq(reserve(0).unwrap(), again));
        for base in [base, other_base, again_base] {
            space::unmap(base as *mut u8, LEN);
        }
    }
}
