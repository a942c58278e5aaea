//! What the handles of one process share that have the same file open for writing: one mapping and
//! one process slot. Must not know operations.
//!
//! The slot is released when the last handle and the last operation that use it have ended. It
//! belongs to the mapping: if the mapping is lost, so are the writes of every handle that may hold
//! a lock in the slot's name, and the slot can be given back in the file. Handles that are opened
//! afterwards have a mapping and a slot of their own.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::{Arena, Membership};
use crate::error::{Error, Result};
use crate::file::CacheFile;
use crate::layout::Geometry;
use crate::process::{ForkMutex, OwnerId, ProcessSlot, Wishes, FORKS};
use crate::region::{fence, Region};

/// All attachments of this process.
static ATTACHMENTS: ForkMutex<Vec<Weak<Attachment>>> = ForkMutex::new(Vec::new());

/// Makes handles that are opened from now on act as another process's: they share nothing with
/// those that are open. For tests.
pub fn act_as_another_process() {
    ATTACHMENTS.with(Vec::clear);
}

/// A mapping of a file, and this process's slot in the file.
pub(super) struct Attachment {
    region: Region,
    len_bytes: u64,
    cache_id: [u64; 2],
    /// Keeps the descriptor of the mapping.
    file: Arc<CacheFile>,
    held: ForkMutex<Held>,
    /// Handles that are open, or closed and not retired.
    members: AtomicU32,
}

/// A handle's part in an attachment.
pub(super) struct Member {
    attachment: Arc<Attachment>,
    /// Tells it from all other handles of this process.
    id: u64,
    is_retired: AtomicBool,
}

impl Member {
    /// The caller holds the fork lock.
    fn of(attachment: Arc<Attachment>) -> Member {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let id = COUNT.fetch_add(1, Ordering::Relaxed);
        attachment.members.fetch_add(1, Ordering::Relaxed);
        Member { attachment, id, is_retired: AtomicBool::new(false) }
    }

    /// Sets what the user of this handle asked of the file. Returns what the users of all other
    /// handles asked, of this process and of others.
    ///
    /// The race: two processes do this at once. Each sets its own words, has a fence, and then reads
    /// the other's, so at least one of them sees the other. Both may: then neither resizes.
    pub(super) fn exchange_wishes(&self, mine: Wishes, geometry: &Geometry) -> Vec<Wishes> {
        let region = &self.attachment.region;
        self.with(|held| {
            let mut others = held.set_wishes(self.id, mine, region, geometry);
            fence(Ordering::SeqCst);
            let slot = held.slot().into_iter();
            others.extend(slot.flat_map(|slot| slot.wishes_of_others(region, geometry)));
            others
        })
    }

    /// Takes back what the user of this handle asked.
    pub(super) fn forget_wishes(&self, geometry: &Geometry) {
        let none = Wishes::default();
        self.with(|held| _ = held.set_wishes(self.id, none, &self.attachment.region, geometry));
    }

    /// Ends the part of a handle that has been closed for good. The last one gives back the memory
    /// and the file. `file` is the handle's own, which the mapping may use, too.
    pub(super) fn retire(&self, file: &Arc<CacheFile>) {
        if self.is_retired.swap(true, Ordering::AcqRel) {
            return;
        }
        if !Arc::ptr_eq(file, &self.attachment.file) {
            file.let_go();
        }
        // Under this lock nobody joins meanwhile.
        ATTACHMENTS.with(|_| {
            if self.attachment.members.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.attachment.region.let_go();
                self.attachment.file.let_go();
            }
        });
    }
}

impl Deref for Member {
    type Target = Attachment;

    fn deref(&self) -> &Attachment {
        &self.attachment
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if *self.is_retired.get_mut() {
            return;
        }
        ATTACHMENTS.with(|_| {
            let is_last = self.attachment.members.fetch_sub(1, Ordering::Relaxed) == 1;
            // Retired handles still have the addresses.
            if is_last && Arc::strong_count(&self.attachment) > 1 {
                self.attachment.region.let_go();
                self.attachment.file.let_go();
            }
        });
    }
}

impl Attachment {
    /// The attachment to an open file. Maps the file if this process has no sound attachment.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be mapped.
    pub(super) fn find_or_map(
        file: &Arc<CacheFile>,
        geometry: &Geometry,
        cache_id: [u64; 2],
    ) -> Result<Member> {
        let len_bytes = geometry.file_bytes_max();
        ATTACHMENTS.with(|all| {
            all.retain(|one| one.strong_count() > 0);
            let is_same = |one: &Arc<Attachment>| {
                (one.file.id(), one.cache_id, one.len_bytes) == (file.id(), cache_id, len_bytes)
                    && one.is_sound(geometry)
            };
            if let Some(found) = all.iter().filter_map(Weak::upgrade).find(is_same) {
                return Ok(Member::of(found));
            }
            let region = Region::map(file.fd(), len_bytes, true)
                .map_err(Error::cannot("map", file.path()))?;
            region.set_usable(geometry.pool_at);
            let made = Arc::new(Attachment {
                region,
                len_bytes,
                cache_id,
                file: Arc::clone(file),
                held: ForkMutex::new(Held::default()),
                members: AtomicU32::new(0),
            });
            all.push(Arc::downgrade(&made));
            Ok(Member::of(made))
        })
    }

    /// Whether another handle may share it. Called while the fork lock is held.
    fn is_sound(&self, geometry: &Geometry) -> bool {
        let is_whole = !self.region.is_lost() && !self.region.is_truncated();
        // A file whose content was replaced in place names others in its slots.
        is_whole
            && self.held.within(|held| {
                held.ours().is_none_or(|held| held.slot.is_in_file(&self.region, geometry))
            })
    }

    /// The memory, with no usable part and no pool yet.
    pub(super) fn region(&self) -> Region {
        self.region.share()
    }

    /// Calls `act` while no other thread uses the slot, and no thread forks.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Held) -> R) -> R {
        self.held.with(act)
    }
}

impl Arena {
    /// Joins this process's slot, or takes one, unless another thread has done so for this handle.
    /// Returns the owner, and whether the slot's previous owner died in it.
    pub(super) fn join_or_take_slot(
        &self,
        file: &CacheFile,
        held: &mut Held,
    ) -> Result<(OwnerId, bool)> {
        self.check_open()?;
        let forks = FORKS.load(Ordering::Relaxed);
        let attached = self.attached.load(Ordering::Acquire);
        if attached >> 32 == forks {
            if let Some(owner) = OwnerId::from_bits(attached as u32) {
                return Ok((owner, false));
            }
        }
        file.len_bytes()?;
        if self.region.is_lost() {
            return Err(Error::Lost { path: self.path.clone() });
        }
        let (owner, was_abandoned) = match held.join() {
            Some(owner) => (owner, false),
            None => self.take_slot(file, held)?,
        };
        self.operations.store(0, Ordering::Relaxed);
        self.attached.store(forks << 32 | u64::from(owner.bits()), Ordering::Release);
        Ok((owner, was_abandoned))
    }

    fn take_slot(&self, file: &CacheFile, held: &mut Held) -> Result<(OwnerId, bool)> {
        let taken = ProcessSlot::take(&self.region, &self.geometry, file.fd(), &self.path)?;
        let (owner, was_abandoned) = (taken.owner, taken.was_abandoned);
        match self.mark_in_use(file) {
            Ok(()) => held.hold(taken, &self.region, &self.geometry),
            Err(error) => {
                taken.release(&self.region, &self.geometry);
                return Err(error);
            }
        }
        Ok((owner, was_abandoned))
    }

    /// Ends one use of the process slot, by this handle or by an operation. The last one releases
    /// it.
    pub(super) fn leave_slot(&self) {
        if let Membership::File { file, attachment } = &self.membership {
            if attachment.with(|held| held.leave(&self.region, &self.geometry)) {
                self.mark_closed(file);
            }
        }
    }

    /// The owner that this process's words name, also after this handle was closed. None without a
    /// slot of this process.
    pub(crate) fn slot_owner(&self) -> Option<OwnerId> {
        match &self.membership {
            Membership::File { attachment, .. } => {
                attachment.with(|held| held.slot().map(|slot| slot.owner))
            }
            Membership::Reader { .. } => None,
            Membership::Twin { .. } => self.owner().ok(),
        }
    }
}

/// The slot that this process holds, if any. In a forked child it is the parent's at first.
#[derive(Default)]
pub(super) struct Held {
    slot: Option<HeldSlot>,
    /// What the users of this process's handles asked of the file, by handle.
    wishes: Vec<(u64, Wishes)>,
}

struct HeldSlot {
    slot: ProcessSlot,
    /// Handles and operations that use it.
    users: u32,
    /// It was given back in the file, because the mapping is lost.
    is_given_back: bool,
}

impl Held {
    fn ours(&self) -> Option<&HeldSlot> {
        self.slot.as_ref().filter(|held| held.slot.liveness_lock.is_of_this_process())
    }

    fn ours_mut(&mut self) -> Option<&mut HeldSlot> {
        self.slot.as_mut().filter(|held| held.slot.liveness_lock.is_of_this_process())
    }

    /// The slot, if this process holds one.
    pub(super) fn slot(&self) -> Option<&ProcessSlot> {
        self.ours().map(|held| &held.slot)
    }

    /// Adds a user. Returns the owner; none if this process holds no slot.
    pub(super) fn join(&mut self) -> Option<OwnerId> {
        let held = self.ours_mut()?;
        held.users += 1;
        Some(held.slot.owner)
    }

    /// Holds a slot that was just taken, for one user.
    pub(super) fn hold(&mut self, slot: ProcessSlot, region: &Region, geometry: &Geometry) {
        // An inherited slot is the parent's; its liveness lock notices that when dropped.
        self.slot = Some(HeldSlot { slot, users: 1, is_given_back: false });
        self.show_wishes(region, geometry);
    }

    /// Writes what the users asked to the slot: of two wishes that differ, the earlier one.
    fn show_wishes(&self, region: &Region, geometry: &Geometry) {
        let Some(held) = self.ours() else { return };
        let shown = std::array::from_fn(|word| {
            let mut asked = self.wishes.iter().map(|(_, wishes)| wishes[word]);
            asked.find(|wish| *wish != 0).unwrap_or(0)
        });
        held.slot.set_wishes(region, geometry, shown);
    }

    /// Sets what the user of a handle asked for. Returns what those of the others asked.
    fn set_wishes(
        &mut self,
        handle: u64,
        mine: Wishes,
        region: &Region,
        geometry: &Geometry,
    ) -> Vec<Wishes> {
        self.wishes.retain(|(other, _)| *other != handle);
        let others = self.wishes.iter().map(|(_, wishes)| *wishes).collect();
        if mine != Wishes::default() {
            self.wishes.push((handle, mine));
        }
        self.show_wishes(region, geometry);
        others
    }

    /// Removes a user, and releases the slot with the last one. Whether it was released.
    pub(super) fn leave(&mut self, region: &Region, geometry: &Geometry) -> bool {
        let Some(held) = self.ours_mut() else { return false };
        held.users -= 1;
        if held.users > 0 && !crate::mutants::is_on("slot-not-shared") {
            return false;
        }
        self.slot.take().map(|held| held.slot.release(region, geometry)).is_some()
    }

    /// Gives the slot back in the file, once: nobody can release a lock through the lost mapping.
    pub(super) fn give_back_in_file(&mut self, file: &CacheFile, geometry: &Geometry) {
        if let Some(held) = self.ours_mut().filter(|held| !held.is_given_back) {
            held.is_given_back = true;
            held.slot.release_in_file(file, geometry);
        }
    }
}
