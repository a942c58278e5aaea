//! Measures how long a shard's lock is held, by polling its word from outside.
//!
//! Owns the polling. The engine is the released one, without any hook. The lock's word is 0 or
//! names its holder. A lock that is released and taken again between two looks counts as held
//! throughout, and polling slows the writer down a little, so the times are rather too long. Holds
//! that are shorter than the time between two looks may be missed: `holds` says how many were seen.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use hdrhistogram::Histogram;
use serde_json::{json, Value};
use tuckbox_arena::clock::Clock;
use tuckbox_arena::{Arena, NativeWaiter, Place, Rights};
use tuckbox_engine::format::{layout, plan};

use crate::caches::Failure;

/// The bit "somebody may be asleep", which is not part of the holder.
const WAITERS: u64 = 1 << 31;
const NS_MAX: u64 = 60_000_000_000;

/// Watches the first shard's lock of the cache at `path` until the standard input ends.
pub(crate) fn watch(path: &Path) -> Result<Value, Failure> {
    let arena = Arena::open(
        &Place::Path(path.to_path_buf()),
        Rights { read_only: true, ..Rights::default() },
        None,
        plan::layer(),
        Clock::System,
        Arc::new(NativeWaiter),
        &|_| Ok(()),
    )?;
    let lock = arena.geometry().shard_at(0) + layout::shard::LOCK;
    let mut held = Histogram::<u64>::new_with_bounds(1, NS_MAX, 3)?;
    let mut looks = 0_u64;
    let has_ended = Arc::new(AtomicBool::new(false));
    let input_ends = Arc::clone(&has_ended);
    std::thread::spawn(move || {
        // An input that cannot be read has also ended.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        input_ends.store(true, Ordering::Relaxed);
    });
    // The first hold has an unknown beginning.
    let mut holder = arena.region().load(lock, Ordering::Acquire) & !WAITERS;
    let mut since: Option<Instant> = None;
    loop {
        let seen = arena.region().load(lock, Ordering::Acquire) & !WAITERS;
        let now = Instant::now();
        looks += 1;
        if seen != holder {
            if let (true, Some(since)) = (holder != 0, since) {
                held.record((now - since).as_nanos() as u64)?;
            }
            holder = seen;
            since = Some(now);
        }
        if has_ended.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(json!({
        "holds": held.len(),
        "looks": looks,
        "ns_p50": held.value_at_quantile(0.5),
        "ns_p99": held.value_at_quantile(0.99),
        "ns_p999": held.value_at_quantile(0.999),
        "ns_max": held.max(),
    }))
}
