//! `moka::sync::Cache`, limited by entries if they are limited, else by bytes.
//!
//! `V` is the type of stored values. A get clones it: `Arc<[u8]>` is shared with the program,
//! `Vec<u8>` is copied.

#![forbid(unsafe_code)]

use std::marker::PhantomData;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use lab_host::{Adapter, Limits, Result, Store};
use moka::sync::Cache;

trait Bytes: AsRef<[u8]> + From<Vec<u8>> + Clone + Send + Sync + 'static {}

impl Bytes for Arc<[u8]> {}
impl Bytes for Vec<u8> {}

struct Moka<V>(PhantomData<V>);

struct Open<V: Bytes>(Cache<String, V>);

impl<V: Bytes> Adapter for Moka<V> {
    type Store = Open<V>;

    fn open(&self, _folder: &Path, limits: Limits) -> Result<Open<V>> {
        let builder = Cache::builder();
        Ok(Open(match limits.entries {
            Some(entries) => builder.max_capacity(entries).build(),
            None => builder
                .max_capacity(limits.bytes)
                .weigher(|key: &String, value: &V| {
                    u32::try_from(key.len() + value.as_ref().len()).unwrap_or(u32::MAX)
                })
                .build(),
        }))
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
        self.0.invalidate_all();
        Ok(true)
    }
}

fn main() -> ExitCode {
    lab_host::serve(|settings| match settings.take("values")?.as_str() {
        "shared" => Ok(lab_host::contestant(Moka::<Arc<[u8]>>(PhantomData))),
        "copied" => Ok(lab_host::contestant(Moka::<Vec<u8>>(PhantomData))),
        other => Err(format!("values are shared or copied, not {other:?}").into()),
    })
}
