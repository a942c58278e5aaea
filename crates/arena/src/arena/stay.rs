//! Operations in progress, for which closing waits: entering, leaving, and which of them belong to
//! the closing thread. Must not know what the operations do.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::Arena;
use crate::error::Result;
use crate::process::{OwnerId, FORKS};

thread_local! {
    /// The handles whose operations this thread is in the middle of, see [`Arena::within`].
    static WITHIN: RefCell<SmallVec<[usize; 8]>> = const { RefCell::new(SmallVec::new_const()) };
}

impl Arena {
    /// Begins a writing operation: closing waits for its end.
    #[inline]
    pub(crate) fn enter(&self) -> Result<OwnerId> {
        loop {
            // The race: another thread closes the handle. It either sees the count raised here and
            // waits, or has already changed `attached`, and then `is_still` fails. Attaching goes
            // first, because in a forked child it resets the count.
            let owner = self.owner()?;
            self.begin_operation();
            if self.is_still(owner) {
                return Ok(owner);
            }
            self.leave();
        }
    }

    #[inline]
    pub(crate) fn begin_operation(&self) {
        self.busy.fetch_add(1, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn leave(&self) {
        self.busy.fetch_sub(1, Ordering::AcqRel);
    }

    /// Makes closing wait until the returned guard is dropped. For work in this handle's name
    /// outside of any lock; a lock does the same.
    ///
    /// # Errors
    /// [`crate::Error::Closed`], or the error of taking a slot after a fork.
    pub fn stay(&self) -> Result<Stay<'_>> {
        let owner = self.enter()?;
        Ok(Stay { owner, forks: FORKS.load(Ordering::Relaxed), within: self.within() })
    }

    /// States, until the guard is dropped, that this thread may run host code. It has entered an
    /// operation and holds no lock. For [`Arena::close`].
    pub(crate) fn within(&self) -> Within<'_> {
        WITHIN.with_borrow_mut(|handles| handles.push(self.address()));
        Within { arena: self, of_this_thread: PhantomData }
    }

    /// How many operations on this handle this thread is in the middle of, including those of the
    /// parent if it was forked in one.
    pub(crate) fn operations_of_this_thread(&self) -> u32 {
        let is_mine = |handle: &&usize| **handle == self.address();
        WITHIN.with_borrow(|handles| handles.iter().filter(is_mine).count() as u32)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

/// See [`Arena::within`].
pub(crate) struct Within<'a> {
    arena: &'a Arena,
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        WITHIN.with_borrow_mut(SmallVec::pop);
    }
}

/// Keeps a handle's participation: see [`Arena::stay`].
#[must_use = "it lasts until it is dropped"]
pub struct Stay<'a> {
    owner: OwnerId,
    forks: u64,
    within: Within<'a>,
}

impl Stay<'_> {
    /// Whether this is a child that was forked meanwhile: the work done under this guard is the
    /// parent's.
    pub fn is_parents(&self) -> bool {
        self.forks != FORKS.load(Ordering::Relaxed)
    }

    /// The owner that this handle's words name meanwhile.
    pub fn owner(&self) -> OwnerId {
        self.owner
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        // In a child that was forked meanwhile no operation has been entered.
        if !self.is_parents() {
            self.within.arena.leave();
        }
    }
}
