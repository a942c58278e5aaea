//! Which files are safe to use as caches: the cases that catch broken builds. The full table, with
//! other users and file systems, is in `tests/reliability`.

use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};

use tuckbox_engine::{ArenaError, Cache, Config, Error, Place};

/// A test's own folder, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tuckbox-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        set_mode(&path, 0o700);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn open(path: &Path) -> Result<Cache, Error> {
    Cache::open(&Place::Path(path.into()), &Config { size_bytes: 1 << 20, ..Config::default() })
}

#[test]
fn a_link_in_place_of_the_file_is_not_followed() {
    let folder = Folder::new("link");
    let (real, link) = (folder.0.join("real.tuck"), folder.0.join("link.tuck"));
    drop(open(&real).unwrap());
    symlink("real.tuck", &link).unwrap();
    let refused = open(&link).err();
    assert!(matches!(refused, Some(Error::Arena(ArenaError::NotAFile { .. }))), "{refused:?}");
    symlink("nothing.tuck", folder.0.join("dangling.tuck")).unwrap();
    assert!(open(&folder.0.join("dangling.tuck")).is_err());
    assert!(!folder.0.join("nothing.tuck").exists());
}

#[test]
fn an_unsafe_file_is_refused_until_the_given_command_was_run() {
    let folder = Folder::new("rights");
    let path = folder.0.join("cache.tuck");
    drop(open(&path).unwrap());
    for (wrong, bad, good) in
        [(&path, 0o660, 0o600), (&path, 0o602, 0o600), (&folder.0, 0o777, 0o755)]
    {
        set_mode(wrong, bad);
        let refused = open(&path).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(
            refused.contains("is not safe to use") && refused.contains("run: chmod "),
            "{refused}"
        );
        set_mode(wrong, good);
        drop(open(&path).unwrap());
    }
    // As /tmp: everybody may create files, and nobody may replace those of others.
    set_mode(&folder.0, 0o1777);
    drop(open(&path).unwrap());
}
