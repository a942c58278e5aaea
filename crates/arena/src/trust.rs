//! Whether a file is safe to use as a cache: who else could have put it there, change it or remove
//! it, and whether its memory is shared at all. Decides about owners, modes, names and file
//! systems. Must not know what is in the file ([`header`](crate::header)).
//!
//! The directory is opened first, and the file is reached through that descriptor, so Tuckbox opens
//! exactly the file that it checked.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::os;
use crate::users::is_private_group;

/// As many symbolic links as the kernel follows in one path.
const LINKS_MAX: u32 = 40;
const STICKY: u32 = 0o1000;
/// The user id that a user namespace shows for users that it does not know.
const UNKNOWN_USER: u32 = 65534;

/// Who may use a file, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights {
    /// The group that shares the file with its owner: members may read and change everything in it.
    /// None for the owner alone.
    pub group: Option<u32>,
    /// Only reads: the file may belong to another user, and no byte of it is changed.
    pub read_only: bool,
}

/// The directory of a cache file, held open.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    data: Metadata,
    /// The file's path as given.
    path: PathBuf,
    name: OsString,
}

impl Directory {
    /// Opens the directory of the file at `path`, which need not exist yet.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be reached, [`Error::NotAFile`] if `path` cannot be a file's,
    /// [`Error::Unsafe`] if a symbolic link of another user leads there,
    /// [`Error::NetworkFileSystem`].
    pub fn open(path: &Path) -> Result<Directory> {
        let Some(name) = path.file_name() else {
            return Err(Error::NotAFile { path: path.into(), kind: "a directory" });
        };
        let fd = walk(path, parent_of(path))?;
        let refused =
            |source| Error::Io { action: "examine the directory of", path: path.into(), source };
        let held = File::from(fd);
        let data = held.metadata().map_err(refused)?;
        let fd = OwnedFd::from(held);
        refuse_network(fd.as_raw_fd(), data.dev(), path)?;
        Ok(Directory { fd, data, path: path.into(), name: name.to_owned() })
    }

    /// The descriptor, which can be searched but not read.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Waits until the name of a new file survives a power cut. A process that may not read the
    /// directory cannot ask for that; the kernel then writes the name at some later time.
    pub fn make_durable(&self) {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let opened = os::open_at(self.fd(), Path::new("."), flags, 0);
        // Safe to ignore: a cache that is missing after a power cut is created again.
        let _ = opened.and_then(|directory| os::make_durable(directory.as_raw_fd()));
    }

    /// The name of the file in it.
    pub fn name(&self) -> &Path {
        Path::new(&self.name)
    }

    /// The file's path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses an open file that another user could have put there, or can change or remove.
    ///
    /// # Errors
    /// [`Error::Unsafe`], [`Error::NetworkFileSystem`].
    pub fn check_file(&self, fd: RawFd, data: &Metadata, rights: Rights) -> Result<()> {
        // Something else may be mounted over the file's name.
        refuse_network(fd, data.dev(), &self.path)?;
        let (path, mode) = (&self.path, data.mode());
        let command = quoted(path);
        if data.nlink() > 1 {
            let (count, folder) = (data.nlink(), quoted(parent_of(path)));
            return Err(unsafe_file(
                path,
                format!("it has {count} hard links, so it may be another file of this user"),
                format!(
                    "remove the wrong link; to list the links, run: \
                     find {folder} -xdev -samefile {command}"
                ),
            ));
        }
        let is_ours = data.uid() == os::effective_user();
        let wanted = if rights.read_only { 0o040 } else { 0o060 };
        if let Some(group) = rights.group {
            if data.gid() != group || mode & wanted != wanted {
                let found = format!("group {} and mode {:04o}", data.gid(), mode & 0o7777);
                return Err(unsafe_file(
                    path,
                    format!("it is not shared with group {group}: it has {found}"),
                    format!("run: chgrp {group} {command} && chmod 660 {command}"),
                ));
            }
        } else if mode & 0o020 != 0 {
            return Err(unsafe_file(
                path,
                format!("its mode {:04o} lets group {} write to it", mode & 0o7777, data.gid()),
                format!(
                    "run: chmod go-w {command}, or pass group={} if its members should share it",
                    data.gid()
                ),
            ));
        }
        if mode & 0o002 != 0 {
            return Err(unsafe_file(
                path,
                format!("its mode {:04o} lets every user write to it", mode & 0o7777),
                format!("run: chmod o-w {command}"),
            ));
        }
        // A read-only open of another user's file trusts whoever can put files there; sharing a
        // file with a group trusts its members.
        let may_read = rights.read_only && (data.uid() == 0 || data.uid() == self.data.uid());
        if !(is_ours || rights.group.is_some() || may_read) {
            return Err(unsafe_file(
                path,
                format!(
                    "it belongs to user {}, but this process runs as user {}",
                    data.uid(),
                    os::effective_user()
                ),
                if rights.read_only {
                    "move it to a directory of that user, or choose another path".into()
                } else {
                    "open it as that user or with read_only, or choose another path".into()
                },
            ));
        }
        self.check_directory(data.uid(), rights)
    }

    /// Refuses the directory if others could replace the file of `owner` in it.
    ///
    /// # Errors
    /// [`Error::Unsafe`].
    pub fn check_directory(&self, owner: u32, rights: Rights) -> Result<()> {
        let (mode, user) = (self.data.mode(), self.data.uid());
        let folder = parent_of(&self.path);
        let shown = folder.display();
        let is_groups = rights.group == Some(self.data.gid());
        let is_trusted =
            user == os::effective_user() || user == owner || is_root(user) || is_groups;
        if !is_trusted {
            return Err(unsafe_file(
                &self.path,
                format!("its directory {shown} belongs to user {user}, who can replace it"),
                "choose a directory that belongs to you or to root".into(),
            ));
        }
        let group_is_ours = mode & 0o020 != 0
            && user == os::effective_user()
            && is_private_group(self.data.gid(), user);
        let others = if is_groups || group_is_ours { 0o002 } else { 0o022 };
        if mode & STICKY == 0 && mode & others != 0 {
            let whom = if mode & 0o002 != 0 {
                "every user".into()
            } else {
                format!("group {}", self.data.gid())
            };
            let change = if is_groups { "o-w" } else { "go-w" };
            return Err(unsafe_file(
                &self.path,
                format!(
                    "the mode {:04o} of its directory {shown} lets {whom} replace it",
                    mode & 0o7777
                ),
                format!(
                    "run: chmod {change} {}, or use a new directory: mkdir -m 700 {}",
                    quoted(folder),
                    quoted(&folder.join("tuckbox"))
                ),
            ));
        }
        Ok(())
    }
}

fn unsafe_file(path: &Path, reason: String, remedy: String) -> Error {
    Error::Unsafe { path: path.into(), reason, remedy }
}

/// Whether a user is the machine's root, or may be: in a user namespace the host's root is among
/// the unknown users.
fn is_root(user: u32) -> bool {
    user == 0 || user == UNKNOWN_USER && !knows_all_users()
}

fn knows_all_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Opens the directory at `folder` step by step. Follows only symbolic links of root and of this
/// user: those of others could lead anywhere.
fn walk(path: &Path, folder: &Path) -> Result<OwnedFd> {
    let refused = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => Error::Io {
            action: "open",
            path: path.into(),
            source: io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "the directory {} does not exist; create it first: mkdir -m 700 {}",
                    folder.display(),
                    quoted(folder)
                ),
            ),
        },
        _ => Error::Io { action: "open", path: path.into(), source },
    };
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let begin = if folder.is_absolute() { "/" } else { "." };
    let mut here = os::open(Path::new(begin), flags, 0).map_err(refused)?;
    let mut way: VecDeque<OsString> = steps(folder).collect();
    let mut links = 0;
    while let Some(step) = way.pop_front() {
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let next = os::open_at(here.as_raw_fd(), Path::new(&step), flags, 0).map_err(refused)?;
        let next = File::from(next);
        let data = next.metadata().map_err(refused)?;
        if !data.is_symlink() {
            here = next.into();
            continue;
        }
        let owner = data.uid();
        let is_trusted = owner == os::effective_user() || is_root(owner);
        if !(is_trusted || crate::mutants::is_on("follow")) {
            return Err(unsafe_file(
                path,
                format!(
                    "the symbolic link {} in its path belongs to user {owner}",
                    Path::new(&step).display()
                ),
                "use a path without that link".into(),
            ));
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(refused(io::Error::from_raw_os_error(libc::ELOOP)));
        }
        let target = os::read_link(next.as_raw_fd()).map_err(refused)?;
        if target.is_absolute() {
            let flags = libc::O_PATH | libc::O_DIRECTORY;
            here = os::open(Path::new("/"), flags, 0).map_err(refused)?;
        }
        for step in steps(&target).collect::<Vec<_>>().into_iter().rev() {
            way.push_front(step);
        }
    }
    let held = File::from(here);
    if !held.metadata().map_err(refused)?.is_dir() {
        return Err(refused(io::Error::from_raw_os_error(libc::ENOTDIR)));
    }
    Ok(held.into())
}

fn steps(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

/// The directory part of a path.
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A path quoted for a shell, as one word.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+=:,@".contains(letter);
    if text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// `statfs` magic numbers of file systems that several machines share, from the kernel's list and
/// from the file systems themselves.
const NETWORK_KINDS: [(u32, &str); 19] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x564c, "NCP"),
    (0x4750_4653, "GPFS"),
    (0xaad7_aaea, "PanFS"),
    (0x1983_0326, "BeeGFS"),
    (0x2003_0528, "OrangeFS"),
    (0x786f_4256, "a VirtualBox shared folder"),
    (0xbacb_acbc, "a VMware shared folder"),
];
const FUSE: u32 = 0x6573_5546;
/// FUSE programs whose files are on other machines, by the type of the mount.
const NETWORK_PROGRAMS: [&str; 24] = [
    "afp",
    "blobfuse",
    "blobfuse2",
    "ceph",
    "ceph-fuse",
    "curlftpfs",
    "davfs",
    "davfs2",
    "gcsfuse",
    "glusterfs",
    "goofys",
    "juicefs",
    "lizardfs",
    "moosefs",
    "mfs",
    "mount-s3",
    "mountpoint-s3",
    "rclone",
    "s3fs",
    "seaweedfs",
    "smbnetfs",
    "sshfs",
    "vmhgfs-fuse",
    "JuiceFS",
];

fn refuse_network(fd: RawFd, device: u64, path: &Path) -> Result<()> {
    let os::FileSystem { kind, .. } = os::file_system(fd).map_err(|source| Error::Io {
        action: "examine the file system of",
        path: path.into(),
        source,
    })?;
    let found = match kind {
        FUSE => {
            let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
            network_program(&mounts, device)
        }
        _ => network_kind(kind).map(str::to_owned),
    };
    match found {
        Some(kind) => Err(Error::NetworkFileSystem { path: path.into(), kind }),
        None => Ok(()),
    }
}

fn network_kind(kind: u32) -> Option<&'static str> {
    NETWORK_KINDS.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

/// The mount type of a device in a table of mounts, if it belongs to a network program. A line of
/// the table reads `36 35 0:31 / /mnt rw shared:1 - fuse.sshfs host rw`.
fn network_program(mounts: &[u8], device: u64) -> Option<String> {
    let device = format!("{}:{}", libc::major(device), libc::minor(device));
    mounts.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        if fields.nth(2)? != device.as_bytes() {
            return None;
        }
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        let program = kind.strip_prefix(b"fuse.")?;
        let is_network = NETWORK_PROGRAMS.iter().any(|name| name.as_bytes() == program);
        is_network.then(|| String::from_utf8_lossy(kind).into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_told_by_their_numbers() {
        for (kind, name) in [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x0102_1997, "9p")] {
            assert_eq!(network_kind(kind), Some(name));
        }
        // ext4, tmpfs, xfs, btrfs, overlayfs, zfs.
        for local in [0xef53, 0x0102_1994, 0x5846_5342, 0x9123_683e, 0x794c_7630, 0x2fc1_2fc1] {
            assert_eq!(network_kind(local), None);
        }
    }

    #[test]
    fn programs_behind_fuse_are_told_by_their_names() {
        let mounts = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            36 22 0:31 / /mnt/a rw shared:1 - fuse.sshfs host:/ rw\n\
            37 22 0:32 / /mnt/b rw master:2 shared:1 - fuse.fuse-overlayfs x rw\n\
            38 22 0:33 / /mnt/c rw - fuseblk /dev/sdb1 rw\n";
        let device = |minor| libc::makedev(0, minor);
        assert_eq!(network_program(mounts, device(31)).as_deref(), Some("fuse.sshfs"));
        for local in [32, 33, 34, 3] {
            assert_eq!(network_program(mounts, device(local)), None);
        }
    }

    #[test]
    fn a_command_names_its_file_as_one_word() {
        assert_eq!(quoted(Path::new("/a/b-1.tuck")), "/a/b-1.tuck");
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }
}
