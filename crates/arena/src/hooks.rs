//! Named points between the steps of the lock-free protocols. Must not know what a test does there.
//!
//! With the feature `hooks` a test can run code at each point, in the thread that reached it, and
//! so create any interleaving. Without the feature the calls compile to nothing.

/// A place between two steps where another party may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Point {
    /// A reader has loaded the index state, but no bucket yet.
    StateLoaded,
    /// A reader has loaded an index slot, but not its segment's generation.
    SlotLoaded,
    /// A reader has loaded the slot a second time, but not copied the record.
    SlotConfirmed,
    /// A reader has copied the record, but not checked the generation again.
    RecordCopied,
    /// A reader has found another key in the first slot with its tag, but not tried further slots.
    OtherKeyFound,
    /// A reader has met a record that is not plain, or that changed, but not loaded its slot again.
    RareRecordFound,
    /// A reader has verified a record, but not looked at the rows of its tags.
    RecordVerified,
    /// A reader has found nothing, but not checked the index state again.
    ProbeMissed,
    /// A writer has written the record, but not moved the log head.
    RecordWritten,
    /// A writer has moved the log head, but not stored the slot.
    CursorMoved,
    /// A writer has stored the slot of a new record, but not marked the replaced one.
    EntryReplaced,
    /// A writer has set a record's busy bit, but not written its new words.
    RewriteBegun,
    /// A writer has written half of a record's new words in place.
    RewriteHalf,
    /// A splitter has copied slots to the new bucket, but not published the split.
    SplitCopied,
    /// A splitter has published the split, but not cleared the old slots.
    SplitPublished,
    /// A writer has copied a slot to its other bucket, but not cleared the old one.
    MoveCopied,
    /// An evictor has cleared a slot, but not freed the segment.
    EntryDropped,
    /// An evictor has removed a segment from its log, but not freed it.
    SegmentUnlinked,
    /// A segment's generation has moved, but not its owner word.
    GenerationBumped,
    /// A segment's owner word names a new owner, but the free map still shows it as free.
    SegmentTakenUnmarked,
    /// The free map shows a segment as free, but its owner word does not yet.
    SegmentMarkedFree,
    /// A builder owns body segments that no record names yet.
    BodyBuilt,
    /// A segment was taken, from the free ones or by growth, and nothing refers to it yet.
    SegmentTaken,
    /// Body segments belong to the shard, but no slot leads to them yet.
    BodyAdopted,
    /// A process is about to lengthen the file.
    GrowthBegun,
    /// A clear has advanced the epoch, but not emptied the logs.
    EpochAdvanced,
    /// The copy of a cache is complete, but the cache's entries are not hidden.
    SuccessorComplete,
    /// The entries of a cache are hidden, but its successor has no name.
    EntriesHidden,
    /// The successor has a temporary name, but not the cache's.
    SuccessorNamed,
    /// The copy of a cache has its name, but the cache is still locked.
    NameTaken,
    /// The copy of a cache has its name and nothing is locked, but the name is not on the disk.
    NameUnsynced,
    /// An empty index has its first number of buckets again, but its other segments are not free.
    IndexReset,
    /// A row has a tag's or a namespace's name, but no value yet.
    RowTaken,
    /// An invalidation has advanced the stamp clock, but not stored its value in a row.
    StampAdvanced,
    /// A repairer has finished one part of its work, but not begun the next.
    RepairStep,
    /// A counter of invalidations has moved, but the entry is not removed.
    Invalidated,
    /// The gate is marked as closing, but the shards' locks were not passed.
    GateClosing,
    /// A change has passed the gate, but nothing is stored.
    GatePassed,
    /// A change that has passed the gate is counted as begun, and its entry is as before.
    GateBegun,
    /// A row names the key of a maker, but not the maker.
    MakerNamed,
    /// A waiter has announced itself in a claim, but does not sleep.
    ClaimAwaited,
    /// A claim is released, but its sleepers are not woken.
    ClaimReleased,
}

/// Whether the points of this build run hooks.
pub const ARE_REACHED: bool = cfg!(feature = "hooks");

#[cfg(feature = "hooks")]
mod imp {
    use super::Point;
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicU64, Ordering};

    type Hook = Box<dyn FnMut(Point)>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// Runs `hook` at every point that this thread reaches, until [`clear`].
    pub fn set(hook: impl FnMut(Point) + 'static) {
        HOOK.set(Some(Box::new(hook)));
    }

    /// Removes the hook of [`set`].
    pub fn clear() {
        HOOK.set(None);
    }

    /// Called by the protocols. The hook is taken out while it runs, so that it can use the cache
    /// without being called again.
    pub fn reach(point: Point) {
        if let Some(mut hook) = HOOK.take() {
            hook(point);
            // The hook may have set another.
            let next = HOOK.take().unwrap_or(hook);
            HOOK.set(Some(next));
        }
    }

    static PRETENDED_BOOT: AtomicU64 = AtomicU64::new(0);

    /// Makes this process assume another boot of the machine from now on. For tests.
    pub fn pretend_boot(boot: u64) {
        PRETENDED_BOOT.store(boot, Ordering::Relaxed);
    }

    /// The boot that a test has set.
    pub(crate) fn pretended_boot() -> Option<u64> {
        Some(PRETENDED_BOOT.load(Ordering::Relaxed)).filter(|boot| *boot != 0)
    }
}

#[cfg(feature = "hooks")]
pub(crate) use imp::pretended_boot;
#[cfg(feature = "hooks")]
pub use imp::{clear, pretend_boot, reach, set};

/// Called by the protocols; does nothing in this build.
#[cfg(not(feature = "hooks"))]
#[inline(always)]
pub fn reach(_point: Point) {}

/// The boot that a test has set: none in this build.
#[cfg(not(feature = "hooks"))]
pub(crate) fn pretended_boot() -> Option<u64> {
    None
}
