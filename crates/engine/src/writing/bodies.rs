//! Building the bodies of a large value, without any lock, before it is stored. Must not know how
//! the record that lists them is stored.

use std::time::{Duration, Instant};

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::segments::Owner;
use tuckbox_arena::{Error as ArenaError, OperationGuard};

use crate::error::{Error, Result};
use crate::eviction::{Eviction, IfStuck, EVICTION_BATCH};
use crate::format::{most_bodies, Body};
use crate::repair::lock;
use crate::storage::{Context, BUILDERS_LEAVE_PER_SHARD};

/// Rounds over all shards in which nothing was evicted, after which there is nothing to evict. More
/// than it takes until entries are dropped that should have been moved, see [`IfStuck`].
const ROUNDS_WITHOUT_GAIN: u64 = 64;
/// The longest of the pauses between two attempts to take segments that others fill.
const PAUSE_MAX: Duration = Duration::from_millis(16);

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
    let count = value.len() / cx.shape.segment_bytes as usize;
    let wanted_bytes = count * std::mem::size_of::<Body>();
    bodies.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { wanted_bytes })?;
    let built = fill_all(cx, operation, home, value, &mut bodies);
    built.inspect_err(|_| drop_all(cx, &bodies))?;
    if !bodies.is_empty() {
        hooks::reach(Point::BodyBuilt);
    }
    Ok(bodies)
}

/// Adds the missing bodies of a value.
fn fill_all(
    cx: &Context,
    operation: &OperationGuard<'_>,
    home: u64,
    value: &[u8],
    bodies: &mut Vec<Body>,
) -> Result<()> {
    let mut rivals = Rivals::default();
    let parts = || value.chunks_exact(cx.shape.segment_bytes as usize);
    while let Some(part) = parts().nth(bodies.len()) {
        match take(cx, home, parts().len() as u64)? {
            Some(segment) => bodies.push(fill(cx, operation, segment, part)?),
            None if rivals.may_be_awaited(cx, bodies) => {
                let pause = rivals.next_pause();
                let ran = cx.arena.wait(&mut || std::thread::sleep(pause));
                check_goes_on(operation, ran)?;
            }
            None => {
                return Err(Error::Full {
                    wanted_bytes: parts().len() as u64 * cx.shape.segment_bytes,
                })
            }
        }
    }
    Ok(())
}

/// Fills a segment with a part of a value.
fn fill(cx: &Context, operation: &OperationGuard<'_>, segment: u32, part: &[u8]) -> Result<Body> {
    let mut hash = 0;
    let mut copy = || {
        cx.arena.region().copy_in_bytes(cx.arena.geometry().segment_at(segment), part);
        hash = cx.hasher.bytes(part);
    };
    let ran = cx.arena.wait(&mut copy);
    check_goes_on(operation, ran).inspect_err(|_| cx.arena.free_own_segment(segment))?;
    Ok(Body { segment: u64::from(segment), generation: cx.arena.generation(segment), hash })
}

/// Refuses an operation that the host ended, and one whose segments are the parent's.
fn check_goes_on(operation: &OperationGuard<'_>, ran: tuckbox_arena::Result<()>) -> Result<()> {
    ran?;
    if operation.is_of_parent() {
        return Err(ArenaError::Forked.into());
    }
    Ok(())
}

/// Frees bodies that no record names.
pub(super) fn drop_all(cx: &Context, bodies: &[Body]) {
    bodies.iter().for_each(|body| cx.arena.free_own_segment(body.segment as u32));
}

/// Other large values that are being built.
///
/// The race: several values are built at once, each has a part of the segments, and none gets all
/// that it needs. A write that has no more than half of the segments in question frees them, so the
/// one that has more can finish. All pause and try again until the time limit for locks is over.
#[derive(Default)]
struct Rivals {
    since: Option<Instant>,
}

impl Rivals {
    /// Whether there are others to wait for. Frees `bodies` if the others have as many.
    fn may_be_awaited(&mut self, cx: &Context, bodies: &mut Vec<Body>) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let (mine, building) = (bodies.len() as u64, cx.segments_of_no_shard().1);
        if building <= mine || since.elapsed() >= cx.lock_limit {
            return false;
        }
        if mine * 2 <= building {
            drop_all(cx, bodies);
            bodies.clear();
        }
        true
    }

    /// A pause of a length that differs from the others', so that they do not try again at once.
    fn next_pause(&self) -> Duration {
        let waited = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let longest = (waited + Duration::from_millis(1)).min(PAUSE_MAX);
        longest.mul_f64(f64::from(waited.subsec_nanos() % 1000) / 1000.0)
    }
}

/// Takes a segment for this process to fill, one of `count` for a value. None if others have all
/// that could be freed.
fn take(cx: &Context, home: u64, count: u64) -> Result<Option<u32>> {
    let owner = Owner::Builder(cx.arena.owner()?);
    // If bodies used up the pool, the shard could not move entries, and its dead space would
    // cost entries.
    if cx.may_grow_by_less_than(BUILDERS_LEAVE_PER_SHARD) {
        lock::lock(cx, home)?.keep_spares();
    }
    let take = || cx.take_or_grow(owner);
    let was_freed = || cx.arena.reveal_free_segments() + cx.arena.free_abandoned_segments() > 0;
    if let Some(segment) = take().or_else(|| was_freed().then(take)?) {
        return Ok(Some(segment));
    }
    // A full file system keeps the file short. A value too large for a file of that length is
    // refused before anything is evicted for it.
    let present = u64::from(cx.arena.segments_present());
    let is_short = present < cx.arena.geometry().segment_count;
    if is_short && count > most_bodies(present, cx.shape.shard_count) {
        return Err(Error::Full { wanted_bytes: count * cx.shape.segment_bytes });
    }
    // All shards evict a batch in turn until a segment is free. Only the home shard may be
    // waited for.
    let (began, mut without_gain) = (Instant::now(), 0);
    for round in 0..cx.shape.batches_max {
        let first = cx.donor_for(home);
        let (mut has_gained, mut is_busy) = (false, false);
        for step in 0..cx.shape.shard_count {
            let index = (first + step) % cx.shape.shard_count;
            let if_stuck = IfStuck::after(round);
            let shard = match index == home {
                true => Some(lock::lock(cx, index)?),
                false if if_stuck == IfStuck::Stop && cx.is_under_quota(index) => None,
                false => {
                    let shard = lock::try_lock(cx, index)?;
                    is_busy |= shard.is_none();
                    shard
                }
            };
            if let Some(shard) = shard.map(Eviction) {
                let wanted_bytes = count * cx.shape.segment_bytes;
                has_gained |= shard.free_space(EVICTION_BATCH, if_stuck, wanted_bytes);
                has_gained |= shard.free_surplus_spare();
            }
            if let Some(segment) = take() {
                return Ok(Some(segment));
            }
        }
        without_gain = if has_gained { 0 } else { without_gain + 1 };
        let is_over = !is_busy || began.elapsed() >= cx.lock_limit;
        let most = if cx.has_only_pinned() { 0 } else { ROUNDS_WITHOUT_GAIN };
        if without_gain > most && is_over {
            break;
        }
        if round > 100 {
            std::thread::yield_now();
        }
    }
    Ok(None)
}
