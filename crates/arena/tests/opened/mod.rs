//! A small arena at a path, for the tests that start processes.

use std::path::Path;
use std::sync::Arc;

use tuckbox_arena::clock::Clock;
use tuckbox_arena::{AfterPowerCut, Arena, Layer, Place, Plan, Rights, Waiter};

pub fn open(path: &Path, waiter: Arc<dyn Waiter>) -> Arena {
    let plan = Plan {
        size_bytes: 1 << 20,
        max_entries: 0,
        features_optional: 0,
        after_power_cut: AfterPowerCut::Keep,
        segment_bytes: 4096,
        shard_count: 1,
        shard_bytes: 2048,
        table_bytes: 0,
        first_segments: 2,
    };
    let layer = Layer { signature: 0, makes: |_| true };
    let place = Place::Path(path.into());
    Arena::open(&place, Rights::default(), Some(&plan), layer, Clock::System, waiter, &|_| Ok(()))
        .unwrap()
}
