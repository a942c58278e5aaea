//! It answers what a script says: see `workers_rules.py`.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lab_host::{Adapter, Limits, Result, Store};

struct Control {
    script: PathBuf,
}

struct Scripted {
    /// The answers that are left, the next one last.
    lines: RefCell<Vec<String>>,
}

impl Adapter for Control {
    type Store = Scripted;

    fn open(&self, _folder: &Path, _limits: Limits) -> Result<Scripted> {
        let script = fs::read_to_string(&self.script)?;
        let lines = script.lines().rev().map(str::to_owned).collect();
        Ok(Scripted { lines: RefCell::new(lines) })
    }
}

impl Scripted {
    fn next(&self) -> Result<String> {
        self.lines.borrow_mut().pop().ok_or_else(|| "the script is over".into())
    }
}

impl Store for Scripted {
    type Value = Vec<u8>;
    type Answer = Vec<u8>;

    fn value(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn get(&self, _key: &str) -> Result<Option<Vec<u8>>> {
        let line = self.next()?;
        let Some(digits) = line.strip_prefix('=') else { return Ok(None) };
        let bytes = (0..digits.len()).step_by(2);
        let bytes = bytes.map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
        Ok(Some(bytes.collect::<std::result::Result<_, _>>()?))
    }

    fn set(&self, _key: &str, _value: &Vec<u8>) -> Result<bool> {
        Ok(self.next()? == "yes")
    }

    fn delete(&self, _key: &str) -> Result<bool> {
        Ok(self.next()? == "yes")
    }
}

fn main() -> ExitCode {
    lab_host::serve(|settings| {
        let script = settings.take("script")?.into();
        Ok(lab_host::contestant(Control { script }))
    })
}
