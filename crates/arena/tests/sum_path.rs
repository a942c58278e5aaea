//! Sums are computed by instructions exactly where they can be. Otherwise the tests of a lane that
//! is for one path could pass on another path.

use tuckbox_arena::sum;

/// What the lane has arranged (`TUCKBOX_AES`), or else what the kernel says of the processor.
fn is_expected() -> bool {
    if cfg!(portable) || cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) {
        return false;
    }
    match std::env::var("TUCKBOX_AES").as_deref() {
        Ok("yes") => true,
        Ok("no") => false,
        Ok(other) => panic!("TUCKBOX_AES is {other}, not yes or no"),
        Err(_) => {
            let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
            let features = |line: &&str| line.starts_with("flags") || line.starts_with("Features");
            let line = text.lines().find(features).expect("the features of the processor");
            line.split_whitespace().any(|word| word == "aes")
        }
    }
}

#[test]
fn sums_take_the_path_that_this_system_has() {
    assert_eq!(sum::has_instructions(), is_expected());
}
