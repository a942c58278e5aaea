//! The memory limit of the control groups that this process is in: of its container or service. Must
//! not know what is kept in memory.

use std::path::Path;

/// Where control groups are shown: version 2 directly, version 1 in a folder for each controller.
const SHOWN: &str = "/sys/fs/cgroup";

/// The least memory limit of this process's groups in bytes, swap space aside; none if there is no
/// limit or the system does not show it.
pub fn memory_limit() -> Option<u64> {
    limit_in(Path::new(SHOWN), &std::fs::read_to_string("/proc/self/cgroup").ok()?)
}

fn limit_in(shown: &Path, groups: &str) -> Option<u64> {
    groups.lines().filter_map(|line| limit_of(shown, line)).min()
}

/// The limit by a line of `/proc/self/cgroup`: `number:controllers:path`. Version 2 has no
/// controllers there.
fn limit_of(shown: &Path, line: &str) -> Option<u64> {
    let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
    let (folder, name) = match controllers {
        "" => (shown.to_path_buf(), "memory.max"),
        _ if controllers.split(',').any(|one| one == "memory") => {
            (shown.join("memory"), "memory.limit_in_bytes")
        }
        _ => return None,
    };
    // Each group is limited by those that contain it. A container may show its own group as the
    // outermost, but name it as the host does.
    let groups = Path::new(group.trim_start_matches('/')).ancestors();
    groups.filter_map(|group| number_in(&folder.join(group).join(name))).min()
}

/// None if there is no such file, or its limit is "max".
fn number_in(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as the system shows it, with these files.
    fn limit(name: &str, groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let shown = std::env::temp_dir().join(format!("cgroups-{name}-{}", std::process::id()));
        for (file, content) in files {
            let file = shown.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, content).unwrap();
        }
        let found = limit_in(&shown, groups);
        std::fs::remove_dir_all(shown).unwrap();
        found
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn the_least_limit_of_all_groups_around_a_process_counts() {
        let files = [("a.slice/memory.max", "5000\n"), ("a.slice/b.service/memory.max", "max\n")];
        assert_eq!(limit("nested", "0::/a.slice/b.service\n", &files), Some(5000));
        let files = [("a.slice/memory.max", "5000\n"), ("a.slice/b.service/memory.max", "4000\n")];
        assert_eq!(limit("inner", "0::/a.slice/b.service\n", &files), Some(4000));
        assert_eq!(limit("beside", "0::/c.slice\n", &files), None);
        assert_eq!(limit("unlimited", "0::/\n", &[("cgroup.procs", "")]), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs files")]
    fn a_container_shows_its_group_as_the_outermost() {
        let files = [("memory.max", "5000\n")];
        assert_eq!(limit("own", "0::/\n", &files), Some(5000));
        assert_eq!(limit("host", "0::/docker/0123456789\n", &files), Some(5000));
        let files = [("memory/memory.limit_in_bytes", "6000\n")];
        let groups = "9:name=systemd:/\n4:cpu,memory:/docker/0123456789\n0::/\n";
        assert_eq!(limit("first", groups, &files), Some(6000));
    }
}
