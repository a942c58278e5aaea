//! The honest contestant: it must be accused of nothing.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use lab_host::contestant;
use native_honest::Honest;

fn main() -> ExitCode {
    lab_host::serve(|_| Ok(contestant(Honest)))
}
