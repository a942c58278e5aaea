//! Tests of the protocol in docs/explanation/concurrency.md: what readers may see and survivors may
//! find when any two parties meet between any two steps.
//!
//! They run on the in-process twin, whose handles act as separate processes, with the hooks of
//! `tuckbox_arena::hooks`, by which a thread stops, stalls or dies at a named point. `script` plays
//! chosen interleavings, `invalidation` those of evicted tags, `leases` those of makers, `one_tag`
//! those of similar keys, `proof` those of kept proofs, `replaced` those of records in the places of
//! replaced ones, `stall` random ones, and `death` kills a
//! writer at every point that it reaches. `mutants.sh` shows that builds which break one rule of
//! the protocol fail here.

#![cfg(feature = "hooks")]

mod death;
mod invalidation;
mod leases;
mod one_tag;
mod proof;
mod replaced;
mod script;
mod stall;

use std::panic::resume_unwind;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_engine::{Buffer, Cache, Config, Ttl, Value};
use tuckbox_testkit::stamp::{self, Stamp};

/// The result of a read: the sequence of a stamped value, or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// A valid stamped value.
    Value(u64),
    /// An integer.
    Number(i64),
}

/// Handles on one cache in memory.
pub fn twins(size_bytes: u64, participants: u32) -> Vec<Arc<Cache>> {
    let config = Config { size_bytes, lock_limit: Duration::from_secs(20), ..Config::default() };
    let twins = Cache::twins(&config, participants).unwrap();
    twins.into_iter().map(Arc::new).collect()
}

/// The name of a key. All have the same length, so that records of equal values have equal sizes
/// and reuse each other's places.
pub fn name(key: usize) -> Vec<u8> {
    format!("key {key:08}").into_bytes()
}

/// A value that contains its key and sequence.
pub fn stamped(key: usize, sequence: u64, len: usize) -> Vec<u8> {
    let mut value = Vec::new();
    stamp::make(&name(key), Stamp { writer: 0, sequence }, len, &mut value);
    value
}

/// Stores a value that contains its key and sequence.
pub fn store(cache: &Cache, key: usize, sequence: u64, len: usize) {
    cache.set(&name(key), Value::bytes(&stamped(key, sequence, len)), Ttl::Never).unwrap();
}

/// Reads a key and verifies the value.
#[track_caller]
pub fn look(cache: &Cache, key: usize) -> Option<Seen> {
    let mut buffer = Buffer::new();
    let name = name(key);
    let entry = cache.get(&name, &mut buffer).unwrap()?;
    Some(match entry.value {
        Value::Int(number) => Seen::Number(number),
        Value::Bytes { bytes, .. } => match stamp::read(&name, bytes) {
            Ok(stamp) => Seen::Value(stamp.sequence),
            Err(forgery) => panic!("key {key} led to a value that is none of its own: {forgery:?}"),
        },
    })
}

/// Verifies every entry.
#[track_caller]
pub fn assert_sound(cache: &Cache) {
    let report = cache.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.entries, cache.len());
}

/// How a stopped thread ends if it is not resumed. No message: this is no failure.
struct Ended;

/// A thread that waits at a point of the protocol.
pub struct Stopped {
    /// The point.
    pub point: Point,
    resume: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stopped {
    /// Starts a thread that does `work` and stops when `is_there` returns true. None if it finished
    /// without stopping.
    pub fn start(
        cache: &Arc<Cache>,
        mut is_there: impl FnMut(Point) -> bool + Send + 'static,
        work: impl FnOnce(&Cache) + Send + 'static,
    ) -> Option<Stopped> {
        let (reached, at_point) = channel();
        let (resume, resumed): (Sender<()>, Receiver<()>) = channel();
        let cache = Arc::clone(cache);
        let thread = std::thread::spawn(move || {
            let mut is_done = false;
            hooks::set(move |point| {
                if !is_done && is_there(point) {
                    is_done = true;
                    reached.send(point).expect("whoever started this waits");
                    if resumed.recv().is_err() {
                        resume_unwind(Box::new(Ended));
                    }
                }
            });
            work(&cache);
            hooks::clear();
        });
        match at_point.recv() {
            Ok(point) => Some(Stopped { point, resume: Some(resume), thread: Some(thread) }),
            Err(_) => {
                join(thread);
                None
            }
        }
    }

    /// Resumes the thread and waits for its end.
    pub fn resume(mut self) {
        let _ = self.resume.take().expect("resumed once").send(());
        join(self.thread.take().expect("joined once"));
    }
}

impl Drop for Stopped {
    /// Ends a thread that was declared dead: nobody uses its cache any more.
    fn drop(&mut self) {
        drop(self.resume.take());
        if let Some(thread) = self.thread.take() {
            join(thread);
        }
    }
}

fn join(thread: JoinHandle<()>) {
    if let Err(panic) = thread.join() {
        if !panic.is::<Ended>() && !std::thread::panicking() {
            resume_unwind(panic);
        }
    }
}

/// Returns true at the `count`-th call with `point`.
pub fn nth(point: Point, count: u32) -> impl FnMut(Point) -> bool + Send {
    let mut left = count;
    move |reached| {
        if reached == point && left > 0 {
            left -= 1;
            return left == 0;
        }
        false
    }
}

/// The points that some work reaches, in order.
pub fn points_of(work: impl FnOnce()) -> Vec<Point> {
    let points = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = std::rc::Rc::clone(&points);
    hooks::set(move |point| seen.borrow_mut().push(point));
    work();
    hooks::clear();
    points.take()
}
