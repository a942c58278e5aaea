//! Only `src/platform/linux` knows Linux: its special files, flags, error numbers, system calls and
//! the crates that name them. The rest of the arena, comments included, names none of them.

mod sources;

use std::path::Path;

use sources::rust_files;

/// The folder of a system, which may name anything.
const SYSTEM: &str = "platform/linux/";
/// The file that selects the folder.
const SELECTION: &str = "platform/mod.rs";

/// Special files and folders, and parts of the standard library that only some systems have.
const TEXTS: [&str; 6] = ["/proc", "/sys/", "/dev/", "/etc/", "std::os::", "raw_os_error"];
/// Crates of system calls, and system calls whose names are no common words.
const WORDS: [&str; 20] = [
    "libc",
    "rustix",
    "nix",
    "errno",
    "futex",
    "fallocate",
    "posix_fallocate",
    "fcntl",
    "flock",
    "ioctl",
    "madvise",
    "memfd",
    "mmap",
    "munmap",
    "mremap",
    "openat",
    "procfs",
    "sigaction",
    "statfs",
    "syscall",
];
/// How constants of Linux begin.
const PREFIXES: [&str; 27] = [
    "AT_",
    "CLOCK_BOOT",
    "CLOCK_MONO",
    "CLOCK_REAL",
    "CLONE_",
    "EPOLL",
    "FALLOC_",
    "FUTEX_",
    "F_",
    "LOCK_EX",
    "LOCK_SH",
    "LOCK_UN",
    "MADV_",
    "MAP_",
    "MFD_",
    "MREMAP_",
    "O_",
    "POSIX_",
    "PROT_",
    "PR_",
    "RENAME_",
    "RLIMIT_",
    "SA_",
    "SEEK_",
    "SYS_",
    "S_I",
    "__NR_",
];
/// Error numbers and signals.
const NAMES: [&str; 34] = [
    "EACCES",
    "EAGAIN",
    "EBADF",
    "EBUSY",
    "EDQUOT",
    "EEXIST",
    "EFBIG",
    "EINTR",
    "EINVAL",
    "EIO",
    "EISDIR",
    "ELOOP",
    "EMFILE",
    "ENFILE",
    "ENODEV",
    "ENOENT",
    "ENOMEM",
    "ENOSPC",
    "ENOSYS",
    "ENOTDIR",
    "ENXIO",
    "EOPNOTSUPP",
    "EPERM",
    "EROFS",
    "ESRCH",
    "ETXTBSY",
    "SIGBUS",
    "SIGCHLD",
    "SIGKILL",
    "SIGSEGV",
    "SIGSTOP",
    "SIGTERM",
    "SIGXFSZ",
    "target_os",
];

/// What a line names that only a system's folder may name.
fn of_a_system(line: &str) -> Option<&str> {
    let is_known = |word: &&str| {
        WORDS.contains(word)
            || NAMES.contains(word)
            || PREFIXES.iter().any(|prefix| word.starts_with(prefix))
    };
    let text = TEXTS.into_iter().find(|text| line.contains(text));
    text.or_else(|| line.split(|sign: char| !sign.is_alphanumeric() && sign != '_').find(is_known))
}

#[test]
fn linux_is_known_in_its_folder_alone() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut in_system = 0;
    for path in rust_files(&sources) {
        let name = path.strip_prefix(&sources).unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for (index, line) in text.lines().enumerate() {
            match of_a_system(line) {
                Some(_) if name.starts_with(SYSTEM) => in_system += 1,
                Some("target_os") if name == SELECTION => {}
                Some(what) => found.push(format!("{name}:{}: {what}", index + 1)),
                None => {}
            }
        }
    }
    assert!(in_system > 100, "the folder of the system is elsewhere");
    assert!(found.is_empty(), "Linux is known outside of {SYSTEM}:\n{}", found.join("\n"));
}

#[test]
fn names_of_a_system_are_told_from_others() {
    for line in [
        "let flags = libc::O_RDWR;",
        "/// As O_TMPFILE does.",
        "use std::os::fd::RawFd;",
        "// See /proc/self/fd.",
        "    Some(ENOSPC) => full(),",
        "(SYS_futex, 98)",
        "#[cfg(target_os = \"linux\")]",
    ] {
        assert!(of_a_system(line).is_some(), "{line}");
    }
    for line in ["header::CLOCK_ROWS", "use std::io;", "// a process", "FIRST_SLICE", "EVICTED"] {
        assert_eq!(of_a_system(line), None, "{line}");
    }
}
