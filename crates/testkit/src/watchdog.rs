//! A watchdog: a test that takes longer than it may ends with an error, and does not hang.

use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ends this process with status 2 if it is not dropped in time. Its children end with it (see
/// [`crate::process::Worker`]).
#[derive(Debug)]
pub struct Watchdog {
    release: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Begins to watch. `what` is named in the message.
    pub fn new(what: &str, limit: Duration) -> Watchdog {
        let (release, released) = channel::<()>();
        let what = what.to_string();
        let thread = std::thread::spawn(move || {
            if let Err(RecvTimeoutError::Timeout) = released.recv_timeout(limit) {
                eprintln!("watchdog: {what} did not end within {limit:?}");
                std::process::exit(2);
            }
        });
        Watchdog { release: Some(release), thread: Some(thread) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.release.take());
        if let Some(thread) = self.thread.take() {
            // It only waits for the sender that was just dropped.
            let _ = thread.join();
        }
    }
}
