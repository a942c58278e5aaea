//! Opens and creates the file. Must not know what is in it.
//!
//! A new file is laid out without a name (or under a temporary one, where the file system has no
//! unnamed files), synced, and then named. So nobody opens half a cache, a death while creating
//! leaves nothing behind, and a power cut leaves a whole cache or none. A file that Tuckbox did not
//! create is never written to.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::{Error, Result, Space};
use crate::hooks::{self, Point};
use crate::platform::{files, forks, space, Directory, FileId, NotAllocated, Rights};

/// How often opening starts again because the file was replaced meanwhile.
const ATTEMPTS: u32 = 64;
/// How often, and for how long, to wait until a second hard link disappears.
const LINK_CHECKS: u32 = 5;
const LINK_PAUSE: Duration = Duration::from_millis(1);

/// Refuses a path in a directory that others can enter, or that belongs to another user.
///
/// # Errors
/// [`Error::Unsafe`].
pub fn check_private_folder(path: &Path) -> Result<()> {
    Directory::check_private(path)
}

/// Whether a file is still the one at its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathStatus {
    /// Still in place, as far as can be told.
    InPlace,
    /// Nothing is at the path, but the file has a name. It was moved, or the process has changed its
    /// root directory.
    Missing,
    /// The path leads to another file.
    Replaced,
    /// The file has no name left and disappears with its last user.
    Removed,
}

/// An open file, and which one it is.
#[derive(Debug)]
pub struct CacheFile {
    fd: i32,
    /// Until [`CacheFile::let_go`]. After it the number may be another file's.
    is_open: AtomicBool,
    /// The path; for a file without a name, its future path.
    path: PathBuf,
    /// Whether the file has the name in `path`.
    is_named: AtomicBool,
    id: FileId,
}

/// A new file's way to its name. Removes the file's temporary name when dropped.
pub struct NewName<'a> {
    directory: &'a Directory,
    /// None if the file has no name yet, or already its own.
    temporary: Option<PathBuf>,
}

impl Drop for NewName<'_> {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Safe to ignore: the name of a leftover file says what it is.
            let _ = self.directory.remove(temporary);
        }
    }
}

/// The name of a file that will get the directory's.
pub fn temporary_name(directory: &Directory, number: u64) -> PathBuf {
    PathBuf::from(format!(".{}.{number:016x}.new", directory.name.display()))
}

fn examine(file: &File, path: &Path) -> Result<Metadata> {
    let data = file.metadata().map_err(Error::cannot("examine", path))?;
    refuse_kind(&data, path)?;
    Ok(data)
}

fn refuse_kind(data: &Metadata, path: &Path) -> Result<()> {
    match files::special_kind(data) {
        Some(kind) => Err(Error::NotAFile { path: path.into(), kind }),
        None => Ok(()),
    }
}

/// Refuses a size that a new file could never reach. Space that others use now does not matter.
fn require_space(most: Option<Space>, path: &Path, size_bytes: u64) -> Result<()> {
    match most {
        Some(space) if space.total_bytes() < size_bytes => {
            Err(Error::SizeBeyondSpace { path: path.into(), asked_bytes: size_bytes, space })
        }
        _ => Ok(()),
    }
}

impl CacheFile {
    /// `is_named` tells whether the file has its name already.
    fn new(file: File, data: &Metadata, path: &Path, is_named: bool) -> CacheFile {
        let (id, is_open) = (files::identify(data), AtomicBool::new(true));
        let is_named = AtomicBool::new(is_named);
        CacheFile { fd: files::keep(file), is_open, path: path.into(), is_named, id }
    }

    /// Opens an existing file if it is safe to use; none if there is no file.
    pub fn open(directory: &Directory, rights: Rights) -> Result<Option<CacheFile>> {
        let path = &directory.path;
        let refused = Error::cannot("open", path);
        let look = || directory.examine().map_err(refused);
        let (mut link_checks, mut mounted) = (0, None);
        for _ in 0..ATTEMPTS {
            let Some(before) = look()? else { return Ok(None) };
            refuse_kind(&before, path)?;
            // Replaced or removed meanwhile.
            let Some(file) = directory.open_file(rights).map_err(refused)? else { continue };
            let opened = examine(&file, path)?;
            // The name must still lead to this file and be its only one: a second name that came
            // and went could have made us open another file of this user.
            let Some(after) = look()? else { continue };
            let is_one = |one: &Metadata| files::identify(one) == files::identify(&opened);
            if !is_one(&before) || !is_one(&after) {
                continue;
            }
            // A mount of the file alone still leads to it. Otherwise the path leads nowhere next time.
            if files::links(&after) == 0 {
                mounted =
                    Some("a mount of a file that was removed or replaced; mount its directory");
                continue;
            }
            let most = [before, opened, after].into_iter().max_by_key(files::links);
            let data = most.expect("there are three");
            // Where a new file cannot be renamed without replacing another, it has two names for an
            // instant.
            if files::links(&data) > 1 && link_checks < LINK_CHECKS {
                link_checks += 1;
                std::thread::sleep(LINK_PAUSE);
                continue;
            }
            directory.check_file(&file, &data, rights)?;
            return Ok(Some(CacheFile::new(file, &data, path, true)));
        }
        if let Some(kind) = mounted {
            return Err(Error::NotAFile { path: path.into(), kind });
        }
        Err(Error::Unsafe {
            path: path.into(),
            reason: "another process keeps replacing it".into(),
            remedy: "stop that process, or choose another path".into(),
        })
    }

    /// Opens the unnamed file of another process of this user by the path that it shows.
    pub fn open_shown(path: &Path) -> Result<CacheFile> {
        let file = files::open_shown(path).map_err(Error::cannot("open", path))?;
        let data = examine(&file, path)?;
        if files::links(&data) != 0 || !files::belongs_to_us(&data) {
            return Err(Error::Unsafe {
                path: path.into(),
                reason: "it is not a private cache of this user".into(),
                remedy: "open a cache file by its path".into(),
            });
        }
        Ok(CacheFile::new(file, &data, path, false))
    }

    /// Creates an unnamed file of `len_bytes` bytes in memory, which may grow to `size_bytes`.
    ///
    /// # Errors
    /// [`Error::SizeBeyondSpace`], [`Error::NoSpace`], [`Error::Io`].
    pub fn private(len_bytes: u64, size_bytes: u64) -> Result<CacheFile> {
        let path = Path::new("(private cache)");
        let file = files::memory_file("tuckbox").map_err(Error::cannot("create", path))?;
        require_space(space::most(&file), path, size_bytes)?;
        files::set_rights(&file, path, Rights::default())?;
        let data = examine(&file, path)?;
        let file = CacheFile::new(file, &data, path, false);
        file.allocate(0, len_bytes)?;
        Ok(file)
    }

    /// Creates a file of `len_bytes` bytes in a directory, unnamed or under a temporary name, which
    /// has the given number in it. It may grow to `size_bytes`. It gets `rights`, or those of the
    /// `former` file.
    ///
    /// # Errors
    /// [`Error::SizeBeyondSpace`], [`Error::Unsafe`], [`Error::NoSpace`], [`Error::NotGrowable`],
    /// [`Error::Io`].
    pub fn create<'a>(
        directory: &'a Directory,
        len_bytes: u64,
        size_bytes: u64,
        number: u64,
        rights: Rights,
        former: Option<&Metadata>,
    ) -> Result<(CacheFile, NewName<'a>)> {
        let path = &directory.path;
        directory.check_new_file(rights)?;
        require_space(directory.most_space(), path, size_bytes)?;
        let mut new_name = NewName { directory, temporary: None };
        let created = directory.create_nameless().or_else(|_| {
            let temporary = temporary_name(directory, number);
            directory.create_named(&temporary).inspect(|_| new_name.temporary = Some(temporary))
        });
        let file = created.map_err(Error::cannot("create", path))?;
        match former {
            Some(former) => files::copy_rights(&file, path, former)?,
            None => files::set_rights(&file, path, rights)?,
        }
        let data = examine(&file, path)?;
        let file = CacheFile::new(file, &data, path, false);
        file.allocate(0, len_bytes)?;
        Ok((file, new_name))
    }

    /// Syncs a file from [`CacheFile::create`], then gives it its own name. If another process has
    /// taken the name, removes the new file and returns false.
    pub fn publish(&self, mut new_name: NewName<'_>) -> Result<bool> {
        let durable = match crate::mutants::is_on("early-name") {
            true => Ok(()),
            false => space::make_durable(self.fd()),
        };
        let NewName { directory, temporary } = &mut new_name;
        match durable.and_then(|()| directory.name_file(self.fd, temporary.as_deref())) {
            Ok(()) => {
                directory.make_durable();
                *temporary = None;
                self.is_named.store(true, Ordering::Relaxed);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(_) if crate::mutants::is_on("ignored-error") => Ok(true),
            Err(error) => Err(Error::cannot("create", &directory.path)(error)),
        }
    }

    /// Syncs a file from [`CacheFile::create`], then gives it the name of another one. Calls `begin`
    /// before the new file has any name. The caller syncs the directory.
    ///
    /// # Errors
    /// [`Error::Lost`] if `former` has lost the name, [`Error::Io`], those of `begin`. Nothing has
    /// changed then, except what `begin` did.
    pub fn take_name(
        &self,
        mut new_name: NewName<'_>,
        former: &CacheFile,
        number: u64,
        begin: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let NewName { directory, temporary } = &mut new_name;
        let cannot = Error::cannot("replace", &directory.path);
        space::make_durable(self.fd).map_err(cannot)?;
        hooks::reach(Point::SuccessorComplete);
        begin()?;
        hooks::reach(Point::EntriesHidden);
        if temporary.is_none() {
            let name = temporary_name(directory, number);
            directory.name_temporarily(self.fd, &name).map_err(cannot)?;
            *temporary = Some(name);
        }
        hooks::reach(Point::SuccessorNamed);
        // As late as possible: this process may have been stopped for hours, and somebody may have
        // removed the file that nobody could write to. What another process creates between these
        // two calls is replaced; no system call checks and renames at once.
        let is_former = |data: Metadata| files::identify(&data) == former.id;
        if !directory.examine().map_err(cannot)?.is_some_and(is_former) {
            return Err(Error::Lost { path: directory.path.clone() });
        }
        directory.replace_file(temporary.as_deref().expect("it has one")).map_err(cannot)?;
        hooks::reach(Point::NameTaken);
        *temporary = None;
        self.is_named.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Refuses a file that could not grow later because its file system cannot reserve
    /// space. Allocates a byte that exists, so nothing changes.
    ///
    /// # Errors
    /// [`Error::NotGrowable`].
    pub fn require_growable(&self) -> Result<()> {
        match self.allocate(0, 1) {
            Err(error @ Error::NotGrowable { .. }) => Err(error),
            // Other errors may no longer occur when the file has to grow.
            _ => Ok(()),
        }
    }

    /// Allocates the bytes, without holes.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::NotGrowable`], [`Error::Lost`] if the descriptor leads to
    /// another file.
    pub fn allocate(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.len_bytes()?;
        space::allocate(self.fd(), offset, len_bytes).map_err(|error| match error {
            NotAllocated::Full => {
                Error::NoSpace { path: self.path.clone(), wanted_bytes: len_bytes }
            }
            NotAllocated::NotGrowable => Error::NotGrowable { path: self.path.clone() },
            NotAllocated::Other(error) => Error::cannot("allocate space for", &self.path)(error),
        })
    }

    /// Waits until the whole file is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Lost`] if the descriptor no longer leads to this file.
    pub fn sync(&self) -> Result<()> {
        self.len_bytes()?;
        space::make_durable(self.fd()).map_err(Error::cannot("sync", &self.path))
    }

    /// The present length of the file.
    ///
    /// # Errors
    /// [`Error::Lost`] if the descriptor was closed by other code and reused for another file.
    pub fn len_bytes(&self) -> Result<u64> {
        match files::status(self.fd) {
            Some(status) if status.id == self.id => Ok(status.len_bytes),
            _ => Err(Error::Lost { path: self.path.clone() }),
        }
    }

    /// Overwrites an existing word by a plain write, without the mapping.
    ///
    /// # Errors
    /// [`Error::Lost`] if the file no longer has the word, [`Error::Io`].
    pub fn overwrite(&self, at: u64, word: u64) -> Result<()> {
        if self.len_bytes()? < at + 8 {
            return Err(Error::Lost { path: self.path.clone() });
        }
        files::overwrite(self.fd, at, &word.to_ne_bytes())
            .map_err(Error::cannot("write to", &self.path))
    }

    /// Whether the file is still the one at its path.
    ///
    /// A missing file alone does not mean that the cache was lost: a process that has changed its
    /// root directory does not find it either. Creating a new cache at the path makes the
    /// difference visible.
    pub fn path_status(&self) -> PathStatus {
        if !self.is_named.load(Ordering::Relaxed) {
            return PathStatus::InPlace;
        }
        // Other code may have closed the descriptor; then only the path can tell.
        match files::status(self.fd) {
            Some(status) if status.id == self.id && status.links == 0 => {
                return PathStatus::Removed
            }
            _ => {}
        }
        match std::fs::symlink_metadata(&self.path) {
            Ok(data) if files::identify(&data) != self.id => PathStatus::Replaced,
            Err(error) if error.kind() == ErrorKind::NotFound => PathStatus::Missing,
            _ => PathStatus::InPlace,
        }
    }

    /// What tells this file from others.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// The descriptor.
    pub fn fd(&self) -> i32 {
        self.fd
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl CacheFile {
    /// Closes the descriptor. From then on the file is lost. The caller makes sure that no other
    /// thread is about to change the file: it might change another one that gets the number.
    pub fn let_go(&self) {
        // A daemon that closed all descriptors may have reused the number for another file, which
        // is not ours to close.
        if self.is_open.swap(false, Ordering::AcqRel) && self.len_bytes().is_ok() {
            forks::close(self.fd);
        }
    }
}

impl Drop for CacheFile {
    fn drop(&mut self) {
        self.let_go();
    }
}
