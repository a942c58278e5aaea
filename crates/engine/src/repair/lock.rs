//! Locking a shard so that it is whole, even if its last writer died or the machine lost power. Must
//! not know what is done under the lock.

use std::time::Duration;

use tuckbox_arena::{Acquired, Error as ArenaError, PathStatus};

use super::audit::Audit;
use crate::error::{Error, Result};
use crate::format::shard;
use crate::index::Index;
use crate::storage::{Context, Shard};

/// The longest wait for each lock of a removed file.
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
            empty_removed_file(cx)?;
            Err(cx.arena.mark_lost().into())
        }
    }
}

/// Locks a shard if its lock is free. For a second shard, which must not be waited for.
pub fn try_lock(cx: &Context, index: u64) -> Result<Option<Index<'_>>> {
    Ok(Shard::try_lock(cx, index)?.map(check_once_per_boot))
}

#[inline(always)]
fn take(cx: &Context, index: u64, limit: Duration) -> Result<Index<'_>> {
    let (shard, acquired) = Shard::lock(cx, index, limit)?;
    if acquired == Acquired::TakenOver {
        return Ok(repair_after_death(Index(shard)));
    }
    Ok(check_once_per_boot(shard))
}

/// Checks the tables of a locked shard at its first lock in a boot.
#[inline(always)]
fn check_once_per_boot(shard: Shard<'_>) -> Index<'_> {
    let shard = Index(shard);
    if shard.word(shard::BOOT) != shard.arena().boot() {
        Audit(&shard).check_tables();
    }
    shard
}

/// Repairs a shard whose lock was taken over from a dead writer.
#[cold]
fn repair_after_death(shard: Index<'_>) -> Index<'_> {
    if !tuckbox_arena::mutants::is_on("no-repair") {
        Audit(&shard).repair();
        shard.arena().free_abandoned_segments();
    }
    check_once_per_boot(shard.0)
}

/// Empties a file that has no name any more, as far as its locks are free. Processes that only read
/// make no system call and cannot notice the removal; after this they miss and have something to
/// write.
///
/// # Errors
/// The caller was interrupted.
#[cold]
fn empty_removed_file(cx: &Context) -> Result<()> {
    for index in 0..cx.shape.shard_count {
        match take(cx, index, LAST_LOCK_LIMIT.min(cx.lock_limit)) {
            Ok(shard) => _ = Audit(&shard).clear(),
            Err(Error::Arena(ArenaError::Interrupted)) => {
                return Err(ArenaError::Interrupted.into())
            }
            Err(_) => {}
        }
    }
    Ok(())
}
