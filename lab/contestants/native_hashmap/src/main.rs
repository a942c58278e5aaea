//! The standard library's `HashMap` behind a `Mutex`, with values copied in and out.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard};

use lab_host::{Adapter, Limits, Result, Store};

struct Std;

#[derive(Default)]
struct Map(Mutex<HashMap<String, Vec<u8>>>);

impl Adapter for Std {
    type Store = Map;

    fn open(&self, _folder: &Path, _limits: Limits) -> Result<Map> {
        Ok(Map::default())
    }
}

impl Map {
    fn lock(&self) -> Result<MutexGuard<'_, HashMap<String, Vec<u8>>>> {
        self.0.lock().map_err(|_| "another thread panicked while it held the lock".into())
    }
}

impl Store for Map {
    type Value = Vec<u8>;
    type Answer = Vec<u8>;

    fn value(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.lock()?.get(key).cloned())
    }

    fn set(&self, key: &str, value: &Vec<u8>) -> Result<bool> {
        self.lock()?.insert(key.to_owned(), value.clone());
        Ok(true)
    }

    fn delete(&self, key: &str) -> Result<bool> {
        Ok(self.lock()?.remove(key).is_some())
    }

    fn clear(&self) -> Result<bool> {
        self.lock()?.clear();
        Ok(true)
    }
}

fn main() -> ExitCode {
    lab_host::serve(|_| Ok(lab_host::contestant(Std)))
}
