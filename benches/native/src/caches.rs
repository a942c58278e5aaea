//! The compared caches, each used as its documentation shows, with space for all entries.
//!
//! Owns what a get and a set are for each. A get returns bytes that the program owns.

use std::path::Path;

use quick_cache::{UnitWeighter, Weighter};
use tuckbox_engine::{Buffer, Cache, Config, Place, Ttl, Value};

pub(crate) type Failure = Box<dyn std::error::Error>;

/// A cache under test.
pub(crate) trait Contestant {
    /// Looks a key up.
    fn get(&mut self, key: &str) -> Option<Vec<u8>>;

    /// Stores a copy of a value.
    fn set(&mut self, key: &str, value: &[u8]);
}

fn open(folder: &Path, name: &str, config: &Config) -> Result<Cache, Failure> {
    Ok(Cache::open(&Place::Path(folder.join(name)), config)?)
}

/// The engine; a get copies into a new vector.
pub(crate) struct Tuckbox {
    cache: Cache,
    buffer: Buffer,
}

impl Tuckbox {
    /// A cache with a file of this size and, if it is not 0, this limit of entries.
    pub(crate) fn limited(
        folder: &Path,
        name: &str,
        size_bytes: u64,
        max_entries: u64,
    ) -> Result<Tuckbox, Failure> {
        let max_entries = (max_entries > 0).then_some(max_entries);
        let config = Config { size_bytes, max_entries, ..Config::default() };
        Ok(Tuckbox { cache: open(folder, name, &config)?, buffer: Buffer::new() })
    }

    pub(crate) fn entries(&self) -> u64 {
        self.cache.len()
    }

    fn bytes(&mut self, key: &str) -> Option<&[u8]> {
        match self.cache.get(key.as_bytes(), &mut self.buffer).expect("a get")?.value {
            Value::Bytes { bytes, .. } => Some(bytes),
            Value::Int(_) => None,
        }
    }
}

impl Contestant for Tuckbox {
    #[inline]
    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        self.bytes(key).map(<[u8]>::to_vec)
    }

    #[inline]
    fn set(&mut self, key: &str, value: &[u8]) {
        self.cache.set(key.as_bytes(), Value::bytes(value), Ttl::Never).expect("a set");
    }
}

/// moka's cache for threads; a get clones the vector.
pub(crate) struct Moka(moka::sync::Cache<String, Vec<u8>>);

impl Moka {
    pub(crate) fn new(entries: usize) -> Moka {
        Moka(moka::sync::Cache::new(entries as u64))
    }

    /// A cache limited to this many bytes of keys and values.
    pub(crate) fn limited(payload_bytes: u64) -> Moka {
        let builder = moka::sync::Cache::builder().max_capacity(payload_bytes);
        Moka(builder.weigher(|key: &String, value: &Vec<u8>| weight(key, value) as u32).build())
    }

    /// Does the pending work of inserts, so that no get pays for it.
    pub(crate) fn settle(&self) {
        self.0.run_pending_tasks();
    }
}

impl Contestant for Moka {
    #[inline]
    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    #[inline]
    fn set(&mut self, key: &str, value: &[u8]) {
        self.0.insert(key.to_owned(), value.to_vec());
    }
}

fn weight(key: &str, value: &[u8]) -> usize {
    key.len() + value.len()
}

/// Weighs an entry by its payload.
#[derive(Clone)]
pub(crate) struct ByPayload;

impl Weighter<String, Vec<u8>> for ByPayload {
    fn weight(&self, key: &String, value: &Vec<u8>) -> u64 {
        weight(key, value) as u64
    }
}

/// quick_cache's cache for threads; a get clones the vector.
pub(crate) struct QuickCache<W = UnitWeighter>(quick_cache::sync::Cache<String, Vec<u8>, W>);

impl QuickCache {
    pub(crate) fn new(entries: usize) -> QuickCache {
        QuickCache(quick_cache::sync::Cache::new(entries))
    }
}

impl QuickCache<ByPayload> {
    /// A cache limited to this many bytes of keys and values, about this many entries.
    pub(crate) fn limited(entries: usize, payload_bytes: u64) -> QuickCache<ByPayload> {
        QuickCache(quick_cache::sync::Cache::with_weighter(entries, payload_bytes, ByPayload))
    }
}

impl<W: Weighter<String, Vec<u8>> + Clone> Contestant for QuickCache<W> {
    #[inline]
    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    #[inline]
    fn set(&mut self, key: &str, value: &[u8]) {
        self.0.insert(key.to_owned(), value.to_vec());
    }
}

/// A map without limit, lock or sharing; a get clones the vector. Shows the cost of copying alone.
#[derive(Default)]
pub(crate) struct HashMap(std::collections::HashMap<String, Vec<u8>>);

impl Contestant for HashMap {
    #[inline]
    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        self.0.get(key).cloned()
    }

    #[inline]
    fn set(&mut self, key: &str, value: &[u8]) {
        self.0.insert(key.to_owned(), value.to_vec());
    }
}
