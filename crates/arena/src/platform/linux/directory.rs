//! A directory that is held open: following the path to it, and its files. Must not know who may use
//! them (`trust.rs`).
//!
//! The file is reached through the directory's descriptor, so Tuckbox opens exactly the file that it
//! checked.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::network::refuse_network;
use super::trust::{self, parent_of, quoted, unsafe_file};
use super::{files, space};
use crate::error::{Error, Result, Space};
use crate::platform::Rights;

/// As many symbolic links as the kernel follows in one path.
const LINKS_MAX: u32 = 40;

/// The directory of a cache file, held open.
#[derive(Debug)]
pub struct Directory {
    /// Can be searched but not read.
    file: File,
    data: Metadata,
    /// The file's path as given.
    pub path: PathBuf,
    /// The name of the file in it.
    pub name: PathBuf,
}

impl Directory {
    /// Refuses the file at `path` unless only this user can enter its directory.
    ///
    /// # Errors
    /// [`Error::Unsafe`].
    pub fn check_private(path: &Path) -> Result<()> {
        trust::check_private_folder(path)
    }

    /// Opens the directory of the file at `path`, which need not exist yet.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be reached, [`Error::NotAFile`] if `path` cannot be a file's,
    /// [`Error::Unsafe`] if a symbolic link of another user leads there,
    /// [`Error::NetworkFileSystem`].
    pub fn of(path: &Path) -> Result<Directory> {
        let Some(name) = path.file_name() else {
            return Err(Error::NotAFile { path: path.into(), kind: "a directory" });
        };
        Directory::held(walk(path, parent_of(path))?, path.into(), name.into())
    }

    /// As [`Directory::of`], for a file to open or to create. If others could replace a new
    /// file there, opens this user's own folder in it, and creates that folder unless `rights` only
    /// read.
    ///
    /// # Errors
    /// As [`Directory::of`]; [`Error::Unsafe`] if the own folder is another user's.
    pub fn open(path: &Path, rights: Rights) -> Result<Directory> {
        let given = Directory::of(path)?;
        // A file that is there is judged where it is.
        let is_taken = !matches!(given.examine(), Ok(None));
        if is_taken || rights.group.is_some() || given.check_new_file(rights).is_ok() {
            return Ok(given);
        }
        Ok(given.own_folder(rights)?.unwrap_or(given))
    }

    fn held(file: File, path: PathBuf, name: PathBuf) -> Result<Directory> {
        let data = file.metadata().map_err(Error::cannot("examine the directory of", &path))?;
        refuse_network(&file, &data, &path)?;
        Ok(Directory { file, data, path, name })
    }

    /// Opens this user's own folder in the directory. None if it may not be created, or if the
    /// directory has such a name itself.
    ///
    /// Others can put something else in its place at any time. So each opening checks what it holds
    /// open, and reaches the file through that.
    fn own_folder(&self, rights: Rights) -> Result<Option<Directory>> {
        let name = PathBuf::from(format!(".tuckbox-{}", files::effective_user()));
        let parent = parent_of(&self.path);
        if parent.ends_with(&name) {
            return Ok(None);
        }
        let cannot = Error::cannot("create a private folder for", &self.path);
        if !rights.read_only {
            match files::create_folder_at(self.file.as_raw_fd(), &name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(cannot(error));
                }
                _ => {}
            }
        }
        let folder = match self.open_at(&name, libc::O_PATH) {
            Err(error) if rights.read_only && error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            opened => opened.map_err(cannot)?,
        };
        let folder_path = parent.join(name);
        let mut own = Directory::held(folder, folder_path.join(&self.name), self.name.clone())?;
        trust::check_own_folder(&self.path, &folder_path, &own.data)?;
        if !rights.read_only {
            own.make_private().map_err(cannot)?;
        }
        trust::check_own_folder_mode(&self.path, &folder_path, &own.data)?;
        Ok(Some(own))
    }

    /// Makes this user's own folder private again, and removes the file if others could have
    /// changed it: Kubernetes gives both to the `fsGroup` at each start of a pod. If two processes do
    /// so at once, one may remove the other's new file, which is then like any removed file.
    fn make_private(&mut self) -> io::Result<()> {
        if !trust::is_private_folder(&self.data) {
            files::set_mode(self.file.as_raw_fd(), 0o700)?;
            self.data = self.file.metadata()?;
        }
        match self.examine()? {
            Some(data) if trust::is_ours_but_writable(&data) => self.remove(&self.name),
            _ => Ok(()),
        }
    }

    /// Opens a file in it. Follows no symbolic link.
    fn open_at(&self, name: &Path, flags: libc::c_int) -> io::Result<File> {
        let follow = if crate::mutants::is_on("follow") { 0 } else { libc::O_NOFOLLOW };
        files::open_at(self.file.as_raw_fd(), name, flags | follow)
    }

    /// Refuses the open file if another user could have put it there, or can change or remove it.
    ///
    /// # Errors
    /// [`Error::Unsafe`], [`Error::NetworkFileSystem`].
    pub fn check_file(&self, file: &File, data: &Metadata, rights: Rights) -> Result<()> {
        // Something else may be mounted over the file's name.
        refuse_network(file, data, &self.path)?;
        trust::check_file(&self.path, &self.data, data, rights)
    }

    /// Refuses the directory if others could replace a file that this process creates.
    ///
    /// # Errors
    /// [`Error::Unsafe`].
    pub fn check_new_file(&self, rights: Rights) -> Result<()> {
        trust::check_directory(&self.path, &self.data, files::effective_user(), rights)
    }

    /// Examines the file without opening it, because opening a device or a named pipe has side
    /// effects. None if there is no file.
    pub fn examine(&self) -> io::Result<Option<Metadata>> {
        match self.open_at(&self.name, libc::O_PATH) {
            Ok(file) => file.metadata().map(Some),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the file. None if it has been replaced or removed since it was examined.
    pub fn open_file(&self, rights: Rights) -> io::Result<Option<File>> {
        let access = if rights.read_only { libc::O_RDONLY } else { libc::O_RDWR };
        match self.open_at(&self.name, access | libc::O_NONBLOCK) {
            Ok(file) => Ok(Some(file)),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOENT | libc::ELOOP | libc::EISDIR | libc::ENXIO) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Creates an unnamed file, which vanishes unless [`Directory::name_file`] names it. An error
    /// if the directory is not writable, or its file system has no unnamed files.
    pub fn create_nameless(&self) -> io::Result<File> {
        self.open_at(Path::new("."), libc::O_RDWR | libc::O_TMPFILE)
    }

    /// Creates a file under a temporary name.
    pub fn create_named(&self, temporary: &Path) -> io::Result<File> {
        self.open_at(temporary, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)
    }

    /// Gives a new file its name, unless the name is taken (`AlreadyExists`).
    pub fn name_file(&self, file: i32, temporary: Option<&Path>) -> io::Result<()> {
        match temporary {
            Some(temporary) => files::rename_new(self.file.as_raw_fd(), temporary, &self.name),
            None => files::link_new(file, self.file.as_raw_fd(), &self.name),
        }
    }

    /// Gives an unnamed file a temporary name, unless that is taken (`AlreadyExists`).
    pub fn name_temporarily(&self, file: i32, temporary: &Path) -> io::Result<()> {
        files::link_new(file, self.file.as_raw_fd(), temporary)
    }

    /// Renames a file with a temporary name over the present one.
    pub fn replace_file(&self, temporary: &Path) -> io::Result<()> {
        files::rename_over(self.file.as_raw_fd(), temporary, &self.name)
    }

    /// Removes a file from the directory.
    pub fn remove(&self, name: &Path) -> io::Result<()> {
        files::remove_at(self.file.as_raw_fd(), name)
    }

    /// All the space that a new file could have; none if that is unknown.
    pub fn most_space(&self) -> Option<Space> {
        space::most(&self.file)
    }

    /// Waits until the name of a new file survives a power cut. A process that may not read the
    /// directory cannot ask for that; the kernel then writes the name at some later time.
    pub fn make_durable(&self) {
        let opened = self.open_at(Path::new("."), libc::O_RDONLY | libc::O_DIRECTORY);
        // Safe to ignore: a cache that is missing after a power cut is created again.
        let _ = opened.and_then(|directory| space::make_durable(directory.as_raw_fd()));
    }
}

/// Opens the directory at `folder` step by step. Follows only symbolic links of root and of this
/// user: those of others could lead anywhere.
fn walk(path: &Path, folder: &Path) -> Result<File> {
    let cannot = Error::cannot("open", path);
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            let (shown, command) = (folder.display(), quoted(folder));
            let advice = format!(
                "the directory {shown} does not exist; create it first: mkdir -m 700 {command}"
            );
            cannot(io::Error::new(io::ErrorKind::NotFound, advice))
        }
        _ => cannot(error),
    };
    let start = |at: &str| files::open(Path::new(at), libc::O_PATH | libc::O_DIRECTORY);
    let begin = if folder.is_absolute() { "/" } else { "." };
    let mut here = start(begin).map_err(refused)?;
    let mut way: VecDeque<OsString> = steps(folder).collect();
    let mut links = 0;
    while let Some(step) = way.pop_front() {
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let step = Path::new(&step);
        let next = files::open_at(here.as_raw_fd(), step, flags).map_err(refused)?;
        let data = next.metadata().map_err(refused)?;
        if !data.is_symlink() {
            here = next;
            continue;
        }
        let owner = data.uid();
        if !(trust::may_lead(owner) || crate::mutants::is_on("follow")) {
            return Err(unsafe_file(
                path,
                format!("the symbolic link {} in its path belongs to user {owner}", step.display()),
                "use a path without that link".into(),
            ));
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(refused(io::Error::from_raw_os_error(libc::ELOOP)));
        }
        let target = files::read_link(next.as_raw_fd()).map_err(refused)?;
        if target.is_absolute() {
            here = start("/").map_err(refused)?;
        }
        way = steps(&target).chain(way).collect();
    }
    if !here.metadata().map_err(refused)?.is_dir() {
        return Err(refused(io::Error::from_raw_os_error(libc::ENOTDIR)));
    }
    Ok(here)
}

fn steps(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}
