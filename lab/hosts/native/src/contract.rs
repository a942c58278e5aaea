//! The contract of adapters: an adapter opens a store, which has the four other verbs.
//!
//! Owns the contract between the host and the contestants. Must not know any of them, nor how they
//! are measured.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

/// An error that ends the cell, because the contract does not define it as an answer.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A result whose error ends the cell.
pub type Result<T> = std::result::Result<T, Failure>;

/// The limits of a store. A contestant applies those that it supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The limit of entries, if any.
    pub entries: Option<u64>,
    /// The limit of bytes, if any.
    pub bytes: u64,
}

/// Opens stores.
pub trait Adapter {
    /// The type of its stores.
    type Store: Store;

    /// Opens the store in `folder`, which exists and contains nothing else.
    ///
    /// # Errors
    /// Any error that prevents opening the store.
    fn open(&self, folder: &Path, limits: Limits) -> Result<Self::Store>;
}

/// An open store.
///
/// The verbs take `&self`, because a cache is shared. A documented refusal (too large, no room) is
/// an answer; any other error ends the cell.
pub trait Store {
    /// The type of a value to store: `Vec<u8>`, unless the store keeps the program's own object.
    type Value;
    /// The type of a get's answer. It must stay valid until it is dropped, whatever the store does.
    type Answer: AsRef<[u8]>;

    /// Converts a value into the program's type. Never timed.
    fn value(bytes: Vec<u8>) -> Self::Value;

    /// The value stored last, or none.
    ///
    /// # Errors
    /// Any error of the store.
    fn get(&self, key: &str) -> Result<Option<Self::Answer>>;

    /// Stores a value; false if the store refused.
    ///
    /// # Errors
    /// Any error of the store that is not a refusal.
    fn set(&self, key: &str, value: &Self::Value) -> Result<bool>;

    /// Deletes a key; true if it existed.
    ///
    /// # Errors
    /// Any error of the store that is not a refusal.
    fn delete(&self, key: &str) -> Result<bool>;

    /// Empties the store; false if there is no operation for that.
    ///
    /// # Errors
    /// Any error of the store.
    fn clear(&self) -> Result<bool> {
        Ok(false)
    }

    /// Frees the process's resources, keeps the store's data.
    ///
    /// # Errors
    /// Any error of the store.
    fn close(self) -> Result<()>
    where
        Self: Sized,
    {
        Ok(())
    }
}

/// The settings of a contestant. An unused setting is an error.
#[derive(Debug)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    pub(crate) fn new(texts: BTreeMap<String, String>) -> Settings {
        Settings(texts)
    }

    /// The text of a setting.
    ///
    /// # Errors
    /// If it is missing.
    pub fn take(&mut self, name: &str) -> Result<String> {
        let text = self.0.remove(name);
        text.ok_or_else(|| format!("the setting {name:?} is missing: see contestant.toml").into())
    }

    /// The time to live of entries, if any. Contestants with `expires = true` take it.
    ///
    /// # Errors
    /// If it is not a number of seconds above 0.
    pub fn take_ttl(&mut self) -> Result<Option<Duration>> {
        let Some(text) = self.0.remove("ttl_seconds") else { return Ok(None) };
        let ttl = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        match ttl {
            Some(ttl) if !ttl.is_zero() => Ok(Some(ttl)),
            _ => Err(format!("the setting ttl_seconds is {text:?}, not a number above 0").into()),
        }
    }

    pub(crate) fn end(self) -> Result<()> {
        let names: Vec<String> = self.0.into_keys().collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(format!("this contestant has no setting called {}", names.join(", ")).into())
    }
}
