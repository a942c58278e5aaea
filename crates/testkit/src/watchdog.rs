//! A watchdog: a test that takes too long ends with an error instead of hanging. Must not know the
//! test.

use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ends this process with status 2 unless it is dropped in time. Its children end with it (see
/// [`crate::process::Worker`]).
#[derive(Debug)]
pub struct Watchdog {
    release: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts the watchdog. The message names `what`. `TUCKBOX_SLOWDOWN` multiplies the limit, for
    /// emulated processors.
    pub fn new(what: &str, limit: Duration) -> Watchdog {
        let slowdown = std::env::var("TUCKBOX_SLOWDOWN");
        let limit = limit * slowdown.map_or(1, |text| text.parse().expect("a number"));
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
