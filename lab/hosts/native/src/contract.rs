//! What an adapter is: something that opens a store, which has the four other verbs.
//!
//! Owns the contract between the host and the contestants. Must not know any of them, nor how they
//! are measured.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

/// What ends a cell: an error that the contract does not name as an answer.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A result whose error ends the cell.
pub type Result<T> = std::result::Result<T, Failure>;

/// How much a store may hold. A contestant obeys what it counts and says what it cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most entries, if they are limited.
    pub entries: Option<u64>,
    /// The most bytes.
    pub bytes: u64,
}

/// Opens stores.
pub trait Adapter {
    /// What it opens.
    type Store: Store;

    /// Opens the store in `folder`, which is there and belongs to it alone.
    ///
    /// # Errors
    /// Whatever keeps the store from being opened.
    fn open(&self, folder: &Path, limits: Limits) -> Result<Self::Store>;
}

/// An open store.
///
/// The verbs take `&self`, for a cache is shared. A documented refusal (too large, no room) is an
/// answer; any other error ends the cell.
pub trait Store {
    /// How the program holds a value that it is going to store: `Vec<u8>`, unless the store keeps
    /// the program's own object.
    type Value;
    /// What a get gives the program. It stays valid until it is dropped, whatever the store does.
    type Answer: AsRef<[u8]>;

    /// Brings a value into the program's form. Never timed.
    fn value(bytes: Vec<u8>) -> Self::Value;

    /// The value stored last, or none.
    ///
    /// # Errors
    /// Any error of the store.
    fn get(&self, key: &str) -> Result<Option<Self::Answer>>;

    /// Stores a value; false when the store refused.
    ///
    /// # Errors
    /// Any error of the store that is no refusal.
    fn set(&self, key: &str, value: &Self::Value) -> Result<bool>;

    /// Whether there was something to delete.
    ///
    /// # Errors
    /// Any error of the store that is no refusal.
    fn delete(&self, key: &str) -> Result<bool>;

    /// Empties the store; false if there is no operation for that.
    ///
    /// # Errors
    /// Any error of the store.
    fn clear(&self) -> Result<bool> {
        Ok(false)
    }

    /// Gives back what the process holds, keeps what the store holds.
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

/// The settings of a contestant. What nobody takes is an error.
#[derive(Debug)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    pub(crate) fn new(texts: BTreeMap<String, String>) -> Settings {
        Settings(texts)
    }

    /// The text of a setting.
    ///
    /// # Errors
    /// When it is not there.
    pub fn take(&mut self, name: &str) -> Result<String> {
        let text = self.0.remove(name);
        text.ok_or_else(|| format!("the setting {name:?} is missing: see contestant.toml").into())
    }

    /// For how long the suite wants an entry to be kept, if it has a limit for that. A contestant
    /// that says `expires = true` takes it.
    ///
    /// # Errors
    /// When it is no number of seconds above 0.
    pub fn take_ttl(&mut self) -> Result<Option<Duration>> {
        let Some(text) = self.0.remove("ttl_seconds") else { return Ok(None) };
        let ttl = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        match ttl {
            Some(ttl) if !ttl.is_zero() => Ok(Some(ttl)),
            _ => Err(format!("the setting ttl_seconds is {text:?}, and no number above 0").into()),
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
