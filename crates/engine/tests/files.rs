//! Which files are safe to use as caches: the cases that catch broken builds. The full table, with
//! other users and file systems, is in `tests/reliability`.

use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};

use tuckbox_arena::layout::SIZE_BYTES_MAX;
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
fn a_size_that_no_file_can_reach_is_refused_and_leaves_nothing() {
    let folder = Folder::new("size");
    let path = folder.0.join("cache.tuck");
    let attempt = |place: &Place, size_bytes| {
        let config = Config { size_bytes, ..Config::default() };
        Cache::open(place, &config).err().map(|error| error.to_string()).unwrap_or_default()
    };
    for place in [Place::Path(path.clone()), Place::Private] {
        for size_bytes in [SIZE_BYTES_MAX + 1, u64::MAX] {
            let refused = attempt(&place, size_bytes);
            let expected = "bytes is too large; the maximum is 8796093022208 bytes: choose a \
                            smaller size";
            assert_eq!(refused, format!("size {size_bytes} {expected}"));
        }
    }
    // No machine that runs this test has so much memory.
    let refused = attempt(&Place::Private, SIZE_BYTES_MAX);
    assert!(refused.contains("bytes of memory and swap space; choose a smaller size"), "{refused}");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    // Only a file that is to be created is refused: `Cache` opens an existing one with its own size.
    drop(open(&path).unwrap());
    assert_eq!(attempt(&Place::Path(path), SIZE_BYTES_MAX), "");
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
