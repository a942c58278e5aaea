//! Gives the answers of a script and keeps the values of sets; see `Hosts.scripted`.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use lab_host::{Adapter, Limits, Result, Store};

const SLOW: Duration = Duration::from_millis(200);

struct Control {
    script: PathBuf,
}

struct Scripted {
    folder: PathBuf,
    /// The remaining answers, the next one last.
    lines: RefCell<Vec<String>>,
}

impl Adapter for Control {
    type Store = Scripted;

    fn open(&self, folder: &Path, _limits: Limits) -> Result<Scripted> {
        let script = fs::read_to_string(&self.script)?;
        let lines = script.lines().rev().map(str::to_owned).collect();
        Ok(Scripted { folder: folder.to_owned(), lines: RefCell::new(lines) })
    }
}

impl Scripted {
    fn next(&self) -> Result<String> {
        let line = self.lines.borrow_mut().pop().ok_or("the script is over")?;
        match line.as_str() {
            "slow" => thread::sleep(SLOW),
            "raise" => panic!("no value today"),
            _ => (),
        }
        Ok(line)
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

    fn set(&self, key: &str, value: &Vec<u8>) -> Result<bool> {
        fs::write(self.folder.join(key), value)?;
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
