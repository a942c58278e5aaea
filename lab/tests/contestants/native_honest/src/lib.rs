//! One file per entry, without a limit: it keeps everything. It also prints to standard output.

#![forbid(unsafe_code)]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{fs, io, process};

use lab_host::{Adapter, Limits, Result, Store};

/// Opens honest stores.
pub struct Honest;

/// A folder with a file for each entry.
pub struct Files(PathBuf);

impl Adapter for Honest {
    type Store = Files;

    fn open(&self, folder: &Path, _limits: Limits) -> Result<Files> {
        println!("an adapter may print: this must not disturb the protocol");
        Ok(Files(folder.to_owned()))
    }
}

impl Files {
    fn path(&self, key: &str) -> PathBuf {
        self.0.join(key)
    }
}

/// None if there is no such file.
fn there<T>(answer: io::Result<T>) -> Result<Option<T>> {
    match answer {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => Ok(Some(other?)),
    }
}

impl Store for Files {
    type Value = Vec<u8>;
    type Answer = Vec<u8>;

    fn value(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        there(fs::read(self.path(key)))
    }

    fn set(&self, key: &str, value: &Vec<u8>) -> Result<bool> {
        // A reader in another process sees all of a value or none of it.
        let new = self.0.join(format!(".{}", process::id()));
        fs::write(&new, value)?;
        fs::rename(new, self.path(key))?;
        Ok(true)
    }

    fn delete(&self, key: &str) -> Result<bool> {
        Ok(there(fs::remove_file(self.path(key)))?.is_some())
    }

    fn clear(&self) -> Result<bool> {
        for entry in fs::read_dir(&self.0)? {
            fs::remove_file(entry?.path())?;
        }
        Ok(true)
    }
}
