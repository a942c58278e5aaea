//! Operations in progress, for which closing waits: entering, leaving, and which of them belong to
//! the closing thread. Must not know what the operations do.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::attachment::Held;
use super::{Arena, Membership};
use crate::error::{Error, Result};
use crate::process::{OwnerId, FORKS};

thread_local! {
    /// The handles whose operations this thread is in the middle of, see
    /// [`Arena::allow_host_code`].
    static ENTERED_HANDLES: RefCell<SmallVec<[usize; 8]>> = const { RefCell::new(SmallVec::new_const()) };
    /// How many [`NoHostCode`] this thread has.
    static WITHOUT_HOST_CODE: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, this thread waits without running host code, because it waits with locks held:
/// host code may close the handle, and so give up the locks, or fork, and then two processes would
/// believe that they hold them.
pub struct NoHostCode(PhantomData<*const ()>);

impl NoHostCode {
    /// Begins it for this thread.
    #[must_use = "it lasts until it is dropped"]
    pub fn begin() -> NoHostCode {
        WITHOUT_HOST_CODE.set(WITHOUT_HOST_CODE.get() + 1);
        NoHostCode(PhantomData)
    }
}

impl Drop for NoHostCode {
    fn drop(&mut self) {
        WITHOUT_HOST_CODE.set(WITHOUT_HOST_CODE.get() - 1);
    }
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
        self.operations.fetch_add(1, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn leave(&self) {
        self.operations.fetch_sub(1, Ordering::AcqRel);
    }

    /// Makes closing wait until the returned guard is dropped, and keeps the process slot until
    /// then. For work in this process's name outside of any lock.
    ///
    /// # Errors
    /// [`crate::Error::Closed`], or the error of taking a slot after a fork.
    pub fn guard_operation(&self) -> Result<OperationGuard<'_>> {
        let owner = self.enter()?;
        // So that the slot outlives a handle that host code closes in this thread.
        if let Membership::File { attachment, .. } = &self.membership {
            attachment.with(Held::join);
        }
        Ok(OperationGuard {
            owner,
            forks: FORKS.load(Ordering::Relaxed),
            host_code: self.allow_host_code(),
        })
    }

    /// States, until the guard is dropped, that this thread may run host code. It has entered an
    /// operation and holds no lock. For [`Arena::close`].
    pub(crate) fn allow_host_code(&self) -> HostCodeGuard<'_> {
        ENTERED_HANDLES.with_borrow_mut(|handles| handles.push(self.address()));
        HostCodeGuard { arena: self, of_this_thread: PhantomData }
    }

    /// Waits or works for long, as [`Waiter::run`](crate::Waiter::run) does, but without host code
    /// during [`NoHostCode`].
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn wait(&self, work: &mut (dyn FnMut() + Send)) -> Result<()> {
        if WITHOUT_HOST_CODE.get() > 0 {
            self.waiter().finish(work);
            return Ok(());
        }
        self.waiter().run(work).map_err(|_| Error::Interrupted)
    }

    /// How many operations on this handle this thread is in the middle of, including those of the
    /// parent if it was forked in one.
    pub(crate) fn operations_of_this_thread(&self) -> u32 {
        let is_mine = |handle: &&usize| **handle == self.address();
        ENTERED_HANDLES.with_borrow(|handles| handles.iter().filter(is_mine).count() as u32)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

/// See [`Arena::allow_host_code`].
pub(crate) struct HostCodeGuard<'a> {
    arena: &'a Arena,
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for HostCodeGuard<'_> {
    fn drop(&mut self) {
        ENTERED_HANDLES.with_borrow_mut(SmallVec::pop);
    }
}

/// Keeps a handle's participation: see [`Arena::guard_operation`].
#[must_use = "it lasts until it is dropped"]
pub struct OperationGuard<'a> {
    owner: OwnerId,
    forks: u64,
    host_code: HostCodeGuard<'a>,
}

impl OperationGuard<'_> {
    /// Whether this is a child that was forked meanwhile: the work done under this guard is the
    /// parent's.
    pub fn is_of_parent(&self) -> bool {
        self.forks != FORKS.load(Ordering::Relaxed)
    }

    /// The owner that this handle's words name meanwhile.
    pub fn owner(&self) -> OwnerId {
        self.owner
    }
}

impl Drop for OperationGuard<'_> {
    fn drop(&mut self) {
        // In a child that was forked meanwhile no operation has been entered.
        if !self.is_of_parent() {
            self.host_code.arena.leave_slot();
            self.host_code.arena.leave();
        }
    }
}
