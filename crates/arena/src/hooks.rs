//! Named points between the steps of the lock-free protocols.
//!
//! With the feature `hooks` a test may run code at each point, in the thread that reached it, and
//! so play out any interleaving it wants. Without the feature the calls compile to nothing.

/// A place between two steps where another party may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Point {
    /// A reader has loaded the index state and not yet a bucket.
    StateLoaded,
    /// A reader has loaded an index slot and not yet its segment's generation.
    SlotLoaded,
    /// A reader has passed the second slot load and not yet copied the record.
    SlotConfirmed,
    /// A reader has copied the record and not yet looked at the generation again.
    RecordCopied,
    /// A reader has found another key in the first slot with its tag and not yet looked for further ones.
    OtherKeyFound,
    /// A reader has met a number or a long record and not yet loaded its slot anew.
    RareRecordFound,
    /// A reader has found nothing and not yet looked at the index state again.
    ProbeMissed,
    /// A writer has written the record and not yet moved the log's cursor.
    RecordWritten,
    /// A writer has moved the cursor and not yet stored the slot.
    CursorMoved,
    /// A writer has marked a record odd and not yet written its new words.
    RewriteBegun,
    /// A writer has written half of a record's new words in place.
    RewriteHalf,
    /// A splitter has copied slots to the new bucket and not yet published the split.
    SplitCopied,
    /// A splitter has published the split and not yet cleared the old slots.
    SplitPublished,
    /// A writer has copied a slot to its other bucket and not yet cleared the old one.
    MoveCopied,
    /// An evictor has cleared a slot and not yet freed the segment.
    EntryDropped,
    /// An evictor has taken a segment out of its log and not yet freed it.
    SegmentUnlinked,
    /// A segment's generation has moved and its owner word has not.
    GenerationBumped,
    /// A segment's owner word names its new owner, and the map of free segments still shows it.
    SegmentTakenUnmarked,
    /// The map of free segments shows a segment whose owner word does not say yet that it is free.
    SegmentMarkedFree,
    /// A builder owns body segments that no record names yet.
    BodyBuilt,
    /// A segment was taken, from what was free or from growth, and nothing leads to it yet.
    SegmentTaken,
    /// Body segments are the shard's and no slot leads to them yet.
    BodyAdopted,
    /// A process is about to lengthen the file.
    GrowthBegun,
    /// A clear has advanced the epoch and not yet emptied the logs.
    EpochAdvanced,
    /// A repairer has finished one part of its work and not yet begun the next.
    RepairStep,
}

/// Whether a test may run code at the points of this build.
pub const ARE_REACHED: bool = cfg!(feature = "hooks");

#[cfg(feature = "hooks")]
mod imp {
    use super::Point;
    use std::cell::RefCell;

    type Hook = Box<dyn FnMut(Point)>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// Runs `hook` at every point that this thread reaches, until [`clear`].
    pub fn set(hook: impl FnMut(Point) + 'static) {
        HOOK.with(|slot| *slot.borrow_mut() = Some(Box::new(hook)));
    }

    /// Ends what [`set`] began.
    pub fn clear() {
        HOOK.with(|slot| *slot.borrow_mut() = None);
    }

    /// Called by the protocols. The hook is taken out while it runs, so that it may itself use the
    /// cache without being called again.
    pub fn reach(point: Point) {
        let taken = HOOK.with(|slot| slot.borrow_mut().take());
        if let Some(mut hook) = taken {
            hook(point);
            HOOK.with(|slot| {
                let mut slot = slot.borrow_mut();
                if slot.is_none() {
                    *slot = Some(hook);
                }
            });
        }
    }
}

#[cfg(feature = "hooks")]
pub use imp::{clear, reach, set};

/// Called by the protocols; does nothing in this build.
#[cfg(not(feature = "hooks"))]
#[inline(always)]
pub fn reach(_point: Point) {}

/// Has this process believe from now on that it runs in another boot of the machine. For tests.
#[cfg(feature = "hooks")]
pub fn pretend_boot(boot: u64) {
    PRETENDED_BOOT.store(boot, std::sync::atomic::Ordering::Relaxed);
}

#[cfg(feature = "hooks")]
static PRETENDED_BOOT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// The boot that a test pretends.
#[cfg(feature = "hooks")]
pub(crate) fn pretended_boot() -> Option<u64> {
    Some(PRETENDED_BOOT.load(std::sync::atomic::Ordering::Relaxed)).filter(|boot| *boot != 0)
}

/// The boot that a test pretends: none in this build.
#[cfg(not(feature = "hooks"))]
pub(crate) fn pretended_boot() -> Option<u64> {
    None
}
