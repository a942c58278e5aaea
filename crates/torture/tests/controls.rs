//! Negative controls: a cache that lies must be caught. They run one after the other, since each
//! has several busy processes. Controls that need a broken engine are in `controls.sh`; the runs that
//! must succeed are in `reliability/families.toml`.

use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn torture(arguments: &[&str]) -> Output {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|broken| broken.into_inner());
    Command::new(env!("CARGO_BIN_EXE_torture"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the program was built")
}

/// Demands that a run fails by its own judgement, not by a crash, and for the reason `what`.
#[track_caller]
fn assert_caught(arguments: &[&str], what: &str) {
    let output = torture(arguments);
    let out = String::from_utf8_lossy(&output.stdout);
    println!("{}{out}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "torture {arguments:?} did not notice");
    assert!(out.contains(what), "it failed for another reason than {what:?}: {out}");
}

#[test]
fn a_cache_that_always_misses_is_caught() {
    let arguments = ["kill", "--seconds", "2", "--seed", "1", "--lie", "miss"];
    assert_caught(&arguments, "0 of 1000 entries that nobody touched");
}

#[test]
fn a_cache_that_answers_old_values_is_caught() {
    assert_caught(&["kill", "--seconds", "60", "--seed", "1", "--lie", "stale"], "wrong answers");
}

#[test]
fn a_cache_that_answers_other_keys_values_is_caught() {
    assert_caught(
        &["kill", "--seconds", "60", "--seed", "1", "--lie", "other-key"],
        "wrong answers",
    );
}

#[test]
fn a_cache_that_loses_counts_is_caught() {
    assert_caught(&["kill", "--seconds", "3", "--seed", "1", "--lie", "lost-count"], "counter");
}

#[test]
fn a_cut_cache_that_always_misses_is_caught() {
    let arguments = ["cut", "--cases", "8", "--seed", "1", "--always-miss"];
    assert_caught(&arguments, "the victims found almost nothing");
}

#[test]
fn a_resized_cache_that_always_misses_is_caught() {
    assert_caught(&["resize", "--kills", "5", "--seed", "1", "--lie-miss"], "answers were wrong");
}

#[test]
fn a_cache_that_misses_is_caught_by_what_damages_fills_and_floods_it() {
    let few = ["--cases", "500", "--large", "50", "--lie-miss"];
    assert_caught(&[&["damage"], &few[..]].concat(), "entries are gone");
    assert_caught(&["pages", "--images", "30", "--lie-miss"], "untouched entries");
    assert_caught(&["scribble", "--seconds", "2", "--lie-miss"], "reads found anything");
    assert_caught(&["full", "--sets", "10000", "--lie-miss"], "by an exact LRU");
    assert_caught(&["flood", "--lie-miss"], "are found");
}

#[test]
fn keys_that_collide_under_the_file_s_own_key_are_caught() {
    assert_caught(&["flood", "--lie-one-key"], "keys that collide twice in another file");
}
