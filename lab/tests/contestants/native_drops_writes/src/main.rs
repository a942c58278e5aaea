//! A key whose characters add up to a multiple of ten is silently not stored.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use lab_host::{Adapter, Limits, Result, Store};
use native_honest::{Files, Honest};

struct Control;

struct Spoiled {
    files: Files,
}

impl Adapter for Control {
    type Store = Spoiled;

    fn open(&self, folder: &Path, limits: Limits) -> Result<Spoiled> {
        Ok(Spoiled { files: Honest.open(folder, limits)? })
    }
}

impl Store for Spoiled {
    type Value = Vec<u8>;
    type Answer = Vec<u8>;

    fn value(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.files.get(key)
    }

    fn set(&self, key: &str, value: &Vec<u8>) -> Result<bool> {
        if key.bytes().map(u32::from).sum::<u32>() % 10 == 0 {
            return Ok(true);
        }
        self.files.set(key, value)
    }

    fn delete(&self, key: &str) -> Result<bool> {
        self.files.delete(key)
    }
}

fn main() -> ExitCode {
    lab_host::serve(|_| Ok(lab_host::contestant(Control)))
}
