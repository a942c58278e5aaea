//! `quick_cache::sync::Cache`, limited by entries if they are limited, else by bytes.
//!
//! `V` is the type of stored values. A get clones it: `Arc<[u8]>` is shared with the program,
//! `Vec<u8>` is copied.

#![forbid(unsafe_code)]

use std::marker::PhantomData;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use lab_host::{Adapter, Limits, Result, Store};
use quick_cache::sync::Cache;
use quick_cache::Weighter;

/// The assumed weight of an entry, for the library's estimate of the number of entries. According
/// to its documentation, two orders of magnitude do not matter.
const ENTRY_BYTES_ESTIMATED: u64 = 1_000;

trait Bytes: AsRef<[u8]> + From<Vec<u8>> + Clone {}

impl Bytes for Arc<[u8]> {}
impl Bytes for Vec<u8> {}

/// Weighs an entry: as 1, or by the bytes of its key and its value.
#[derive(Clone)]
enum Weight {
    One,
    Bytes,
}

impl<V: Bytes> Weighter<String, V> for Weight {
    fn weight(&self, key: &String, value: &V) -> u64 {
        match self {
            Weight::One => 1,
            Weight::Bytes => (key.len() + value.as_ref().len()) as u64,
        }
    }
}

struct QuickCache<V>(PhantomData<V>);

struct Open<V: Bytes>(Cache<String, V, Weight>);

impl<V: Bytes + 'static> Adapter for QuickCache<V> {
    type Store = Open<V>;

    fn open(&self, _folder: &Path, limits: Limits) -> Result<Open<V>> {
        let (entries, capacity, weight) = match limits.entries {
            Some(entries) => (entries, entries, Weight::One),
            None => (limits.bytes / ENTRY_BYTES_ESTIMATED, limits.bytes, Weight::Bytes),
        };
        Ok(Open(Cache::with_weighter(usize::try_from(entries)?, capacity, weight)))
    }
}

impl<V: Bytes> Store for Open<V> {
    type Value = V;
    type Answer = V;

    fn value(bytes: Vec<u8>) -> V {
        V::from(bytes)
    }

    fn get(&self, key: &str) -> Result<Option<V>> {
        Ok(self.0.get(key))
    }

    fn set(&self, key: &str, value: &V) -> Result<bool> {
        self.0.insert(key.to_owned(), value.clone());
        Ok(true)
    }

    fn delete(&self, key: &str) -> Result<bool> {
        Ok(self.0.remove(key).is_some())
    }

    fn clear(&self) -> Result<bool> {
        self.0.clear();
        Ok(true)
    }
}

fn main() -> ExitCode {
    lab_host::serve(|settings| match settings.take("values")?.as_str() {
        "shared" => Ok(lab_host::contestant(QuickCache::<Arc<[u8]>>(PhantomData))),
        "copied" => Ok(lab_host::contestant(QuickCache::<Vec<u8>>(PhantomData))),
        other => Err(format!("values are shared or copied, not {other:?}").into()),
    })
}
