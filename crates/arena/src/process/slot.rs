//! The process slots in the file: taking one, giving it back, and testing whether its owner is
//! dead. Must not know how a process is identified, or what keeps a lock.

use std::path::Path;
use std::sync::atomic::Ordering;

use super::forks::CLOSED_IN_CHILD_MAX;
use super::liveness_lock::LivenessLock;
use super::owner::OwnerId;
use crate::error::{Error, Result};
use crate::file::CacheFile;
use crate::layout::{process as slot_layout, Geometry};
use crate::platform::liveness;
use crate::region::Region;

const TAKEN: u64 = 1 << 32;
/// See [`slot_layout::WISHES`].
pub type Wishes = [u64; slot_layout::WISH_COUNT as usize];
/// Where the words of a [`ProcessIdentity`](crate::platform::ProcessIdentity) are in a slot.
const IDENTITY: [u64; 4] = [
    slot_layout::PID,
    slot_layout::START_TICKS,
    slot_layout::PID_NAMESPACE,
    slot_layout::STACK_START,
];

/// A process slot that this process holds, for all its handles on the file.
#[derive(Debug)]
pub struct ProcessSlot {
    /// The owner as lock and owner words name it.
    pub owner: OwnerId,
    /// Whether the slot's previous owner died in it.
    pub was_abandoned: bool,
    /// Shows that this process is alive.
    pub liveness_lock: LivenessLock,
}

/// Whether the process recorded in a slot is alive, as far as this process can tell. An error means
/// that nobody could tell: a process out of descriptors must not take others for dead.
fn recorded_process_is_alive(region: &Region, at: u64) -> std::io::Result<bool> {
    liveness::is_alive(IDENTITY.map(|word| region.get(at + word)))
}

/// The slots of processes that are alive, as far as this process can tell. If there are none,
/// everything that processes wrote is in the file.
pub fn slots_alive<'a>(
    region: &'a Region,
    geometry: &'a Geometry,
    file: &'a CacheFile,
) -> impl Iterator<Item = u32> + 'a {
    (0..geometry.process_count as u32).filter(move |slot| {
        let at = geometry.process_at(*slot);
        let is_taken = region.load(at + slot_layout::STATE, Ordering::Acquire) & TAKEN != 0;
        is_taken
            && match liveness::byte_is_locked(file.fd(), at) {
                Ok(true) | Err(_) => true,
                Ok(false) => recorded_process_is_alive(region, at).unwrap_or(true),
            }
    })
}

fn wish_words(at: u64) -> impl Iterator<Item = u64> {
    (0..slot_layout::WISH_COUNT).map(move |word| at + slot_layout::WISHES + word * 8)
}

fn set_wishes(region: &Region, at: u64, wishes: Wishes) {
    wish_words(at).zip(wishes).for_each(|(word, wish)| region.set(word, wish));
}

impl ProcessSlot {
    /// Records the wishes of this handle.
    pub fn set_wishes(&self, region: &Region, geometry: &Geometry, wishes: Wishes) {
        set_wishes(region, geometry.process_at(self.owner.slot()), wishes);
    }

    /// The wishes of all other live handles that have any.
    pub fn wishes_of_others(&self, region: &Region, geometry: &Geometry) -> Vec<Wishes> {
        let mut all = Vec::new();
        for slot in (0..geometry.process_count as u32).filter(|slot| *slot != self.owner.slot()) {
            let at = geometry.process_at(slot);
            let state = region.load(at + slot_layout::STATE, Ordering::Acquire);
            let mut wishes = Wishes::default();
            wish_words(at).zip(&mut wishes).for_each(|(word, wish)| *wish = region.get(word));
            let owner = OwnerId::new(slot, state as u32);
            if wishes != Wishes::default() && !self.is_dead(region, geometry, owner) {
                all.push(wishes);
            }
        }
        all
    }

    /// Takes the first slot that is free or whose owner is dead. The caller holds the fork lock.
    ///
    /// # Errors
    /// [`Error::TooManyProcesses`], [`Error::TooManyFiles`], or the system's error.
    pub fn take(
        region: &Region,
        geometry: &Geometry,
        file: i32,
        path: &Path,
    ) -> Result<ProcessSlot> {
        let io = Error::cannot("take a process slot of", path);
        let liveness_lock = LivenessLock::open(file)
            .map_err(io)?
            .ok_or(Error::TooManyFiles { limit: CLOSED_IN_CHILD_MAX })?;
        let identity = liveness::own_identity().map_err(io)?;
        for slot in 0..geometry.process_count as u32 {
            let at = geometry.process_at(slot);
            if !liveness::try_lock_byte(liveness_lock.fd, at).map_err(io)? {
                continue;
            }
            // With its byte locked, no other process takes or judges this slot.
            let state = region.load(at + slot_layout::STATE, Ordering::Acquire);
            let is_taken = state & TAKEN != 0;
            // This process is alive, but a handle that it lost in a fork or closed half way may
            // have left a slot whose liveness lock is free.
            let is_lost = is_taken && recorded_process_is_alive(region, at).unwrap_or(true);
            if is_lost || (is_taken && crate::mutants::is_on("slots-kept")) {
                liveness::unlock_byte(liveness_lock.fd, at).map_err(io)?;
                continue;
            }
            let incarnation = (state as u32).wrapping_add(1);
            IDENTITY.iter().zip(identity).for_each(|(word, value)| region.set(at + word, value));
            set_wishes(region, at, Wishes::default());
            let state = TAKEN | u64::from(incarnation);
            region.store(at + slot_layout::STATE, state, Ordering::Release);
            let owner = OwnerId::new(slot, incarnation);
            return Ok(ProcessSlot { owner, was_abandoned: is_taken, liveness_lock });
        }
        let slots = geometry.process_count as u32;
        Err(Error::TooManyProcesses { path: path.into(), slots })
    }

    /// Whether the file says that this process has the slot.
    pub fn is_in_file(&self, region: &Region, geometry: &Geometry) -> bool {
        let at = geometry.process_at(self.owner.slot());
        let state = region.load(at + slot_layout::STATE, Ordering::Acquire);
        state & TAKEN != 0 && OwnerId::new(self.owner.slot(), state as u32) == self.owner
    }

    /// Gives the slot back, unless it is the parent's.
    pub fn release(self, region: &Region, geometry: &Geometry) {
        if self.liveness_lock.is_of_this_process() {
            let at = geometry.process_at(self.owner.slot());
            let state = region.get(at + slot_layout::STATE);
            region.store(at + slot_layout::STATE, state & !TAKEN, Ordering::Release);
            // Closing is not enough while a child that was just forked still has the descriptor.
            if self.liveness_lock.is_open() {
                let _ = liveness::unlock_byte(self.liveness_lock.fd, at);
            }
        }
    }

    /// Gives the slot back by a write to the file, for a handle that lost its mapping. Locks and
    /// segments that name the slot then belong to a dead owner.
    pub fn release_in_file(&self, file: &CacheFile, geometry: &Geometry) {
        if self.liveness_lock.is_of_this_process() {
            let at = geometry.process_at(self.owner.slot()) + slot_layout::STATE;
            let state = u64::from(self.owner.incarnation());
            // If that part of the file is missing too, nobody can read the slot.
            let _ = file.overwrite(at, state);
        }
    }

    /// Whether `owner`, which is not this process, is dead. Asks the system.
    pub fn is_dead(&self, region: &Region, geometry: &Geometry, owner: OwnerId) -> bool {
        if u64::from(owner.slot()) >= geometry.process_count {
            return true;
        }
        let at = geometry.process_at(owner.slot());
        let state = region.load(at + slot_layout::STATE, Ordering::Acquire);
        if state & TAKEN == 0 || OwnerId::new(owner.slot(), state as u32) != owner {
            return true;
        }
        debug_assert_eq!(
            OwnerId::new(owner.slot(), state as u32).incarnation(),
            owner.incarnation()
        );
        if crate::mutants::is_on("pid-alone") {
            return matches!(liveness::process_start(region.get(at + slot_layout::PID)), Ok(None));
        }
        // Without its liveness lock this process cannot ask, so it waits until its time limit.
        if !self.liveness_lock.is_open() {
            return false;
        }
        match liveness::byte_is_locked(self.liveness_lock.fd, at) {
            Ok(true) | Err(_) => false,
            // If nobody can tell, the owner counts as alive.
            Ok(false) => !recorded_process_is_alive(region, at)
                .unwrap_or(!crate::mutants::is_on("doubt-is-death")),
        }
    }
}
