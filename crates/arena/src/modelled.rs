//! Words whose every interleaving is tried out: what a region is made of in a build with
//! `--cfg loom`. The models are in `crates/engine/tests/loom`.
//!
//! A model builds its scene in one thread, with plain words, and then says [`begin`]. From then on
//! each word that is written is one of loom's, which knows the order of all stores and lets a load
//! see every one that the C11 memory model allows it to see. [`end`] makes them plain again.
//! Knows nothing of what the words mean.
//!
//! Loom has to know a word before the threads begin, and only those need it that are written. Which
//! they are is learnt: a run in which others were written does not count, and is done again
//! ([`learn`]).
//!
//! Loom 0.7 tries another order of two accesses only if no third came between them, even if that was
//! a load: a party that looks at a word before it stores hides from it whoever looked before. So
//! each access is preceded by one that loom takes for a change, a compare-and-swap that fails, of
//! a word beside it (`witness`). It orders nothing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex as StdMutex, OnceLock};

use loom::sync::{atomic as loomed, Condvar, Mutex};

use crate::region::Region;

static IS_BEGUN: AtomicBool = AtomicBool::new(false);
static HAS_TIME: AtomicBool = AtomicBool::new(true);
/// Words that the parties of this model write, as far as is known, and others that they wrote.
static KNOWN: StdMutex<BTreeSet<usize>> = StdMutex::new(BTreeSet::new());
static MET: StdMutex<BTreeSet<usize>> = StdMutex::new(BTreeSet::new());

/// The scene is set: what follows is tried out in every order. Where there is no time, a sleeper
/// sleeps until it is woken, so that loom finds whom nobody wakes; where there is, a sleep may end
/// at any moment, as the real ones do at the end of their slice.
pub fn begin(region: &Region, has_time: bool) {
    HAS_TIME.store(has_time, Ordering::SeqCst);
    for index in KNOWN.lock().expect("nobody panics with it").iter() {
        region.modelled_word(*index).make_known();
    }
    IS_BEGUN.store(true, Ordering::SeqCst);
}

/// All threads of the model have been joined, or none has begun.
pub fn end() {
    IS_BEGUN.store(false, Ordering::SeqCst);
}

/// Forgets the words of another model.
pub fn forget() {
    KNOWN.lock().expect("nobody panics with it").clear();
    MET.lock().expect("nobody panics with it").clear();
}

/// Learns which words were written. False if all of them were known: then the run counts.
pub fn learn() -> bool {
    let mut met = MET.lock().expect("nobody panics with it");
    let has_news = !met.is_empty();
    KNOWN.lock().expect("nobody panics with it").append(&mut met);
    has_news
}

fn is_begun() -> bool {
    IS_BEGUN.load(Ordering::SeqCst)
}

/// As in the standard library, and known to loom.
pub fn fence(order: Ordering) {
    if is_begun() {
        loomed::fence(order);
    }
}

/// A word: plain while the scene is set and judged.
#[derive(Debug)]
pub struct Word {
    index: usize,
    plain: std::sync::atomic::AtomicU64,
    modelled: OnceLock<Box<Modelled>>,
}

/// A word that loom knows, and what the kernel keeps for those who sleep on it.
#[derive(Debug)]
struct Modelled {
    word: loomed::AtomicU64,
    witness: loomed::AtomicBool,
    kernel: Mutex<()>,
    sleepers: Condvar,
}

impl Word {
    pub(crate) fn new(index: usize) -> Word {
        Word { index, plain: 0.into(), modelled: OnceLock::new() }
    }

    fn make_known(&self) {
        self.modelled.get_or_init(|| {
            Box::new(Modelled {
                word: loomed::AtomicU64::new(self.plain.load(Ordering::Relaxed)),
                witness: loomed::AtomicBool::new(false),
                kernel: Mutex::new(()),
                sleepers: Condvar::new(),
            })
        });
    }

    /// The word as loom knows it. Whoever judges has joined all threads, and sees the last store.
    fn modelled(&self) -> Option<&loomed::AtomicU64> {
        let modelled = self.modelled.get()?;
        if is_begun() {
            let order = Ordering::Relaxed;
            let _ = modelled.witness.compare_exchange(true, true, order, order);
        }
        Some(&modelled.word)
    }

    /// As [`Word::modelled`], for who may write.
    fn modelled_to_write(&self) -> Option<&loomed::AtomicU64> {
        let word = self.modelled();
        if word.is_none() && is_begun() {
            MET.lock().expect("nobody panics with it").insert(self.index);
        }
        word
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        match self.modelled() {
            Some(word) => word.load(order),
            None => self.plain.load(order),
        }
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        match self.modelled_to_write() {
            Some(word) => word.store(value, order),
            None => self.plain.store(value, order),
        }
    }

    pub(crate) fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        match self.modelled_to_write() {
            Some(word) => word.compare_exchange(current, new, success, failure),
            None => self.plain.compare_exchange(current, new, success, failure),
        }
    }

    pub(crate) fn fetch_add(&self, amount: u64, order: Ordering) -> u64 {
        match self.modelled_to_write() {
            Some(word) => word.fetch_add(amount, order),
            None => self.plain.fetch_add(amount, order),
        }
    }

    pub(crate) fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        match self.modelled_to_write() {
            Some(word) => word.fetch_or(bits, order),
            None => self.plain.fetch_or(bits, order),
        }
    }

    pub(crate) fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        match self.modelled_to_write() {
            Some(word) => word.fetch_and(bits, order),
            None => self.plain.fetch_and(bits, order),
        }
    }

    fn swap(&self, value: u64, order: Ordering) -> u64 {
        match self.modelled_to_write() {
            Some(word) => word.swap(value, order),
            None => self.plain.swap(value, order),
        }
    }
}

/// A lock word, lent. The kernel looks at its low half.
#[derive(Debug, Clone, Copy)]
pub struct LockWord<'a>(pub(crate) &'a Word);

impl LockWord<'_> {
    pub(crate) fn load(self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    pub(crate) fn store(self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }

    pub(crate) fn swap(self, value: u64, order: Ordering) -> u64 {
        self.0.swap(value, order)
    }

    pub(crate) fn compare_exchange(
        self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange(current, new, success, failure)
    }

    /// As the kernel does it: whoever looks and finds `value` is asleep before anybody else wakes.
    pub(crate) fn sleep(self, value: u32) {
        let timeless = self.0.modelled.get().filter(|_| !HAS_TIME.load(Ordering::SeqCst));
        let Some(at) = timeless else { return loom::thread::yield_now() };
        let kernel = at.kernel.lock().expect("nobody panics with it");
        // The kernel's look is not one that may miss the newest store.
        if at.word.fetch_add(0, Ordering::AcqRel) as u32 == value {
            drop(at.sleepers.wait(kernel));
        }
    }

    pub(crate) fn wake_one(self) {
        let timeless = is_begun() && !HAS_TIME.load(Ordering::SeqCst);
        if let Some(at) = self.0.modelled.get().filter(|_| timeless) {
            let _kernel = at.kernel.lock().expect("nobody panics with it");
            at.sleepers.notify_one();
        }
    }
}
