//! Operations that are under way, for which closing waits: who enters, who stays, and which of them
//! are of the thread that closes. Knows nothing of what they do.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::Arena;
use crate::error::Result;
use crate::process::{OwnerId, FORKS};

thread_local! {
    /// The handles of the operations that this thread is in the middle of, see [`Arena::within`].
    static WITHIN: RefCell<SmallVec<[usize; 8]>> = const { RefCell::new(SmallVec::new_const()) };
}

impl Arena {
    /// Begins an operation that writes: closing waits for its end.
    #[inline]
    pub(crate) fn enter(&self) -> Result<OwnerId> {
        loop {
            // Attaching in a forked child sets the count to zero, so it goes first; and whoever
            // closes meanwhile either sees the count or has already changed what was attached.
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

    /// Keeps this handle's participation until the answer is dropped: other threads that close it
    /// wait. For work in its name outside of any lock; a lock does the same.
    ///
    /// # Errors
    /// [`crate::Error::Closed`], or what taking a slot after a fork met.
    pub fn stay(&self) -> Result<Stay<'_>> {
        let owner = self.enter()?;
        Ok(Stay { owner, forks: FORKS.load(Ordering::Relaxed), within: self.within() })
    }

    /// States until the answer is dropped that this thread, which has entered and holds no lock,
    /// may run code of the host's. For [`Arena::close`].
    pub(crate) fn within(&self) -> Within<'_> {
        WITHIN.with_borrow_mut(|handles| handles.push(self.address()));
        Within { arena: self, of_this_thread: PhantomData }
    }

    /// How many operations on this handle this thread is in the middle of, those of the parent included if
    /// it was forked in one.
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

/// A handle's participation, kept: see [`Arena::stay`].
#[must_use = "it lasts until it is dropped"]
pub struct Stay<'a> {
    owner: OwnerId,
    forks: u64,
    within: Within<'a>,
}

impl Stay<'_> {
    /// Whether this process was forked meanwhile, and is the child: what was done in this participation's
    /// name is the parent's.
    pub fn is_parents(&self) -> bool {
        self.forks != FORKS.load(Ordering::Relaxed)
    }

    /// Whom our words name meanwhile.
    pub fn owner(&self) -> OwnerId {
        self.owner
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        // In a child that was forked meanwhile nobody has entered.
        if !self.is_parents() {
            self.within.arena.leave();
        }
    }
}
