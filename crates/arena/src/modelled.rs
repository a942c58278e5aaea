//! Words for model checking: what a region consists of in builds with `--cfg loom`. The models are
//! in `crates/engine/src/models.rs`. Must not know what the words mean.
//!
//! A model builds its scene in one thread, with plain words, and then calls [`begin`]. From then on
//! every word that is written is one of loom's: a load sees any store that the C11 memory model
//! allows. [`end`] makes the words plain again.
//!
//! Loom must know a word before the threads begin, and only written words need it. Which words
//! these are is learnt: a run that wrote an unknown word does not count and is repeated
//! ([`learn`]).
//!
//! Loom 0.7 reorders two accesses only if no third access, even a load, came between them. A party
//! that loads a word before storing to it would hide its store from earlier loads. So each access
//! is preceded by a failing compare-and-swap of another word (`witness`), which loom takes for a
//! change. It orders nothing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex as StdMutex, OnceLock};

use loom::sync::{atomic as loomed, Condvar, Mutex};

use crate::region::Region;

static IS_BEGUN: AtomicBool = AtomicBool::new(false);
static HAS_TIME: AtomicBool = AtomicBool::new(true);
/// Words that the parties of this model are known to write, and newly met ones.
static KNOWN: StdMutex<BTreeSet<usize>> = StdMutex::new(BTreeSet::new());
static MET: StdMutex<BTreeSet<usize>> = StdMutex::new(BTreeSet::new());

/// Ends the setup: from here every order is tried.
///
/// Without time a sleeper sleeps until it is woken, so that loom finds missed wakes. With time a
/// sleep may end at any moment, like a real one at the end of its slice.
pub fn begin(region: &Region, has_time: bool) {
    HAS_TIME.store(has_time, Ordering::SeqCst);
    for index in KNOWN.lock().expect("nobody panics with it").iter() {
        region.modelled_word(*index).make_known();
    }
    IS_BEGUN.store(true, Ordering::SeqCst);
}

/// Call it when all threads of the model were joined, or before any begins.
pub fn end() {
    IS_BEGUN.store(false, Ordering::SeqCst);
}

/// Forgets the words of another model.
pub fn forget() {
    KNOWN.lock().expect("nobody panics with it").clear();
    MET.lock().expect("nobody panics with it").clear();
}

/// Learns which words were written. False if all were known: then the run counts.
pub fn learn() -> bool {
    let mut met = MET.lock().expect("nobody panics with it");
    let has_news = !met.is_empty();
    KNOWN.lock().expect("nobody panics with it").append(&mut met);
    has_news
}

fn is_begun() -> bool {
    IS_BEGUN.load(Ordering::SeqCst)
}

/// The standard library's fence, visible to loom.
pub fn fence(order: Ordering) {
    if is_begun() {
        loomed::fence(order);
    }
}

/// A word: plain during setup and evaluation.
#[derive(Debug)]
pub struct Word {
    index: usize,
    plain: std::sync::atomic::AtomicU64,
    modelled: OnceLock<Box<Modelled>>,
}

/// A word of loom's, and the kernel's state for its sleepers.
#[derive(Debug)]
struct Modelled {
    word: loomed::AtomicU64,
    witness: loomed::AtomicBool,
    kernel: Mutex<()>,
    sleepers: Condvar,
}

/// An access to loom's word if there is one, else to the plain word.
macro_rules! access {
    ($word:expr, $of_loom:ident, $access:ident($($argument:expr),*)) => {
        match $word.$of_loom() {
            Some(word) => word.$access($($argument),*),
            None => $word.plain.$access($($argument),*),
        }
    };
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

    /// The word of loom's. After all threads were joined, a load sees the last store.
    fn modelled(&self) -> Option<&loomed::AtomicU64> {
        let modelled = self.modelled.get()?;
        if is_begun() {
            let order = Ordering::Relaxed;
            let _ = modelled.witness.compare_exchange(true, true, order, order);
        }
        Some(&modelled.word)
    }

    /// As [`Word::modelled`], for accesses that may write.
    fn modelled_to_write(&self) -> Option<&loomed::AtomicU64> {
        let word = self.modelled();
        if word.is_none() && is_begun() {
            MET.lock().expect("nobody panics with it").insert(self.index);
        }
        word
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        access!(self, modelled, load(order))
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        access!(self, modelled_to_write, store(value, order))
    }

    pub(crate) fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        access!(self, modelled_to_write, compare_exchange(current, new, success, failure))
    }

    pub(crate) fn fetch_add(&self, amount: u64, order: Ordering) -> u64 {
        access!(self, modelled_to_write, fetch_add(amount, order))
    }

    pub(crate) fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        access!(self, modelled_to_write, fetch_or(bits, order))
    }

    pub(crate) fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        access!(self, modelled_to_write, fetch_and(bits, order))
    }

    pub(crate) fn swap(&self, value: u64, order: Ordering) -> u64 {
        access!(self, modelled_to_write, swap(value, order))
    }
}

/// Wait and wake, as the system does.
pub(crate) mod wait {
    use super::{is_begun, Condvar, Ordering, Word, HAS_TIME};

    /// A thread that finds `value` is asleep before anybody can wake it.
    pub fn sleep_while(word: &Word, value: u32, _limit: std::time::Duration) {
        let timeless = word.modelled.get().filter(|_| !HAS_TIME.load(Ordering::SeqCst));
        let Some(at) = timeless else { return loom::thread::yield_now() };
        let kernel = at.kernel.lock().expect("nobody panics with it");
        // The kernel's load always sees the newest store.
        if at.word.fetch_add(0, Ordering::AcqRel) as u32 == value {
            drop(at.sleepers.wait(kernel));
        }
    }

    pub fn wake_one(word: &Word) {
        wake(word, |sleepers| sleepers.notify_one());
    }

    pub fn wake_all(word: &Word) {
        wake(word, |sleepers| sleepers.notify_all());
    }

    fn wake(word: &Word, notify: impl FnOnce(&Condvar)) {
        let timeless = is_begun() && !HAS_TIME.load(Ordering::SeqCst);
        if let Some(at) = word.modelled.get().filter(|_| timeless) {
            let _kernel = at.kernel.lock().expect("nobody panics with it");
            notify(&at.sleepers);
        }
    }
}
