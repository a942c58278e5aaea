//! Reads requests from standard input and answers on standard output, until the input ends.
//!
//! Owns the process: its streams, its end, and the conversion of errors and panics into replies.
//! Must not know what a request means.

use std::any::Any;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use crate::allocator;
use crate::contract::{Failure, Result, Settings};
use crate::driver::Driver;
use crate::host::Host;
use crate::orphan::die_with_parent;
use crate::protocol::Reply;
use crate::timing::clock_ns;

/// Serves requests until the input ends. A contestant's `main` calls nothing else.
///
/// `choose` makes the contestant for the settings. The program's only argument is the id of the
/// process that it must not outlive.
pub fn serve(choose: fn(&mut Settings) -> Result<Driver>) -> ExitCode {
    let started_ns = clock_ns();
    allocator::keep_pages();
    let host = Host::new(choose, started_ns);
    match parent().and_then(die_with_parent).and_then(|()| answer(host)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", reason(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn parent() -> Result<u32> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parent = match arguments.as_slice() {
        [parent] => parent.parse().ok(),
        _ => None,
    };
    parent.ok_or_else(|| "give one argument: the id of the process that starts this one".into())
}

fn answer(mut host: Host) -> Result<()> {
    // Replies go to a private copy of the output. A contestant's output goes to the error output.
    let mut replies = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdout(io::stderr())?;
    for line in io::stdin().lock().split(b'\n') {
        let reply = obey(&mut host, &line?);
        let mut text = serde_json::to_vec(&reply)?;
        text.push(b'\n');
        replies.write_all(&text)?;
    }
    Ok(())
}

fn obey(host: &mut Host, line: &[u8]) -> Reply {
    let reply = panic::catch_unwind(AssertUnwindSafe(|| {
        let request = serde_json::from_slice(line)
            .map_err(|error| format!("the request is not of this protocol: {error}"))?;
        host.obey(request)
    }));
    let error = match reply {
        Ok(Ok(reply)) => return reply,
        Ok(Err(error)) => error,
        Err(payload) => panicked(payload.as_ref()),
    };
    let reason = reason(error.as_ref());
    eprintln!("{reason}");
    Reply::Failed { reason, missing: false }
}

fn panicked(payload: &(dyn Any + Send)) -> Failure {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("the contestant panicked: {}", text.unwrap_or("no message")).into()
}

/// An error with its causes.
fn reason(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let told = cause.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        source = cause.source();
    }
    text
}
