//! A file is truncated while a handle of a living process holds a lock.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tuckbox_arena::clock::Clock;
use tuckbox_arena::{
    act_as_another_process, Acquired, AfterPowerCut, Arena, Error, Layer, NativeWaiter, Place,
    Plan, Rights,
};
use tuckbox_testkit::specimen::Scratch;

const LIMIT: Duration = Duration::from_secs(5);

fn open(path: &Path) -> Arena {
    let plan = Plan {
        size_bytes: 1 << 20,
        max_entries: 0,
        segment_bytes: 4096,
        shard_count: 1,
        shard_bytes: 64,
        table_bytes: 64,
        first_segments: 4,
        features_optional: 0,
        after_power_cut: AfterPowerCut::Keep,
    };
    let place = Place::Path(path.into());
    let waiter = Arc::new(NativeWaiter);
    let layer = Layer { signature: 1, makes: |_| true };
    Arena::open(&place, Rights::default(), Some(&plan), layer, Clock::System, waiter, &|_| Ok(()))
        .unwrap()
}

/// The lock stays in the file, but the mapping to release it through becomes zeros. With `notices`
/// the holder learns of the truncation before it faults.
fn truncate_under_a_holder(notices: bool, ends: fn(Arena) -> Option<Arena>) {
    let scratch = Scratch::new();
    let Place::Path(path) = scratch.place() else { unreachable!("a scratch file has a path") };
    std::fs::remove_file(&path).unwrap();
    let holder = open(&path);
    act_as_another_process();
    let other = open(&path);
    let (lock, pool) = (holder.geometry().shards_at, holder.geometry().pool_at);
    assert_eq!(holder.lock(lock, LIMIT).unwrap(), Acquired::Clean);

    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let len = file.metadata().unwrap().len();
    file.set_len(pool).unwrap();
    if notices {
        assert!(matches!(holder.check_not_truncated(), Err(Error::Lost { .. })));
    }
    assert_eq!(holder.region().get(pool), 0);
    // Another process lengthens the file again before anyone else looks.
    file.set_len(len).unwrap();
    holder.unlock(lock);
    let _still_there = ends(holder);

    assert_eq!(other.lock(lock, LIMIT).unwrap(), Acquired::TakenOver);
    other.unlock(lock);
}

fn goes_on(holder: Arena) -> Option<Arena> {
    assert!(matches!(holder.check_not_lost(), Err(Error::Lost { .. })));
    Some(holder)
}

#[test]
fn a_lost_mapping_keeps_no_locks() {
    truncate_under_a_holder(false, goes_on);
}

#[test]
fn nor_after_noticing_the_truncation() {
    truncate_under_a_holder(true, goes_on);
}

#[test]
fn nor_after_closing_at_once() {
    truncate_under_a_holder(false, |holder| {
        holder.close();
        Some(holder)
    });
    truncate_under_a_holder(true, |_| None);
}
