//! Network file systems, whose files other machines use without sharing memory and locks. Must not
//! know who may use a file.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::space;
use crate::error::{Error, Result};

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

/// Refuses an open file or directory on a network file system.
///
/// # Errors
/// [`Error::NetworkFileSystem`].
pub fn refuse_network(file: &File, data: &Metadata, path: &Path) -> Result<()> {
    let found =
        space::file_system(file).map_err(Error::cannot("examine the file system of", path))?;
    let found = match found.kind {
        FUSE => {
            let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
            network_program(&mounts, data.dev())
        }
        kind => network_kind(kind).map(str::to_owned),
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
}
