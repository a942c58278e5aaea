//! One operation of the engine, again and again, for a tool that counts instructions.
//!
//! Owns what is run. Must not time anything.

use std::hint::black_box;
use std::path::Path;

use clap::ValueEnum;
use serde_json::{json, Value as Json};
use tuckbox_engine::{Buffer, Cache, Config, Place, Ttl, Value};

use crate::caches::Failure;
use crate::inputs;

const ENTRIES: usize = 2_000;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Operation {
    /// A get of an entry that is there.
    Get,
    /// A get of a key that is not.
    GetAbsent,
    /// A set of a key that is there.
    Set,
}

/// Runs an operation for each of the keys, `passes` times; returns how many were run, and how many
/// of them found something.
pub(crate) fn run(folder: &Path, operation: Operation, passes: usize) -> Result<Json, Failure> {
    let path = folder.join("hot-path.tuck");
    let cache = Cache::open(&Place::Path(path.clone()), &Config::default())?;
    let keys = inputs::keys(0, ENTRIES);
    let absent = inputs::keys(ENTRIES, ENTRIES);
    let value = vec![7; inputs::VALUE_BYTES];
    for key in &keys {
        cache.set(key.as_bytes(), Value::bytes(&value), Ttl::Never)?;
    }
    let mut buffer = Buffer::new();
    let mut found = 0;
    for _ in 0..passes {
        match operation {
            Operation::Get | Operation::GetAbsent => {
                let wanted = if matches!(operation, Operation::Get) { &keys } else { &absent };
                for key in wanted {
                    let entry = black_box(cache.get(key.as_bytes(), &mut buffer)?);
                    found += usize::from(entry.is_some());
                }
            }
            Operation::Set => {
                for key in &keys {
                    cache.set(key.as_bytes(), Value::bytes(&value), Ttl::Never)?;
                }
            }
        }
    }
    drop(cache);
    std::fs::remove_file(path)?;
    Ok(json!({ "operations": passes * ENTRIES, "found": found }))
}
