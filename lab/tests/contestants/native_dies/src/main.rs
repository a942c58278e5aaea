//! The two-hundredth get kills the process.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::path::Path;
use std::process::{self, ExitCode};

use lab_host::{Adapter, Limits, Result, Store};
use native_honest::{Files, Honest};

struct Control;

struct Spoiled {
    files: Files,
    gets: Cell<u32>,
}

impl Adapter for Control {
    type Store = Spoiled;

    fn open(&self, folder: &Path, limits: Limits) -> Result<Spoiled> {
        Ok(Spoiled { files: Honest.open(folder, limits)?, gets: Cell::default() })
    }
}

impl Store for Spoiled {
    type Value = Vec<u8>;
    type Answer = Vec<u8>;

    fn value(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        if self.gets.replace(self.gets.get() + 1) == 199 {
            // Like a kill by the kernel: no destructor runs, and there is no answer.
            process::abort();
        }
        self.files.get(key)
    }

    fn set(&self, key: &str, value: &Vec<u8>) -> Result<bool> {
        self.files.set(key, value)
    }

    fn delete(&self, key: &str) -> Result<bool> {
        self.files.delete(key)
    }
}

fn main() -> ExitCode {
    lab_host::serve(|_| Ok(lab_host::contestant(Control)))
}
