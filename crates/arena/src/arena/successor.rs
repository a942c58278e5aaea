//! A new file that takes the name of a cache, for a copy of it with other sizes, or a name of its own.
//! Must not know what is copied.
//!
//! The caller holds every lock of the cache from before the copy until the new file has the name.
//! So the file that has the name is always whole, and a process that dies in between leaves the
//! cache as it was. Its unnamed file vanishes. One with a temporary name is removed by whoever takes
//! over a lock or makes the next attempt: the name is made from the number of the former file.
//!
//! The race: that removal, and a live process that gives its new file the temporary name. Whoever
//! removes holds a lock of the cache, and the other one all of them, so they are not there at once.

use std::path::Path;

use super::{create, Arena};
use crate::error::{Error, Result};
use crate::file::{temporary_name, CacheFile, NewName, PathStatus};
use crate::header::Identity;
use crate::hooks::{self, Point};
use crate::layout::{header, Geometry, Layer, Plan};
use crate::platform::{self, Directory, Rights};

/// The directory in which a cache is being replaced, or copied to.
pub struct Successor {
    directory: Directory,
    number: u64,
    rights: Rights,
}

impl Arena {
    /// Removes what a process has left that died before its successor of this cache had the name.
    /// The caller holds a lock of the cache.
    pub fn remove_leftover(&self) {
        let number = self.number();
        // Any error shows when the name is needed again.
        let _ = Directory::of(self.path()).map(|directory| {
            _ = directory.remove(&temporary_name(&directory, number));
        });
    }
}

impl Arena {
    /// What tells the file from others of its directory, as long as anybody has it open.
    fn number(&self) -> u64 {
        self.file().map_or(0, |file| file.id()[1])
    }
}

impl Successor {
    /// Prepares to replace a cache that has a path and is not read-only.
    ///
    /// # Errors
    /// [`Error::Unsafe`] and others of the directory.
    pub fn of(arena: &Arena, rights: Rights) -> Result<Successor> {
        let directory = Directory::of(arena.path())?;
        arena.remove_leftover();
        Ok(Successor { directory, number: arena.number(), rights })
    }

    /// Prepares to copy a cache to another path.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Unsafe`] and others of the directory.
    pub fn beside(path: &Path, rights: Rights) -> Result<Successor> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
        let directory = Directory::open(&path, rights)?;
        if directory.examine().map_err(Error::cannot("examine", &path))?.is_some() {
            return Err(Error::Exists { path: directory.path });
        }
        let number = getrandom::u64().unwrap_or_else(|_| platform::clock::boot_time_us());
        Ok(Successor { directory, number, rights })
    }

    /// Creates the file of a copy. `lay_out` fills the upper layer's part of it.
    ///
    /// # Errors
    /// As [`Arena::open`] for a new file.
    pub fn create_copy(
        &self,
        former: &Arena,
        plan: &Plan,
        layer: Layer,
        lay_out: &dyn Fn(&Arena) -> Result<()>,
    ) -> Result<(Arena, NewName<'_>)> {
        let geometry = Geometry::new(plan.clone())?;
        let (file, new_name) = create(&self.directory, &geometry, self.number, self.rights, None)?;
        Ok((self.filled(file, geometry, former, layer, lay_out)?, new_name))
    }

    /// Waits until the file of a copy is on the disk, then gives it its name.
    ///
    /// # Errors
    /// [`Error::Exists`] if another file has taken the name, [`Error::Io`].
    pub fn publish(&self, new_name: NewName<'_>, copy: &Arena) -> Result<()> {
        let path = || self.directory.path.clone();
        let file = copy.file().ok_or_else(|| Error::Lost { path: path() })?;
        match file.publish(new_name)? {
            true => Ok(()),
            false => Err(Error::Exists { path: path() }),
        }
    }

    /// Creates the new file. `lay_out` fills the upper layer's part of it.
    ///
    /// # Errors
    /// As [`Arena::open`] for a new file, [`Error::Lost`], [`Error::Moved`];
    /// [`Error::TooManyProcesses`] if the new file has too few slots.
    pub fn create(
        &self,
        former: &Arena,
        plan: &Plan,
        layer: Layer,
        lay_out: &dyn Fn(&Arena) -> Result<()>,
    ) -> Result<(Arena, NewName<'_>)> {
        let geometry = Geometry::new(plan.clone())?;
        if former.processes() > geometry.process_count {
            let (path, slots) = (former.path().into(), geometry.process_count as u32);
            return Err(Error::TooManyProcesses { path, slots });
        }
        let refused = Error::cannot("examine", former.path());
        let data = self.directory.examine().map_err(refused)?;
        let is_removed = former.file().is_none_or(|file| file.path_status() == PathStatus::Removed);
        let path = || former.path().into();
        // A file that was only moved is not lost: its handles go on with it.
        let gone = || match is_removed {
            true => Error::Lost { path: path() },
            false => Error::Moved { path: path() },
        };
        let data = data.ok_or_else(gone)?;
        let (file, new_name) =
            create(&self.directory, &geometry, self.number, self.rights, Some(&data))?;
        Ok((self.filled(file, geometry, former, layer, lay_out)?, new_name))
    }

    /// The new file with what does not depend on its entries.
    fn filled(
        &self,
        file: CacheFile,
        geometry: Geometry,
        former: &Arena,
        layer: Layer,
        lay_out: &dyn Fn(&Arena) -> Result<()>,
    ) -> Result<Arena> {
        // It is the same cache, so what is bound to its id stays valid.
        let identity = Identity { cache_id: former.identity().cache_id, ..Identity::random() };
        let arena = Arena::from_file(file, Some((geometry, identity)), layer, former.host.clone())?;
        arena.region.set(header::DISCARDS, former.discards_made());
        lay_out(&arena)?;
        Ok(arena)
    }

    /// Waits until the new file is on the disk, then gives it the name of the former one. Calls
    /// `begin` just before. [`Successor::make_durable`] follows.
    ///
    /// # Errors
    /// [`Error::Lost`] if the former file has lost its name, [`Error::Io`], those of `begin`.
    /// Nothing has changed then, except what `begin` did.
    pub fn take_name(
        &self,
        new_name: NewName<'_>,
        new: &Arena,
        former: &Arena,
        begin: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let lost = || Error::Lost { path: former.path().into() };
        let (file, other) = (new.file().ok_or_else(lost)?, former.file().ok_or_else(lost)?);
        file.take_name(new_name, other, self.number, begin)
    }

    /// Waits until the new file's name is on the disk. Without any lock of the cache: all processes
    /// see the name already, and a power cut before this leaves the former file, with entries of a
    /// moment ago, as it may do to any write.
    pub fn make_durable(&self) {
        hooks::reach(Point::NameUnsynced);
        self.directory.make_durable();
    }
}
