//! Where a run keeps its files.

use std::path::{Path, PathBuf};

use tuckbox_testkit::scratch;

/// A folder for one run. It is removed with its contents when dropped, unless [`Folder::keep`] was
/// called.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    /// A new folder in `parent`. Without a parent, where tests keep their files.
    ///
    /// # Panics
    /// If the folder cannot be created.
    pub fn new(parent: Option<&Path>) -> Folder {
        let parent = parent.map_or_else(scratch::folder, Path::to_path_buf);
        let random = fastrand::u64(..);
        let path = parent.join(format!("torture-{}-{random:08x}", std::process::id()));
        std::fs::create_dir_all(&path)
            .unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
        Folder { path, keep: false }
    }

    /// The path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder, for people who want to see what went wrong.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.keep {
            eprintln!("the files of this run are kept in {}", self.path.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
