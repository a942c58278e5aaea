//! `tuckbox_engine::Cache` in a file of the store's folder, with the suite's limits and time to live.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::path::Path;
use std::process::ExitCode;

use lab_host::{Adapter, Failure, Limits, Result, Store};
use tuckbox_engine::{Buffer, Cache, Config, Error, Place, Ttl, Value};

struct Tuckbox {
    ttl: Ttl,
}

struct Open {
    cache: Cache,
    ttl: Ttl,
    buffer: RefCell<Buffer>,
}

impl Adapter for Tuckbox {
    type Store = Open;

    fn open(&self, folder: &Path, limits: Limits) -> Result<Open> {
        let place = Place::Path(folder.join("cache.tuck"));
        let config =
            Config { size_bytes: limits.bytes, max_entries: limits.entries, ..Config::default() };
        let cache = Cache::open(&place, &config)?;
        Ok(Open { cache, ttl: self.ttl, buffer: RefCell::default() })
    }
}

impl Store for Open {
    type Value = Vec<u8>;
    type Answer = Vec<u8>;

    fn value(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let buffer = &mut *self.buffer.borrow_mut();
        match self.cache.get(key.as_bytes(), buffer)? {
            None => Ok(None),
            Some(entry) => match entry.value {
                Value::Bytes { bytes, .. } => Ok(Some(bytes.to_vec())),
                Value::Int(_) => Err("an integer was found where bytes were stored".into()),
            },
        }
    }

    fn set(&self, key: &str, value: &Vec<u8>) -> Result<bool> {
        match self.cache.set(key.as_bytes(), Value::bytes(value), self.ttl) {
            Ok(()) => Ok(true),
            Err(Error::ValueTooLarge { .. } | Error::Full { .. }) => Ok(false),
            Err(error) => Err(Failure::from(error)),
        }
    }

    fn delete(&self, key: &str) -> Result<bool> {
        Ok(self.cache.delete(key.as_bytes())?)
    }

    fn clear(&self) -> Result<bool> {
        self.cache.clear()?;
        Ok(true)
    }

    fn close(self) -> Result<()> {
        self.cache.close();
        Ok(())
    }
}

fn main() -> ExitCode {
    lab_host::serve(|settings| {
        let ttl = settings.take_ttl()?.map_or(Ttl::Never, Ttl::from);
        Ok(lab_host::contestant(Tuckbox { ttl }))
    })
}
