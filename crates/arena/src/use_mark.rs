//! The use mark: a word of the header that tells whether the last use of the cache was closed in
//! order, or ended by a power cut or a crash of the machine. Only caches with
//! [`AfterPowerCut::Discard`](crate::layout::AfterPowerCut) have one. Must not know entries.
//!
//! A power cut loses any part of what was not synced, so the mark is synced around everything else:
//! *in use* reaches the disk before the first change, and *clean* is set after the last change has
//! reached it. A mark with another boot, or an invalid one, means that a power cut ended the use.
//! Processes of one boot share memory, so a death among them needs no mark.
//!
//! The race: a process opens the cache while the last one closes it. The closing process releases
//! its slot, sets *closing*, and then looks for live slots. The opening process takes its slot, and
//! then looks at the mark. Each side issues a sequentially consistent fence between its two steps,
//! so at least one sees the other. Either the closing process finds a live slot and returns to *in
//! use*, or the opening process finds *closing* or *clean* and sets *opening*. In the latter case
//! the last step of the closing process fails, because it replaces only its own *closing*. Each
//! return advances the count in the mark, so a slow process never takes a later *closing* for its
//! own.
//!
//! ```text
//! clean -> opening (synced) -> in use -> closing (synced) -> clean
//!                                ^          |
//!                                +----------+  another process is alive
//! ```

use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::layout::header::USE_MARK;
use crate::region::{fence, Region};

/// The meaning of the mark for the processes of a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Everything is on the disk, and no process uses the cache.
    Clean,
    /// A process of this boot is about to use the cache, and the mark may not be on the disk yet.
    Opening,
    /// Processes of this boot use the cache, or have used it and died.
    InUse,
    /// The last process is closing the cache.
    Closing,
    /// A power cut ended the use in another boot.
    CutOff,
}

/// Bits 0..2 the phase, 2..24 a count, 24..64 the boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark(u64);

const PHASE_BITS: u32 = 2;
const BOOT_AT: u32 = 24;
/// Stored instead of a boot, so that a page that was never written is not clean.
const CLEAN: u64 = u64::from_be_bytes(*b"\0\0\0clean") << BOOT_AT;

impl Mark {
    fn load(region: &Region) -> Mark {
        Mark(region.load(USE_MARK, Ordering::Acquire))
    }

    fn in_use(boot: u64) -> Mark {
        Mark(boot & !0 << BOOT_AT | Phase::InUse as u64)
    }

    fn phase(self, boot: u64) -> Phase {
        let (phase, of) = (self.0 & ((1 << PHASE_BITS) - 1), self.0 & !0 << BOOT_AT);
        match [Phase::Clean, Phase::Opening, Phase::InUse, Phase::Closing][phase as usize] {
            Phase::Clean if of == CLEAN => Phase::Clean,
            Phase::Clean => Phase::CutOff,
            phase if of == boot & !0 << BOOT_AT => phase,
            _ => Phase::CutOff,
        }
    }

    fn with(self, phase: Phase, boot: u64) -> Mark {
        let of = if phase == Phase::Clean { CLEAN } else { boot & !0 << BOOT_AT };
        let count = self.0 & ((1 << BOOT_AT) - (1 << PHASE_BITS));
        Mark(of | count | phase as u64)
    }

    fn counted(self) -> Mark {
        let count = self.0.wrapping_add(1 << PHASE_BITS) & ((1 << BOOT_AT) - (1 << PHASE_BITS));
        Mark(self.0 & !((1 << BOOT_AT) - (1 << PHASE_BITS)) | count)
    }

    fn replaced_by(self, region: &Region, new: Mark) -> bool {
        region.replace(USE_MARK, self.0, new.0)
    }
}

/// Marks the cache as in use, on the disk as well, before this process changes anything. The
/// process has taken its slot. After a power cut the mark is kept until [`recovered`].
///
/// # Errors
/// The errors of `sync`, which syncs the whole file.
pub fn begin(region: &Region, boot: u64, sync: impl Fn() -> Result<()>) -> Result<()> {
    fence(Ordering::SeqCst);
    loop {
        let mark = Mark::load(region);
        let opening = mark.counted().with(Phase::Opening, boot);
        let opening = match mark.phase(boot) {
            Phase::InUse | Phase::CutOff => return Ok(()),
            Phase::Opening => mark,
            Phase::Clean | Phase::Closing if mark.replaced_by(region, opening) => opening,
            Phase::Clean | Phase::Closing => continue,
        };
        if !crate::mutants::is_on("mark-not-synced") {
            sync()?;
        }
        // If the exchange fails, another process has done it.
        opening.replaced_by(region, opening.with(Phase::InUse, boot));
    }
}

/// Whether a power cut ended the use in another boot.
pub fn is_cut_off(region: &Region, boot: u64) -> bool {
    Mark::load(region).phase(boot) == Phase::CutOff
}

/// Marks a new cache as in use, or one whose entries were discarded. Needs no sync: until this mark
/// is on the disk, the present one means the same to every later boot, or the file has no name.
pub fn recovered(region: &Region, boot: u64) {
    region.store(USE_MARK, Mark::in_use(boot).0, Ordering::Release);
}

/// Marks the cache as clean if no other process uses it. This process has released its slot. After
/// a failure the mark means a power cut, which is safe.
pub fn end(
    region: &Region,
    boot: u64,
    is_anyone_alive: impl Fn() -> bool,
    sync: impl Fn() -> Result<()>,
) {
    let sync = || if crate::mutants::is_on("clean-not-synced") { Ok(()) } else { sync() };
    // The longest sync comes first, so that little is left to do while the mark is *closing*.
    if is_anyone_alive() || sync().is_err() {
        return;
    }
    let closing = loop {
        let mark = Mark::load(region);
        let closing = mark.with(Phase::Closing, boot);
        match mark.phase(boot) {
            Phase::InUse if mark.replaced_by(region, closing) => break closing,
            Phase::InUse => {}
            // Another process closes the cache at the same time. Either may finish.
            Phase::Closing => break mark,
            Phase::Clean | Phase::Opening | Phase::CutOff => return,
        }
    };
    fence(Ordering::SeqCst);
    if is_anyone_alive() {
        closing.replaced_by(region, closing.counted().with(Phase::InUse, boot));
        return;
    }
    if sync().is_ok() && closing.replaced_by(region, closing.with(Phase::Clean, boot)) {
        // Optional: until the mark is on the disk, the next boot would discard entries that are
        // sound.
        let _ = sync();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::error::Error;
    use crate::layout::HEADER_BYTES;

    const BOOT: u64 = 0x1234_5678_9abc_def0;
    const LATER: u64 = 0x0fed_cba9_8765_4321;

    fn synced() -> Result<()> {
        Ok(())
    }

    fn new() -> Region {
        let region = Region::heap(HEADER_BYTES);
        recovered(&region, BOOT);
        region
    }

    #[test]
    fn a_use_that_ends_in_order_is_followed_by_another_in_any_boot() {
        let region = new();
        for boot in [BOOT, LATER, LATER, BOOT] {
            end(&region, boot_of(&region), || false, synced);
            assert_eq!(Mark::load(&region).phase(boot), Phase::Clean);
            begin(&region, boot, synced).unwrap();
            assert_eq!(Mark::load(&region).phase(boot), Phase::InUse);
        }
    }

    fn boot_of(region: &Region) -> u64 {
        [BOOT, LATER].into_iter().find(|boot| !is_cut_off(region, *boot)).unwrap()
    }

    #[test]
    fn a_use_that_does_not_end_is_cut_off_for_other_boots_alone() {
        let region = new();
        for boot in [BOOT, LATER] {
            begin(&region, boot, synced).unwrap();
            assert!(is_cut_off(&region, LATER) && !is_cut_off(&region, BOOT));
        }
        recovered(&region, LATER);
        begin(&region, LATER, synced).unwrap();
        assert_eq!(Mark::load(&region).phase(LATER), Phase::InUse);
    }

    #[test]
    fn what_is_no_mark_tells_of_a_cut() {
        let region = new();
        for word in [0, u64::MAX, CLEAN | 1, CLEAN ^ 1 << 40, 2, BOOT & !0 << BOOT_AT] {
            region.set(USE_MARK, word);
            assert!(is_cut_off(&region, BOOT), "{word:#x}");
        }
    }

    #[test]
    fn the_last_of_several_marks_it_clean() {
        let region = new();
        end(&region, BOOT, || true, synced);
        assert_eq!(Mark::load(&region).phase(BOOT), Phase::InUse);
        end(&region, BOOT, || false, synced);
        assert_eq!(Mark::load(&region).phase(BOOT), Phase::Clean);
    }

    #[test]
    fn a_process_that_comes_while_another_closes_keeps_the_mark() {
        // At each step of the closing process another one opens the cache and keeps it open.
        for step in 0..4 {
            let (region, steps) = (new(), Cell::new(0));
            let came = Cell::new(false);
            let act = || {
                if steps.replace(steps.get() + 1) == step {
                    came.set(true);
                    begin(&region, BOOT, synced).unwrap();
                    assert_eq!(Mark::load(&region).phase(BOOT), Phase::InUse);
                }
            };
            let lives = || {
                let lives = came.get();
                act();
                lives
            };
            let sync = || {
                act();
                Ok(())
            };
            end(&region, BOOT, lives, sync);
            assert_eq!(Mark::load(&region).phase(BOOT), Phase::InUse, "step {step}");
        }
    }

    #[test]
    fn a_slow_process_does_not_end_what_another_begun_anew() {
        let region = new();
        let sync_count = Cell::new(0);
        let sync = || {
            // During its second sync another process opens the cache and begins to close it.
            if sync_count.replace(sync_count.get() + 1) == 1 {
                begin(&region, BOOT, synced).unwrap();
                let closing = Mark::load(&region).with(Phase::Closing, BOOT);
                region.set(USE_MARK, closing.0);
            }
            Ok(())
        };
        end(&region, BOOT, || false, sync);
        assert_eq!(Mark::load(&region).phase(BOOT), Phase::Closing);
    }

    #[test]
    fn nothing_is_clean_that_could_not_be_synced() {
        for failing in 0..2 {
            let (region, count) = (new(), Cell::new(0));
            let sync = || match count.replace(count.get() + 1) {
                count if count == failing => Err(Error::Closed),
                _ => Ok(()),
            };
            end(&region, BOOT, || false, sync);
            assert!(is_cut_off(&region, LATER), "sync {failing} failed");
        }
        let region = new();
        end(&region, BOOT, || false, synced);
        assert!(begin(&region, LATER, || Err(Error::Closed)).is_err());
        assert!(is_cut_off(&region, BOOT), "it is no longer clean");
    }
}
