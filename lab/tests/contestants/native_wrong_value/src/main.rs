//! Every fiftieth hit has its last bit flipped.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::path::Path;
use std::process::ExitCode;

use lab_host::{Adapter, Limits, Result, Store};
use native_honest::{Files, Honest};

struct Control;

struct Spoiled {
    files: Files,
    hits: Cell<u32>,
}

impl Adapter for Control {
    type Store = Spoiled;

    fn open(&self, folder: &Path, limits: Limits) -> Result<Spoiled> {
        Ok(Spoiled { files: Honest.open(folder, limits)?, hits: Cell::default() })
    }
}

impl Store for Spoiled {
    type Value = Vec<u8>;
    type Answer = Vec<u8>;

    fn value(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let mut answer = self.files.get(key)?;
        if let Some(last) = answer.as_mut().and_then(|value| value.last_mut()) {
            if self.hits.replace(self.hits.get() + 1) % 50 == 49 {
                *last ^= 1;
            }
        }
        Ok(answer)
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
