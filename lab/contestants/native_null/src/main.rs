//! Verbs that do nothing: they measure the host's loop and its clock.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use lab_host::{Adapter, Limits, Result, Store};

struct Null;

impl Adapter for Null {
    type Store = Null;

    fn open(&self, _folder: &Path, _limits: Limits) -> Result<Null> {
        Ok(Null)
    }
}

impl Store for Null {
    type Value = Vec<u8>;
    type Answer = Vec<u8>;

    fn value(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    // Not inlined, so that a call remains, as for a store's verbs.
    #[inline(never)]
    fn get(&self, _key: &str) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    #[inline(never)]
    fn set(&self, _key: &str, _value: &Vec<u8>) -> Result<bool> {
        Ok(true)
    }

    #[inline(never)]
    fn delete(&self, _key: &str) -> Result<bool> {
        Ok(false)
    }

    #[inline(never)]
    fn clear(&self) -> Result<bool> {
        Ok(true)
    }
}

fn main() -> ExitCode {
    lab_host::serve(|_| Ok(lab_host::contestant(Null)))
}
