//! The honest contestant, for which no fault must be reported.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use lab_host::contestant;
use native_honest::Honest;

fn main() -> ExitCode {
    lab_host::serve(|_| Ok(contestant(Honest)))
}
