//! Whether a file is safe to use as a cache: who else could have put it there, change it or remove
//! it. Decides about owners, modes and links. Must not know what is in the file, or how it is
//! reached (`directory.rs`).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::files::effective_user;
use super::users::is_private_group;
use crate::error::{Error, Result};
use crate::platform::Rights;

const STICKY: u32 = 0o1000;
/// The user id that a user namespace shows for users that it does not know.
const UNKNOWN_USER: u32 = 65534;

/// Refuses a file that another user could have put into its directory, or can change or remove.
///
/// # Errors
/// [`Error::Unsafe`].
pub fn check_file(
    path: &Path,
    directory: &Metadata,
    data: &Metadata,
    rights: Rights,
) -> Result<()> {
    let refuse = |reason, remedy| Err(unsafe_file(path, reason, remedy));
    let (owner, file_group, bits) = (data.uid(), data.gid(), data.mode() & 0o7777);
    let command = quoted(path);
    if data.nlink() > 1 {
        let (count, folder) = (data.nlink(), quoted(parent_of(path)));
        return refuse(
            format!("it has {count} hard links, so it may be another file of this user"),
            format!(
                "remove the wrong link; to list the links, run: \
                 find {folder} -xdev -samefile {command}"
            ),
        );
    }
    let user = effective_user();
    let wanted = if rights.read_only { 0o040 } else { 0o060 };
    if let Some(group) = rights.group {
        if file_group != group || bits & wanted != wanted {
            let found = format!("group {file_group} and mode {bits:04o}");
            return refuse(
                format!("it is not shared with group {group}: it has {found}"),
                format!("run: chgrp {group} {command} && chmod 660 {command}"),
            );
        }
    } else if bits & 0o020 != 0 {
        let sharing = format!("pass group={file_group} if its members should share it");
        return refuse(
            format!("its mode {bits:04o} lets group {file_group} write to it"),
            format!("run: chmod go-w {command}, or {sharing}"),
        );
    }
    if bits & 0o002 != 0 {
        return refuse(
            format!("its mode {bits:04o} lets every user write to it"),
            format!("run: chmod o-w {command}"),
        );
    }
    // A read-only open of another user's file trusts whoever can put files there; sharing a
    // file with a group trusts its members.
    let may_read =
        rights.read_only && !rights.only_mine && (owner == 0 || owner == directory.uid());
    if !(owner == user || rights.group.is_some() || may_read) {
        let remedy = match rights.read_only {
            true if rights.only_mine => "open it as that user or without pickle=\"private\"",
            true => "move it to a directory of that user",
            false => "open it as that user or with read_only",
        };
        return refuse(
            format!("it belongs to user {owner}, but this process runs as user {user}"),
            format!("{remedy}, or choose another path"),
        );
    }
    check_directory(path, directory, owner, rights)
}

/// Refuses the directory if others could replace the file of `owner` in it.
///
/// # Errors
/// [`Error::Unsafe`].
pub fn check_directory(
    path: &Path,
    directory: &Metadata,
    owner: u32,
    rights: Rights,
) -> Result<()> {
    let refuse = |reason, remedy| Err(unsafe_file(path, reason, remedy));
    let (user, group, bits) = (directory.uid(), directory.gid(), directory.mode() & 0o7777);
    let folder = parent_of(path);
    let shown = folder.display();
    let is_groups = rights.group == Some(group);
    let is_ours = user == effective_user();
    if !(is_ours || user == owner || is_root(user) || is_groups) {
        return refuse(
            format!("its directory {shown} belongs to user {user}, who can replace it"),
            "choose a directory that belongs to you or to root".into(),
        );
    }
    let group_is_ours = bits & 0o020 != 0 && is_ours && is_private_group(group, user);
    let others = if is_groups || group_is_ours { 0o002 } else { 0o022 };
    if bits & STICKY == 0 && bits & others != 0 {
        let is_everybodys = bits & 0o002 != 0;
        let whom = if is_everybodys { "every user".into() } else { format!("group {group}") };
        let change = if is_groups { "o-w" } else { "go-w" };
        let (command, new) = (quoted(folder), quoted(&folder.join("tuckbox")));
        let make = match rights.group {
            Some(group) => format!("mkdir -m 2770 {new} && chgrp {group} {new}"),
            None => format!("mkdir -m 700 {new}"),
        };
        return refuse(
            format!("the mode {bits:04o} of its directory {shown} lets {whom} replace it"),
            format!("run: chmod {change} {command}, or use a new directory: {make}"),
        );
    }
    Ok(())
}

/// Refuses what is in the place of this user's own folder, if another user put it there.
///
/// # Errors
/// [`Error::Unsafe`].
pub fn check_own_folder(path: &Path, folder: &Path, data: &Metadata) -> Result<()> {
    let owner = data.uid();
    let found = match () {
        () if !data.is_dir() => "is not a directory".to_owned(),
        () if owner != effective_user() => format!("belongs to user {owner}"),
        () => return Ok(()),
    };
    let (shown, command) = (folder.display(), quoted(folder));
    Err(unsafe_file(
        path,
        format!("others can replace files in its directory, and {shown} {found}"),
        format!("choose another path, or remove what another user put there: rm -r {command}"),
    ))
}

/// Refuses this user's own folder if it is not private.
///
/// # Errors
/// [`Error::Unsafe`].
pub fn check_own_folder_mode(path: &Path, folder: &Path, data: &Metadata) -> Result<()> {
    if is_private_folder(data) {
        return Ok(());
    }
    let (shown, bits, command) = (folder.display(), data.mode() & 0o7777, quoted(folder));
    Err(unsafe_file(
        path,
        format!("{shown} has mode {bits:04o}, so it is not private"),
        format!("run: chmod 700 {command}, or open the cache without read_only first"),
    ))
}

/// Whether a directory gives all rights to its owner, and none to others.
pub fn is_private_folder(data: &Metadata) -> bool {
    data.mode() & 0o777 == 0o700
}

/// Refuses a file whose directory is not one that only this user can enter. In a sticky directory,
/// nobody else can replace one that passes.
///
/// # Errors
/// [`Error::Unsafe`].
pub fn check_private_folder(path: &Path) -> Result<()> {
    let folder = parent_of(path);
    let is_private = |data: Metadata| {
        data.is_dir() && data.uid() == effective_user() && data.mode() & 0o077 == 0
    };
    // A folder that is missing is reported when the file is opened.
    if std::fs::symlink_metadata(folder).map_or(true, is_private) {
        return Ok(());
    }
    let reason = format!("{} is not a directory that only you can enter", folder.display());
    let remedy = "remove it if you know who created it, or give an absolute path instead of a name";
    Err(unsafe_file(path, reason, remedy.into()))
}

/// Whether a file of this user is one that others could have changed.
pub fn is_ours_but_writable(data: &Metadata) -> bool {
    data.is_file() && data.uid() == effective_user() && data.mode() & 0o022 != 0
}

/// The error for a file that is not safe to use.
pub fn unsafe_file(path: &Path, reason: String, remedy: String) -> Error {
    Error::Unsafe { path: path.into(), reason, remedy }
}

/// Whether a symbolic link of this user may lead to a file: other users' links could lead anywhere.
pub fn may_lead(user: u32) -> bool {
    user == effective_user() || is_root(user)
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

/// The directory part of a path.
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A path quoted for a shell, as one word.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+=:,@".contains(letter);
    if text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_its_file_as_one_word() {
        assert_eq!(quoted(Path::new("/a/b-1.tuck")), "/a/b-1.tuck");
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }
}
