//! Locking a shard so that it is whole, even if its last writer died or the machine lost power. Must
//! not know what is done under the lock.

use std::time::Duration;

use tuckbox_arena::{Acquired, PathStatus};

use super::audit::Audit;
use crate::error::Result;
use crate::format::shard;
use crate::index::Index;
use crate::storage::{Context, Shard};

/// The longest wait for a lock of a removed file.
const LAST_LOCK_LIMIT: Duration = Duration::from_millis(5);

/// Locks a shard, waiting as long as the configuration allows. Repairs it if its last writer died.
#[inline(never)]
pub fn lock(cx: &Context, index: u64) -> Result<Index<'_>> {
    lock_for(cx, index, cx.lock_limit)
}

/// As [`lock`], waiting at most `limit`.
#[inline(always)]
pub fn lock_for(cx: &Context, index: u64, limit: Duration) -> Result<Index<'_>> {
    cx.arena.check_not_lost()?;
    match cx.arena.check_path() {
        PathStatus::InPlace => take(cx, index, limit),
        PathStatus::Replaced => Err(cx.arena.mark_lost().into()),
        PathStatus::Removed => {
            empty_removed_file(cx);
            Err(cx.arena.mark_lost().into())
        }
    }
}

/// Locks a shard if its lock is free. For a second shard, which must not be waited for.
pub fn try_lock(cx: &Context, index: u64) -> Result<Option<Index<'_>>> {
    Ok(Shard::try_lock(cx, index)?.map(checked))
}

#[inline(always)]
fn take(cx: &Context, index: u64, limit: Duration) -> Result<Index<'_>> {
    let (shard, acquired) = Shard::lock(cx, index, limit)?;
    if acquired == Acquired::TakenOver {
        return Ok(repaired(Index(shard)));
    }
    Ok(checked(shard))
}

/// The shard whose lock was just acquired from a writer that released it.
#[inline(always)]
fn checked(shard: Shard<'_>) -> Index<'_> {
    let shard = Index(shard);
    if shard.word(shard::BOOT) != shard.arena().boot() {
        Audit(&shard).check_tables();
    }
    shard
}

/// Repairs a shard whose lock was taken over.
#[cold]
fn repaired(shard: Index<'_>) -> Index<'_> {
    if !tuckbox_arena::mutants::is_on("no-repair") {
        Audit(&shard).repair();
        shard.arena().free_abandoned_segments();
    }
    checked(shard.0)
}

/// Empties a file that has no name any more, as far as its locks are free. Processes that only read
/// make no system call and cannot notice the removal; after this they miss and have something to
/// write.
#[cold]
fn empty_removed_file(cx: &Context) {
    for index in 0..cx.shape.shard_count {
        if let Ok(shard) = take(cx, index, LAST_LOCK_LIMIT.min(cx.lock_limit)) {
            Audit(&shard).clear();
        }
    }
}
