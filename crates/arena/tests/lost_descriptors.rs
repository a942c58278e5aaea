//! A process that lost all descriptors of the file, as a daemon does that closes them, lives all the same:
//! also for those who cannot look it up, since they are in another PID namespace.

use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

use tuckbox_arena::clock::Clock;
use tuckbox_arena::layout::process;
use tuckbox_arena::{Arena, Layer, NativeWaiter, Place, Plan, Rights};

fn open(path: &Path) -> Arena {
    let plan = Plan {
        size_bytes: 1 << 20,
        max_entries: 0,
        features_optional: 0,
        segment_bytes: 4096,
        shard_count: 1,
        shard_bytes: 2048,
        table_bytes: 0,
        first_segments: 2,
    };
    let layer = Layer { signature: 0, makes: |_| true };
    let (place, waiter) = (Place::Path(path.into()), Arc::new(NativeWaiter));
    Arena::open(&place, Rights::default(), &plan, layer, Clock::System, waiter, &|_| Ok(()))
        .unwrap()
}

/// The descriptors of this process that lead to a file.
fn descriptors(path: &Path) -> Vec<RawFd> {
    let number = |name: std::ffi::OsString| name.to_str().and_then(|name| name.parse().ok());
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    all.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == path))
        .filter_map(|entry| number(entry.file_name()))
        .collect()
}

#[test]
fn whoever_lost_its_descriptors_in_another_pid_namespace_lives() {
    let folder = std::fs::canonicalize(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.join(format!("descriptors-{}.tuck", std::process::id()));
    // The name of a file that was just created is not what its descriptors show.
    drop(open(&path));
    let daemon = open(&path);
    let owner = daemon.owner().unwrap();
    let lost = descriptors(&path);
    assert_eq!(lost.len(), 2, "the file and the token");
    // SAFETY: the numbers are this test's own, and the handle that has them notices that they went.
    lost.iter().for_each(|fd| assert_eq!(unsafe { libc::close(*fd) }, 0));
    let slot_at = daemon.geometry().process_at(owner.slot());
    daemon.region().set(slot_at + process::PID_NAMESPACE, 1);
    let other = open(&path);
    assert_ne!(other.owner().unwrap().slot(), owner.slot(), "its slot was taken from it");
    assert!(!other.is_dead(owner));
    daemon.close();
    assert!(other.is_dead(owner));
    std::fs::remove_file(&path).unwrap();
}
