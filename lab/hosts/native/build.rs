//! Records the versions of the compiler and of each crate in the lock file, so that a contestant can
//! report the version of its library.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

const LOCK: &str = "../../Cargo.lock";

fn main() {
    println!("cargo::rerun-if-changed={LOCK}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=LAB_RUSTC={}", compiler());
    let folder = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let table = format!("&{:?}", versions());
    fs::write(Path::new(&folder).join("versions.rs"), table).expect("the folder can be written to");
}

/// "1.95.0" from "rustc 1.95.0 (... 2026-04-14)".
fn compiler() -> String {
    let rustc = env::var("RUSTC").expect("cargo names the compiler");
    let output = Command::new(rustc).arg("--version").output().expect("the compiler runs");
    let text = String::from_utf8(output.stdout).expect("the compiler's version is text");
    text.split(' ').nth(1).expect("the compiler's version is its second word").to_owned()
}

/// Name and version of each crate. A crate with two versions has both.
fn versions() -> Vec<(String, String)> {
    let text = fs::read_to_string(LOCK).expect("cargo has written the lock file");
    let lock: toml::Table = text.parse().expect("the lock file is TOML");
    let mut versions = BTreeMap::<String, String>::new();
    for package in lock["package"].as_array().expect("the lock file lists packages") {
        let field = |name: &str| package[name].as_str().expect("it is a text").to_owned();
        versions
            .entry(field("name"))
            .and_modify(|earlier| *earlier = format!("{earlier} and {}", field("version")))
            .or_insert_with(|| field("version"));
    }
    versions.into_iter().collect()
}
