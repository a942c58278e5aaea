//! Unsafe code is in the listed files of the product and in tests that make system calls, and nowhere
//! else. A lint demands the reason of each block (`clippy::undocumented_unsafe_blocks`).

mod sources;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sources::rust_files;

/// Product files that may contain unsafe code, and the most lines of it. A new one must be noticed
/// and counted here.
const PRODUCT: [(&str, usize); 18] = [
    ("arena/src/assembly.rs", 10),
    ("arena/src/platform/linux/clock.rs", 1),
    ("arena/src/platform/linux/faults.rs", 9),
    ("arena/src/platform/linux/files.rs", 14),
    ("arena/src/platform/linux/forks.rs", 2),
    ("arena/src/platform/linux/liveness.rs", 5),
    ("arena/src/platform/linux/space.rs", 15),
    ("arena/src/platform/linux/wait.rs", 2),
    ("arena/src/products.rs", 3),
    ("arena/src/region/latest.rs", 6),
    ("arena/src/region/mod.rs", 12),
    ("arena/src/region/view.rs", 7),
    ("arena/src/sum.rs", 14),
    ("python/src/explain.rs", 7),
    ("python/src/fastcall.rs", 11),
    ("python/src/gil_cell.rs", 2),
    ("python/src/output_buffer.rs", 1),
    ("python/src/text.rs", 3),
];
/// Crates that run only in tests.
const TESTS: [&str; 2] = ["testkit/", "torture/"];

/// Whether a line has the word in code, not in a comment or string.
fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let code = code.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    code.split(|sign: char| !sign.is_alphanumeric() && sign != '_').any(|word| word == "unsafe")
}

/// Number of unsafe lines in each file of a folder.
fn unsafe_lines(crates: &Path) -> BTreeMap<String, usize> {
    let sources = std::fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let files: Vec<_> = sources
        .filter(|sources| sources.is_dir())
        .flat_map(|sources| rust_files(&sources))
        .collect();
    assert!(files.len() > 30, "the sources are elsewhere");
    let count = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().filter(|line| is_unsafe(line)).count()
    };
    let name = |path: &PathBuf| path.strip_prefix(crates).unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (name(path), count(path))).filter(|(_, lines)| *lines > 0).collect()
}

#[test]
fn unsafe_code_is_in_the_listed_files_of_the_product() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let found = unsafe_lines(crates);
    let in_product = found
        .iter()
        .filter(|(name, _)| !TESTS.iter().any(|tests| name.starts_with(tests)))
        .map(|(name, lines)| (name.as_str(), *lines))
        .collect::<Vec<_>>();
    println!("lines with unsafe code: {found:?}");
    assert_eq!(
        in_product.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        PRODUCT.map(|(name, _)| name),
        "unsafe code elsewhere, or none where it was"
    );
    for ((name, lines), (_, most)) in in_product.iter().zip(PRODUCT) {
        assert!(*lines <= most, "{name} has {lines} lines with unsafe code, not {most} at most");
    }
}

#[test]
fn unsafe_code_is_told_from_talk_of_it() {
    for line in ["unsafe {", "    unsafe fn f() {", "let x = unsafe { y }; // a reason"] {
        assert!(is_unsafe(line), "{line}");
    }
    for line in ["// unsafe {", "let x = \"unsafe\";", "#![forbid(unsafe_code)]", "is_unsafe(x)"] {
        assert!(!is_unsafe(line), "{line}");
    }
}
