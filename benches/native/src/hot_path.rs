//! Runs the engine's hot paths repeatedly, for callgrind to count.
//!
//! Owns what is run: the operations of `benches/hot_path.py`, and sets of new keys in full caches
//! of two sizes, with the same marks around what is counted. Must not time anything.

use std::hint::black_box;
use std::os::unix::process::parent_id;
use std::path::Path;

use serde_json::{json, Value as Json};
use tuckbox_engine::{Buffer, Cache, Config, Place, Ttl, Value};

use crate::caches::Failure;
use crate::inputs;

const ENTRIES: usize = 2_000;
const PASSES: usize = 5;
/// Sizes of the full caches.
const FULL_BYTES: [u64; 2] = [16 << 20, 64 << 20];
/// The size of the values in them.
const FULL_VALUE_BYTES: usize = 1_000;

/// Runs a pass over the keys, a mark, all other passes, and another mark.
fn marked(mut pass: impl FnMut() -> Result<usize, Failure>) -> Result<usize, Failure> {
    let mut found = pass()?;
    black_box(parent_id());
    for _ in 0..PASSES {
        found += pass()?;
    }
    black_box(parent_id());
    Ok(found)
}

/// Runs gets of present keys, gets of missing keys, and overwrites. Returns how many gets found a
/// value.
pub(crate) fn run(folder: &Path) -> Result<Json, Failure> {
    let path = folder.join("hot-path.tuck");
    let cache = Cache::open(&Place::Path(path.clone()), &Config::default())?;
    let keys = inputs::keys(0, ENTRIES);
    let absent = inputs::keys(ENTRIES, ENTRIES);
    let value = vec![7; inputs::VALUE_BYTES];
    let set_all = || {
        for key in &keys {
            cache.set(key.as_bytes(), Value::bytes(&value), Ttl::Never)?;
        }
        Ok(keys.len())
    };
    set_all()?;
    let mut buffer = Buffer::new();
    let mut get_all = |keys: &[String]| {
        let mut found = 0;
        for key in keys {
            let entry = black_box(cache.get(key.as_bytes(), &mut buffer)?);
            found += usize::from(entry.is_some());
        }
        Ok(found)
    };
    let present = marked(|| get_all(&keys))?;
    let missing = marked(|| get_all(&absent))?;
    let stored = marked(set_all)?;
    if (present, missing, stored) != (stored, 0, (1 + PASSES) * ENTRIES) {
        return Err(format!("{present} of {stored} keys found, and {missing} missing ones").into());
    }
    drop(cache);
    std::fs::remove_file(&path)?;
    for size_bytes in FULL_BYTES {
        let cache =
            Cache::open(&Place::Path(path.clone()), &Config { size_bytes, ..Config::default() })?;
        set_in_full_cache(&cache, size_bytes)?;
        drop(cache);
        std::fs::remove_file(&path)?;
    }
    Ok(json!({ "found": present }))
}

/// Fills a cache, and counts sets of further new keys.
fn set_in_full_cache(cache: &Cache, size_bytes: u64) -> Result<(), Failure> {
    let value = vec![7; FULL_VALUE_BYTES];
    let set_new = |key: u64| cache.set(&key.to_le_bytes(), Value::bytes(&value), Ttl::Never);
    // A quarter more than fits in.
    let filling = size_bytes / FULL_VALUE_BYTES as u64 * 5 / 4;
    (0..filling).try_for_each(set_new)?;
    let evictions = cache.stats().evictions;
    let mut next = filling;
    marked(|| {
        let keys = next..next + ENTRIES as u64;
        next = keys.end;
        keys.into_iter().try_for_each(set_new)?;
        Ok(ENTRIES)
    })?;
    match evictions {
        0 => Err(format!("a cache of {size_bytes} bytes is not full").into()),
        _ => Ok(()),
    }
}
