//! The arena: a mapped file, or its in-process twin, and this handle's participation in it. Owns
//! opening, attaching to a process slot, and closing. Must not know what is in shards and segments.
//!
//! Its submodules own what the handles of a process share, what processes count, the file's length,
//! the file's time, and the operations that closing waits for.

mod attachment;
mod counting;
mod ending;
mod length;
mod operations;
mod successor;
mod time;

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

pub use self::attachment::act_as_another_process;
use self::attachment::{Attachment, Member};
pub use self::operations::{NoHostCode, OperationGuard};
pub use self::successor::Successor;
use crate::claim::Claims;
use crate::clock::{self, Clock, ClockDomain};
use crate::error::{Error, Result, Space};
use crate::file::{CacheFile, NewName, PathStatus};
use crate::header::{self, Identity};
use crate::layout::{process as slot_layout, AfterPowerCut, Geometry, Layer, Plan, HEADER_BYTES};
use crate::platform::{self, files, space, Directory, Rights};
use crate::process::{OwnerId, Wishes, FORKS};
use crate::region::Region;
use crate::use_mark;
use crate::waiter::Waiter;

/// Where a cache is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file, created if it does not exist.
    Path(PathBuf),
    /// Unnamed memory for this process and the children that it forks.
    Private,
    /// The private cache of another live process of the same user, by its [`Arena::shown_path`].
    Shown(PathBuf),
}

impl Place {
    /// All the space that a new file here could have; none if that is unknown.
    pub fn most_space(&self) -> Option<Space> {
        match self {
            Place::Path(path) => space::most_at(path),
            Place::Private => space::most(&files::memory_file("tuckbox").ok()?),
            Place::Shown(_) => None,
        }
    }
}

/// How this handle participates.
enum Membership {
    /// Uses the process slot of its attachment until it is closed. The owner's bits are also in
    /// `Arena::attached`, where hot paths read them.
    File { file: Arc<CacheFile>, attachment: Member },
    /// Read-only: has no slot, takes no lock and counts nothing. `rows_made` is the number of clock
    /// rows when it last looked for one of this boot.
    Reader { file: Arc<CacheFile>, rows_made: AtomicU64 },
    /// A participant of the twin. Tests set `dead[slot]` to kill it; `file_bytes` is the length
    /// that a file would have.
    Twin { dead: Arc<Vec<AtomicBool>>, file_bytes: Arc<AtomicU64> },
}

/// What the host program provides.
#[derive(Clone)]
struct Host {
    clock: Clock,
    waiter: Arc<dyn Waiter>,
}

/// Shared memory with segments, locks and participants.
pub struct Arena {
    region: Region,
    geometry: Geometry,
    identity: Identity,
    path: PathBuf,
    membership: Membership,
    /// High half: the fork count when this handle attached. Low half: the owner's bits, 0 if none.
    attached: AtomicU64,
    closed: AtomicBool,
    /// The file was truncated, or is no longer the one at its path.
    lost: AtomicBool,
    /// The file was copied into another one, which has its name now. Nothing is lost.
    superseded: AtomicBool,
    /// When the file's path was last checked, see [`Arena::check_path`].
    path_checked_s: AtomicU64,
    /// When a read last found all process slots taken.
    slots_full_s: AtomicU64,
    /// Number of operations that threads of this handle are in: locks held or awaited, segments
    /// filled.
    operations: AtomicU32,
    claims: Claims,
    /// The boot in which this handle was opened; 0 if unknown.
    boot: u64,
    anchor_us: AtomicU64,
    host: Host,
}

impl Arena {
    /// Opens the cache at `place`, with `rights` if the place is a path. Creates it as `plan` says, if
    /// there is a plan and `rights` allow it. `lay_out` fills the upper layer's part of a new file;
    /// `layer` describes that layer.
    ///
    /// # Errors
    /// Everything in [`Error`] that concerns files. An existing file that is not a cache of this
    /// version is left byte for byte as it was.
    pub fn open(
        place: &Place,
        rights: Rights,
        plan: Option<&Plan>,
        layer: Layer,
        clock: Clock,
        waiter: Arc<dyn Waiter>,
        lay_out: &dyn Fn(&Arena) -> Result<()>,
    ) -> Result<Arena> {
        let host = Host { clock, waiter };
        let path = match place {
            // So that the program may change its working directory.
            Place::Path(path) => &std::path::absolute(path).unwrap_or_else(|_| path.clone()),
            Place::Shown(path) => {
                let file = CacheFile::open_shown(path)?;
                return Arena::from_file(file, None, layer, host);
            }
            Place::Private => {
                let geometry = planned(plan, Path::new(""))?;
                let file = CacheFile::private(first_bytes(&geometry), geometry.plan.size_bytes)?;
                let arena =
                    Arena::from_file(file, Some((geometry, Identity::random())), layer, host)?;
                lay_out(&arena)?;
                return Ok(arena);
            }
        };
        let directory = Directory::open(path, rights)?;
        loop {
            if let Some(file) = CacheFile::open(&directory, rights)? {
                if rights.read_only {
                    return Arena::read_only(file, layer, host);
                }
                return Arena::from_file(file, None, layer, host);
            }
            let geometry = planned(plan.filter(|_| !rights.read_only), path)?;
            let number = getrandom::u64().unwrap_or_else(|_| platform::clock::boot_time_us());
            let (file, new_name) = create(&directory, &geometry, number, rights, None)?;
            let new = Some((geometry, Identity::random()));
            let arena = Arena::from_file(file, new, layer, host.clone())?;
            lay_out(&arena)?;
            if arena.file().expect("it has one").publish(new_name)? {
                return Ok(arena);
            }
            // Another process was faster: use its file.
        }
    }

    /// A read-only handle, whose mapping is read-only too.
    fn read_only(file: CacheFile, layer: Layer, host: Host) -> Result<Arena> {
        let path = file.path().to_path_buf();
        let file_bytes = file.len_bytes()?;
        let (geometry, identity) = read_header(&file, file_bytes, layer)?;
        let region = map(&file, geometry.file_bytes_max(), false)?;
        region.set_usable(file_bytes);
        let file = Arc::new(file);
        let membership = Membership::Reader { file, rows_made: AtomicU64::new(u64::MAX) };
        let mut arena = Arena::on(region, geometry, identity, path, membership, host);
        if arena.discards() {
            // An unknown boot is one in which the cache was not used.
            arena.boot = ClockDomain::now().and_then(ClockDomain::known_boot).unwrap_or(0);
        }
        arena.refresh_clock();
        arena.check_not_lost()?;
        Ok(arena)
    }

    fn from_file(
        file: CacheFile,
        new: Option<(Geometry, Identity)>,
        layer: Layer,
        host: Host,
    ) -> Result<Arena> {
        let (path, file) = (file.path().to_path_buf(), Arc::new(file));
        let file_bytes = file.len_bytes()?;
        let is_new = new.is_some();
        let (geometry, identity) = match new {
            Some(new) => new,
            None => {
                let (geometry, identity) = read_header(&file, file_bytes, layer)?;
                if file_bytes < geometry.file_bytes_max() {
                    file.require_growable()?;
                }
                (geometry, identity)
            }
        };
        let attachment = Attachment::find_or_map(&file, &geometry, identity.cache_id)?;
        let region = attachment.region();
        region.set_usable(file_bytes);
        // A process that mistakes its domain would create a row with another time.
        let domain = ClockDomain::now().map_err(Error::cannot("read the clock for", &path))?;
        if geometry.plan.after_power_cut == AfterPowerCut::Discard {
            domain.known_boot().map_err(Error::cannot("open", &path))?;
        }
        if is_new {
            header::write(&region, &geometry, &identity, layer.signature);
            use_mark::recovered(&region, domain.boot);
            region.use_huge_pages(0);
        }
        let membership = Membership::File { file, attachment };
        let mut arena = Arena::on(region, geometry, identity, path, membership, host);
        arena.boot = domain.boot;
        arena.attach()?;
        arena.init_clock(domain)?;
        arena.check_not_lost()?;
        Ok(arena)
    }

    fn on(
        mut region: Region,
        geometry: Geometry,
        identity: Identity,
        path: PathBuf,
        membership: Membership,
        host: Host,
    ) -> Arena {
        region.set_pool(geometry.pool());
        Arena {
            region,
            geometry,
            identity,
            path,
            membership,
            attached: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            superseded: AtomicBool::new(false),
            path_checked_s: AtomicU64::new(platform::clock::coarse_seconds()),
            slots_full_s: AtomicU64::new(u64::MAX),
            operations: AtomicU32::new(0),
            claims: Claims::new(),
            boot: 0,
            anchor_us: AtomicU64::new(0),
            host,
        }
    }

    /// The in-process twin: the same layout in plain memory, with `participants` handles that act
    /// as separate processes. Each knows only of growth that it has looked for. For tests and
    /// tools.
    ///
    /// # Errors
    /// [`Error::SizeTooSmall`], [`Error::SizeTooLarge`].
    pub fn twins(
        plan: &Plan,
        signature: u64,
        clock: Clock,
        waiter: Arc<dyn Waiter>,
        participants: u32,
    ) -> Result<Vec<Arena>> {
        let geometry = Geometry::new(plan.clone())?;
        let memory = Region::heap(geometry.file_bytes_max());
        let first_bytes = first_bytes(&geometry);
        let file_bytes = Arc::new(AtomicU64::new(first_bytes));
        let identity = Identity { cache_id: [1, 2], hash_key: [3, 4] };
        header::write(&memory, &geometry, &identity, signature);
        let host = Host { clock, waiter };
        let dead = Arc::new((0..participants).map(|_| AtomicBool::new(false)).collect::<Vec<_>>());
        (0..participants)
            .map(|slot| {
                let at = geometry.process_at(slot);
                let region = memory.share();
                region.set_usable(first_bytes);
                region.set(at + slot_layout::STATE, 1 << 32 | 1);
                let owner = u64::from(1u32 << 12 | (slot + 1));
                let membership = Membership::Twin {
                    dead: Arc::clone(&dead),
                    file_bytes: Arc::clone(&file_bytes),
                };
                let path = PathBuf::from("(in-process twin)");
                let (geometry, host) = (geometry.clone(), host.clone());
                let arena = Arena::on(region, geometry, identity, path, membership, host);
                let attached = FORKS.load(Ordering::Relaxed) << 32 | owner;
                arena.attached.store(attached, Ordering::Relaxed);
                arena.init_clock(ClockDomain::twin())?;
                Ok(arena)
            })
            .collect()
    }

    /// Declares a participant of the twin dead, whatever it holds. For tests.
    pub fn declare_dead(&self, slot: u32) {
        if let Membership::Twin { dead, .. } = &self.membership {
            dead[slot as usize].store(true, Ordering::Release);
        }
    }

    /// The memory.
    #[inline(always)]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Where things are.
    #[inline(always)]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The random numbers of this cache.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The file's path, or a description of where the memory is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path by which a process that is not our child can open the same memory while we live.
    pub fn shown_path(&self) -> Option<PathBuf> {
        self.file().map(|file| files::shown_path(file.fd()))
    }

    /// The file; none for a twin.
    fn file(&self) -> Option<&CacheFile> {
        match &self.membership {
            Membership::File { file, .. } | Membership::Reader { file, .. } => Some(file),
            Membership::Twin { .. } => None,
        }
    }

    /// The claims of this handle.
    pub(crate) fn claims(&self) -> &Claims {
        &self.claims
    }

    /// The host's way to sleep and to run long work.
    pub fn waiter(&self) -> &dyn Waiter {
        &*self.host.waiter
    }

    /// The owner that this handle's words name. A forked child without a slot takes one first.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::ReadOnly`], or the error of taking a slot.
    #[inline(always)]
    pub fn owner(&self) -> Result<OwnerId> {
        let attached = self.attached.load(Ordering::Acquire);
        if attached >> 32 == FORKS.load(Ordering::Relaxed) {
            if let Some(owner) = OwnerId::from_bits(attached as u32) {
                return Ok(owner);
            }
        }
        self.attach()
    }

    /// As [`Arena::owner`], for reads: none if this handle has no slot to count in, because it is
    /// read-only or all slots are taken.
    ///
    /// # Errors
    /// [`Error::Closed`], or another error of taking a slot.
    #[inline(always)]
    pub fn reader(&self) -> Result<Option<OwnerId>> {
        let attached = self.attached.load(Ordering::Acquire);
        if attached >> 32 == FORKS.load(Ordering::Relaxed) {
            if let Some(owner) = OwnerId::from_bits(attached as u32) {
                return Ok(Some(owner));
            }
        }
        self.reader_without_slot()
    }

    #[cold]
    fn reader_without_slot(&self) -> Result<Option<OwnerId>> {
        if !self.is_read_only() {
            return self.reader_in_child();
        }
        self.check_open()?;
        self.refresh_clock();
        Ok(None)
    }

    /// A forked child that gets no slot can still read, but is not counted. It tries for a slot at
    /// most once a second, because each attempt is a system call per slot.
    fn reader_in_child(&self) -> Result<Option<OwnerId>> {
        self.check_open()?;
        let now_s = platform::clock::coarse_seconds();
        if self.slots_full_s.load(Ordering::Relaxed) == now_s {
            return Ok(None);
        }
        match self.attach() {
            Err(Error::TooManyProcesses { .. } | Error::TooManyFiles { .. }) => {
                self.slots_full_s.store(now_s, Ordering::Relaxed);
                Ok(None)
            }
            attached => attached.map(Some),
        }
    }

    /// Whether this handle is read-only.
    pub fn is_read_only(&self) -> bool {
        matches!(self.membership, Membership::Reader { .. })
    }

    #[cold]
    fn attach(&self) -> Result<OwnerId> {
        let (owner, was_abandoned) = match &self.membership {
            Membership::File { file, attachment } => {
                attachment.with(|held| self.join_or_take_slot(file, held))?
            }
            Membership::Reader { .. } => {
                self.check_open()?;
                return Err(Error::ReadOnly { path: self.path.clone() });
            }
            Membership::Twin { .. } => return Err(Error::Closed),
        };
        if was_abandoned {
            // The dead owner of this slot may have been filling segments that no shard knows.
            self.reveal_free_segments();
            self.free_abandoned_segments();
        }
        Ok(owner)
    }

    /// Ends this handle's participation; later operations return [`Error::Closed`]. Waits for
    /// writes that other threads do through this handle. Closing twice is the same as closing once.
    ///
    /// Host code that runs in the middle of an operation ([`Waiter::run`]) may close the handle if
    /// its thread holds no lock: the operation is refused when it continues.
    pub fn close(&self) {
        self.close_first();
    }

    /// As [`Arena::close`]; whether this was the first call, and no operation of this thread goes on
    /// after it.
    fn close_first(&self) -> bool {
        if self.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        if self.is_read_only() {
            return true;
        }
        let mine = self.operations_of_this_thread();
        if let Membership::File { attachment, .. } = &self.membership {
            attachment.forget_wishes(&self.geometry);
        }
        clock::record_time(&self.region, self.now_us());
        let attached = self.attached.swap(0, Ordering::SeqCst);
        // A forked child that has not used the handle uses no slot, and a twin's is its own.
        let is_twin = matches!(self.membership, Membership::Twin { .. });
        if is_twin || attached >> 32 != FORKS.load(Ordering::Relaxed) {
            self.release_all();
            return mine == 0;
        }
        // This thread's own operations continue after this, and find the handle closed.
        while self.operations.load(Ordering::SeqCst) > mine {
            std::thread::sleep(Duration::from_micros(50));
        }
        // No other thread makes one any more.
        self.release_all();
        self.leave_slot();
        mine == 0
    }

    /// Closes this handle. If this process has no other handle of the file, gives back its memory
    /// and the file: it was removed or replaced, and would use space until its last user ends.
    /// Threads that are reading find nothing.
    ///
    /// The race: another thread is in the middle of a read, which takes part in nothing that closing
    /// waits for. What it has copied is proven by checksum, or else it finds nothing; then it checks
    /// whether the handle is closed, which was stored before any byte became zero.
    pub fn retire(&self) {
        if !self.is_superseded() {
            self.mark_lost();
        }
        if !self.close_first() {
            return;
        }
        match &self.membership {
            Membership::File { file, attachment } => attachment.retire(file),
            Membership::Reader { file, .. } => {
                self.region.let_go();
                file.let_go();
            }
            Membership::Twin { .. } => {}
        }
    }

    /// Whether [`Arena::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Checks that this handle is neither closed nor known to be lost.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Lost`].
    pub fn check_open(&self) -> Result<()> {
        match () {
            () if self.is_closed() => Err(Error::Closed),
            () if self.lost.load(Ordering::Acquire) => Err(Error::Lost { path: self.path.clone() }),
            () => Ok(()),
        }
    }

    /// Checks at the end of an operation that the file was not truncated meanwhile, so that the
    /// answer does not come from the zeros that replaced the mapping.
    ///
    /// # Errors
    /// [`Error::Lost`].
    #[inline]
    pub fn check_not_lost(&self) -> Result<()> {
        if self.region.is_lost() || self.lost.load(Ordering::Relaxed) {
            return self.check_superseded();
        }
        Ok(())
    }

    /// The race: this thread has changed the file and released its lock; then another process
    /// resizes the file, and another thread of this handle follows and retires this arena. Whoever
    /// resizes takes the lock later, so the change is in the copy: it must not be reported as lost,
    /// because it would be repeated. Whoever follows marks the arena as superseded before the
    /// memory is given back, so the mark is seen here, whatever was marked after it.
    #[cold]
    fn check_superseded(&self) -> Result<()> {
        match self.is_superseded() {
            true => Ok(()),
            false => Err(self.mark_lost()),
        }
    }

    /// Marks this handle's file as superseded by a copy with its name. What was written is in the
    /// copy.
    #[cold]
    pub fn mark_superseded(&self) -> Error {
        self.superseded.store(true, Ordering::Release);
        Error::Superseded { path: self.path.clone() }
    }

    /// Whether [`Arena::mark_superseded`] was called.
    pub fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Acquire)
    }

    /// Marks this handle's file as lost. The handle uses the process slot until it is closed,
    /// because its threads may be in the middle of operations.
    ///
    /// If the mapping itself is lost, no lock can be released any more, so other processes must see
    /// this process as dead: the slot is given back in the file. The two losses may be found in
    /// either order.
    #[cold]
    pub fn mark_lost(&self) -> Error {
        self.lost.store(true, Ordering::Release);
        if let Membership::File { file, attachment } = &self.membership {
            if self.region.is_lost() && !crate::mutants::is_on("lost-slot-kept") {
                attachment.with(|held| held.give_back_in_file(file, &self.geometry));
            }
        }
        // No operation enters any more. `close` still needs the fork count to wait for those
        // inside.
        self.attached.fetch_and(!0xffff_ffff, Ordering::SeqCst);
        Error::Lost { path: self.path.clone() }
    }

    /// Checks, at most once a second, whether the file is still the one at its path. For writes and
    /// misses: a hit makes no system call.
    #[inline]
    pub fn check_path(&self) -> PathStatus {
        let now_s = platform::clock::coarse_seconds();
        if self.path_checked_s.load(Ordering::Relaxed) == now_s || crate::mutants::is_on("no-look")
        {
            return PathStatus::InPlace;
        }
        self.path_checked_s.store(now_s, Ordering::Relaxed);
        self.path_status()
    }

    /// Lets the next [`Arena::check_path`] look again, for a caller that could do nothing about what
    /// it was told.
    pub fn forget_path_check(&self) {
        self.path_checked_s.store(0, Ordering::Relaxed);
    }

    /// Whether the file is still the one at its path.
    pub fn path_status(&self) -> PathStatus {
        self.file().map_or(PathStatus::InPlace, CacheFile::path_status)
    }

    /// Whether `owner` is still this handle's identity; false once the handle is being closed. A
    /// caller that may have been forked must check for that first.
    pub(crate) fn is_still(&self, owner: OwnerId) -> bool {
        self.attached.load(Ordering::SeqCst) as u32 == owner.bits()
    }

    /// Tells other handles what this one's user asked of the file, and returns what the users of
    /// the others asked. Of two handles that do this at once, at least one learns of the other.
    pub fn exchange_wishes(&self, mine: Wishes) -> Vec<Wishes> {
        let Membership::File { attachment, .. } = &self.membership else { return Vec::new() };
        attachment.exchange_wishes(mine, &self.geometry)
    }

    /// Whether a participant is dead. This process itself never is.
    pub fn is_dead(&self, owner: OwnerId) -> bool {
        if Ok(owner.bits()) == self.owner().map(OwnerId::bits).map_err(|_| ()) {
            return false;
        }
        match &self.membership {
            Membership::File { attachment, .. } => attachment.with(|held| {
                let others = held.slot().filter(|slot| slot.owner != owner);
                others.is_some_and(|slot| slot.is_dead(&self.region, &self.geometry, owner))
            }),
            Membership::Reader { .. } => false,
            Membership::Twin { dead, .. } => {
                dead.get(owner.slot() as usize).is_none_or(|dead| dead.load(Ordering::Acquire))
            }
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.close();
    }
}

fn create<'a>(
    directory: &'a Directory,
    geometry: &Geometry,
    number: u64,
    rights: Rights,
    former: Option<&Metadata>,
) -> Result<(CacheFile, NewName<'a>)> {
    let (first_bytes, size_bytes) = (first_bytes(geometry), geometry.plan.size_bytes);
    CacheFile::create(directory, first_bytes, size_bytes, number, rights, former)
}

fn planned(plan: Option<&Plan>, path: &Path) -> Result<Geometry> {
    let plan = plan.ok_or_else(|| Error::Missing { path: path.into() })?;
    Geometry::new(plan.clone())
}

fn map(file: &CacheFile, len_bytes: u64, writable: bool) -> Result<Region> {
    Region::map(file.fd(), len_bytes, writable).map_err(Error::cannot("map", file.path()))
}

fn read_header(file: &CacheFile, file_bytes: u64, layer: Layer) -> Result<(Geometry, Identity)> {
    let path = file.path();
    if file_bytes < HEADER_BYTES {
        let reason = "it is shorter than a cache header";
        return Err(Error::NotACache { path: path.into(), reason });
    }
    space::read_ahead(file.fd(), HEADER_BYTES);
    let page = map(file, HEADER_BYTES, false)?;
    page.set_usable(HEADER_BYTES);
    let read = header::read(&page, path, file_bytes, layer);
    if page.is_lost() {
        return Err(Error::Lost { path: path.into() });
    }
    let (geometry, identity) = read?;
    space::read_ahead(file.fd(), geometry.pool_at);
    Ok((geometry, identity))
}

fn first_bytes(geometry: &Geometry) -> u64 {
    geometry.pool_at + geometry.plan.first_segments * geometry.plan.segment_bytes
}
