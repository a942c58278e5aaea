//! Locking a shard so that it is whole, even if its last writer died or the machine lost power. Must
//! not know what is done under the lock.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tuckbox_arena::{Acquired, Error as ArenaError, PathStatus};

use super::audit::Audit;
use crate::error::{would_block, Error, Result};
use crate::format::shard;
use crate::index::Index;
use crate::storage::{Context, Shard, Taken};

/// The longest wait of a write for each lock of a removed file.
const LAST_LOCK_LIMIT: Duration = Duration::from_millis(5);

/// Locks a shard, waiting as long as the configuration allows. Repairs it if its last writer died.
#[inline(never)]
pub fn lock(cx: &Context, index: u64) -> Result<Index<'_>> {
    lock_for(cx, index, cx.lock_limit)
}

/// As [`lock`], waiting at most `limit`.
#[inline(always)]
pub fn lock_for(cx: &Context, index: u64, limit: Duration) -> Result<Index<'_>> {
    let taken = acquire(cx, index, limit)?;
    Ok(locked(cx, index, taken))
}

/// As [`lock_for`], without the guard, which the caller makes at once, by [`locked`].
#[inline(always)]
pub fn acquire(cx: &Context, index: u64, limit: Duration) -> Result<Taken> {
    cx.arena.check_not_lost()?;
    match cx.arena.check_path() {
        PathStatus::InPlace | PathStatus::Missing => take(cx, index, limit),
        status => Err(not_in_place(cx, status, LAST_LOCK_LIMIT)),
    }
}

/// The guard of a shard whose lock was just taken.
#[inline(always)]
pub fn locked(cx: &Context, index: u64, taken: Taken) -> Index<'_> {
    Index(Shard::locked(cx, index, taken))
}

/// As [`lock_for`], for a caller to whom it matters that the shard is not hidden, as it is after some
/// kinds of damage.
#[cold]
pub fn lock_hidden(cx: &Context, index: u64, limit: Duration) -> Result<Index<'_>> {
    let shard = lock_for(cx, index, limit)?;
    reveal_or_leave(&shard)?;
    Ok(shard)
}

/// Checks, at most once a second, that the file is still the one at its path. Empties a removed
/// file, waiting at most `limit` for each lock.
///
/// # Errors
/// [`ArenaError::Lost`], [`ArenaError::Interrupted`].
#[inline(always)]
pub fn check_path(cx: &Context, limit: Duration) -> Result<()> {
    match cx.arena.check_path() {
        PathStatus::InPlace | PathStatus::Missing => Ok(()),
        status => Err(not_in_place(cx, status, limit)),
    }
}

#[cold]
#[inline(never)]
fn not_in_place(cx: &Context, status: PathStatus, limit: Duration) -> Error {
    if cx.arena.waiter().brief().is_some() {
        cx.arena.forget_path_check();
        return would_block();
    }
    if is_hidden(cx) {
        return cx.arena.mark_superseded().into();
    }
    if let PathStatus::Removed = status {
        if let Err(interrupted) = empty_removed_file(cx, limit) {
            return interrupted;
        }
    }
    cx.arena.mark_lost().into()
}

/// Checks that the file has no successor, if its entries are hidden.
///
/// # Errors
/// [`ArenaError::Superseded`].
pub fn check_successor(cx: &Context) -> Result<()> {
    match is_hidden(cx) && cx.arena.path_status() != PathStatus::InPlace {
        true => Err(cx.arena.mark_superseded().into()),
        false => Ok(()),
    }
}

/// Whether a successor of the file has, or is about to have, its entries. All shards are hidden
/// before the successor has the file's name.
fn is_hidden(cx: &Context) -> bool {
    let epoch_at = cx.arena.geometry().shard_at(0) + shard::EPOCH;
    cx.arena.region().load(epoch_at, Ordering::Acquire) == shard::HIDDEN
}

/// Locks a shard if its lock is free. For a second shard, which must not be waited for.
pub fn try_lock(cx: &Context, index: u64) -> Result<Option<Index<'_>>> {
    Shard::try_lock(cx, index)?.map(check_once_per_boot).transpose()
}

#[inline(always)]
fn take(cx: &Context, index: u64, limit: Duration) -> Result<Taken> {
    let (taken, acquired) = Shard::acquire(cx, index, limit)?;
    let boot_at = cx.arena.geometry().shard_at(index) + shard::BOOT;
    if acquired == Acquired::TakenOver || cx.arena.region().get(boot_at) != cx.arena.boot() {
        return prepare(locked(cx, index, taken), acquired);
    }
    Ok(taken)
}

/// Does what a locked shard needs before it is used. If that fails, the lock is released.
#[cold]
#[inline(never)]
fn prepare(shard: Index<'_>, acquired: Acquired) -> Result<Taken> {
    let shard = match acquired {
        Acquired::TakenOver => repair_after_death(shard)?,
        Acquired::Clean => check_now(shard)?,
    };
    Ok(shard.0.into_taken())
}

/// Checks the tables of a locked shard at its first lock in a boot.
#[inline(always)]
fn check_once_per_boot(shard: Shard<'_>) -> Result<Index<'_>> {
    let shard = Index(shard);
    if shard.word(shard::BOOT) != shard.arena().boot() {
        return check_now(shard);
    }
    Ok(shard)
}

#[cold]
#[inline(never)]
fn check_now(shard: Index<'_>) -> Result<Index<'_>> {
    if shard.arena().waiter().brief().is_some() {
        return Err(would_block());
    }
    reveal_or_leave(&shard)?;
    Audit(&shard).check_tables();
    Ok(shard)
}

/// Decides what became of the successor for which a shard was hidden. If it has the file's name,
/// the shard is not used any more. Otherwise the process that made it has died or failed.
///
/// The race: that process is alive and about to rename. It holds the locks of all shards until it has
/// done so or given up, and this caller holds one of them.
#[cold]
fn reveal_or_leave(shard: &Index<'_>) -> Result<()> {
    if !shard.is_hidden() {
        return Ok(());
    }
    if shard.arena().path_status() != PathStatus::InPlace {
        return Err(shard.arena().mark_superseded().into());
    }
    if !tuckbox_arena::mutants::is_on("kept-hidden") {
        shard.arena().remove_leftover();
        shard.reveal();
    }
    Ok(())
}

/// Repairs a shard whose lock was taken over from a dead writer.
#[cold]
fn repair_after_death(shard: Index<'_>) -> Result<Index<'_>> {
    reveal_or_leave(&shard)?;
    // A resize that died before it hid anything may have left a file, too.
    shard.arena().remove_leftover();
    if !tuckbox_arena::mutants::is_on("no-repair") {
        Audit(&shard).repair();
        shard.arena().free_abandoned_segments();
    }
    check_once_per_boot(shard.0)
}

/// Empties a file that has no name any more, as far as its locks are free. Processes whose reads hit
/// make no system call and cannot notice the removal; after this they miss and look for their file.
///
/// # Errors
/// The caller was interrupted.
#[cold]
fn empty_removed_file(cx: &Context, limit: Duration) -> Result<()> {
    for index in 0..cx.shape.shard_count {
        match take(cx, index, limit.min(cx.lock_limit)) {
            Ok(taken) => _ = Audit(&locked(cx, index, taken)).clear(),
            Err(Error::Arena(ArenaError::Interrupted)) => {
                return Err(ArenaError::Interrupted.into())
            }
            Err(_) => {}
        }
    }
    Ok(())
}
