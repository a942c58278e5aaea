//! It cannot be opened, or panics at the first get: the setting `when` says which.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use lab_host::{Adapter, Limits, Result, Store};
use native_honest::{Files, Honest};

struct Control {
    opens: bool,
}

struct Spoiled {
    files: Files,
}

impl Adapter for Control {
    type Store = Spoiled;

    fn open(&self, folder: &Path, limits: Limits) -> Result<Spoiled> {
        if !self.opens {
            return Err("no cache today".into());
        }
        Ok(Spoiled { files: Honest.open(folder, limits)? })
    }
}

impl Store for Spoiled {
    type Value = Vec<u8>;
    type Answer = Vec<u8>;

    fn value(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn get(&self, _key: &str) -> Result<Option<Vec<u8>>> {
        panic!("no value today")
    }

    fn set(&self, key: &str, value: &Vec<u8>) -> Result<bool> {
        self.files.set(key, value)
    }

    fn delete(&self, key: &str) -> Result<bool> {
        self.files.delete(key)
    }
}

fn main() -> ExitCode {
    lab_host::serve(|settings| {
        let opens = settings.take("when")? == "get";
        Ok(lab_host::contestant(Control { opens }))
    })
}
