//! A daemon that closes all its descriptors still counts as alive, even to processes in another PID
//! namespace, which cannot look it up in `/proc`.

mod opened;

use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

use tuckbox_arena::layout::process;
use tuckbox_arena::{act_as_another_process, NativeWaiter};

use opened::open;

/// The descriptors of this process that lead to a file.
fn descriptors(path: &Path) -> Vec<RawFd> {
    let number = |name: std::ffi::OsString| name.to_str().and_then(|name| name.parse().ok());
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    all.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == path))
        .filter_map(|entry| number(entry.file_name()))
        .collect()
}

#[test]
fn a_process_without_descriptors_in_another_pid_namespace_is_alive() {
    let folder = std::fs::canonicalize(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.join(format!("descriptors-{}.tuck", std::process::id()));
    // Opened and closed once: descriptors of a newly created file do not show its name.
    drop(open(&path, Arc::new(NativeWaiter)));
    let daemon = open(&path, Arc::new(NativeWaiter));
    let owner = daemon.owner().unwrap();
    let lost = descriptors(&path);
    assert_eq!(lost.len(), 2, "the file and the liveness lock");
    // SAFETY: the numbers belong to this test, and the handle that has them notices that they are
    // closed.
    lost.iter().for_each(|fd| assert_eq!(unsafe { libc::close(*fd) }, 0));
    let slot_at = daemon.geometry().process_at(owner.slot());
    daemon.region().set(slot_at + process::PID_NAMESPACE, 1);
    act_as_another_process();
    let other = open(&path, Arc::new(NativeWaiter));
    assert_ne!(other.owner().unwrap().slot(), owner.slot(), "its slot was taken from it");
    assert!(!other.is_dead(owner));
    daemon.close();
    assert!(other.is_dead(owner));
    std::fs::remove_file(&path).unwrap();
}
