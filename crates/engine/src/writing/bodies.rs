//! Building the bodies of a large value, without any lock, before it is stored. Must not know how
//! the record that lists them is stored.

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::segments::Owner;
use tuckbox_arena::{Error as ArenaError, OperationGuard};

use crate::error::{Error, Result};
use crate::eviction::{Eviction, IfStuck, EVICTION_BATCH};
use crate::format::Body;
use crate::repair::lock;
use crate::storage::{Context, BUILDERS_LEAVE_PER_SHARD};

/// Copies the whole segments of a large value into segments of this process, without any lock.
/// The caller publishes them in a record or calls [`drop_all`], and holds `operation`
/// until then.
pub(super) fn build(
    cx: &Context,
    operation: &OperationGuard<'_>,
    home: u64,
    value: &[u8],
) -> Result<Vec<Body>> {
    let mut bodies: Vec<Body> = Vec::new();
    let parts = value.chunks_exact(cx.shape.segment_bytes as usize);
    let count = parts.len() as u64;
    let wanted_bytes = parts.len() * std::mem::size_of::<Body>();
    bodies.try_reserve_exact(parts.len()).map_err(|_| Error::OutOfMemory { wanted_bytes })?;
    for part in parts {
        let segment = take(cx, home, count).inspect_err(|_| drop_all(cx, &bodies))?;
        let mut hash = 0;
        let mut copy = || {
            cx.arena.region().copy_in_bytes(cx.arena.geometry().segment_at(segment), part);
            hash = cx.hasher.bytes(part);
        };
        let ran = cx.arena.waiter().run(&mut copy);
        if ran.is_err() || operation.is_of_parent() {
            cx.arena.free_own_segment(segment);
            drop_all(cx, &bodies);
            let error = if ran.is_err() { ArenaError::Interrupted } else { ArenaError::Forked };
            return Err(error.into());
        }
        let generation = cx.arena.generation(segment);
        bodies.push(Body { segment: u64::from(segment), generation, hash });
    }
    if !bodies.is_empty() {
        hooks::reach(Point::BodyBuilt);
    }
    Ok(bodies)
}

/// Frees bodies that no record names.
pub(super) fn drop_all(cx: &Context, bodies: &[Body]) {
    bodies.iter().for_each(|body| cx.arena.free_own_segment(body.segment as u32));
}

/// Takes a segment for this process to fill, one of `count` for a value.
fn take(cx: &Context, home: u64, count: u64) -> Result<u32> {
    let owner = Owner::Builder(cx.arena.owner()?);
    // If bodies used up the pool, the shard could not move entries, and its dead space would
    // cost entries.
    if cx.may_grow_by_less_than(BUILDERS_LEAVE_PER_SHARD) {
        lock::lock(cx, home)?.keep_spares();
    }
    let take = || cx.take_or_grow(owner);
    let was_freed = || cx.arena.reveal_free_segments() + cx.arena.free_abandoned_segments() > 0;
    if let Some(segment) = take().or_else(|| was_freed().then(take)?) {
        return Ok(segment);
    }
    // A full file system keeps the file short. A value too large for a file of that length is
    // refused before anything is evicted for it.
    let present = u64::from(cx.arena.segments_present());
    if present < cx.arena.geometry().segment_count && count > present / 4 {
        return Err(Error::Full { wanted_bytes: count * cx.shape.segment_bytes });
    }
    // All shards evict a batch in turn until a segment is free. Only the home shard may be
    // waited for.
    for round in 0..cx.shape.batches_max {
        let first = cx.donor_for(home);
        for step in 0..cx.shape.shard_count {
            let index = (first + step) % cx.shape.shard_count;
            let if_stuck = IfStuck::after(round);
            let shard = match index == home {
                true => Some(lock::lock(cx, index)?),
                false if if_stuck == IfStuck::Stop && cx.is_under_quota(index) => None,
                false => lock::try_lock(cx, index)?,
            };
            if let Some(shard) = shard.map(Eviction) {
                let wanted_bytes = count * cx.shape.segment_bytes;
                shard.free_space(EVICTION_BATCH, if_stuck, wanted_bytes);
                shard.free_surplus_spare();
            }
            if let Some(segment) = take() {
                return Ok(segment);
            }
        }
        if round > 100 {
            std::thread::yield_now();
        }
    }
    Err(Error::Full { wanted_bytes: cx.shape.segment_bytes })
}
