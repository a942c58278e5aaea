//! The torture in its short forms, and its negative controls: a cache that lies must be caught.
//! They run one after the other, since each fills the machine by itself. Controls that need an
//! engine built wrongly are in `controls.sh`.

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

#[track_caller]
fn assert_good(arguments: &[&str]) {
    let output = torture(arguments);
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{err}{out}");
    assert!(output.status.success(), "torture {arguments:?}: {}", output.status);
    assert!(out.contains("\"good\":true"), "no result: {out}");
}

/// A run that must fail, and say so by its own judgement: not by a crash, and not for any reason.
#[track_caller]
fn assert_caught(arguments: &[&str], what: &str) {
    let output = torture(arguments);
    let out = String::from_utf8_lossy(&output.stdout);
    println!("{}{out}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "torture {arguments:?} did not notice");
    assert!(out.contains(what), "it failed for another reason than {what:?}: {out}");
}

const KILL: [&str; 7] =
    ["kill", "--processes", "4", "--kill-every-ms", "0-5", "--check-every", "100"];

#[test]
fn kills_while_everything_fits() {
    assert_good(&[&KILL[..], &["--seconds", "10"]].concat());
}

#[test]
fn kills_while_entries_are_evicted() {
    assert_good(&[&KILL[..], &["--seconds", "10", "--evict"]].concat());
}

#[test]
fn kills_with_eight_processes_at_leisure() {
    assert_good(&["kill", "--seconds", "6", "--kill-every-ms", "1000"]);
}

#[test]
fn opening_closing_creating_and_full_disks() {
    let arguments = ["--seconds", "4", "--creators", "100", "--killed-creators", "100"];
    assert_good(&[&["reopen"], &arguments[..]].concat());
}

#[test]
#[cfg_attr(not(feature = "points"), ignore = "needs --features points")]
fn stopped_and_killed_at_every_point() {
    assert_good(&["stop"]);
}

#[test]
#[cfg_attr(not(feature = "points"), ignore = "needs --features points")]
fn deaths_at_random_points() {
    let arguments = ["--seconds", "8", "--die-one-in", "3000", "--kill-every-ms", "100"];
    assert_good(&[&["kill", "--processes", "4"], &arguments[..]].concat());
}

#[test]
#[cfg_attr(not(feature = "points"), ignore = "needs --features points")]
fn forks_execs_and_daemons() {
    assert_good(&["fork", "--children", "300"]);
}

#[test]
#[cfg_attr(not(feature = "points"), ignore = "needs --features points")]
fn processes_that_are_all_number_one() {
    assert_good(&["namespaces", "--seconds", "3"]);
}

#[test]
fn damaged_files_lost_pages_and_a_hostile_writer() {
    assert_good(&["damage", "--cases", "20000", "--random", "2000", "--large", "200"]);
    assert_good(&["pages", "--images", "100"]);
    assert_good(&["scribble", "--seconds", "3"]);
}

#[test]
fn a_full_cache_and_keys_that_collide() {
    assert_good(&["full", "--sets", "20000"]);
    assert_good(&["flood"]);
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

#[test]
fn a_cache_that_always_misses_is_caught() {
    let lie = ["--seconds", "2", "--lie", "miss"];
    assert_caught(&[&["kill"], &lie[..]].concat(), "0 of 1000 entries that nobody touched");
}

#[test]
fn a_cache_that_answers_old_values_is_caught() {
    assert_caught(&["kill", "--seconds", "3", "--lie", "stale"], "wrong answers");
}

#[test]
fn a_cache_that_answers_other_keys_values_is_caught() {
    assert_caught(&["kill", "--seconds", "3", "--lie", "other-key"], "wrong answers");
}

#[test]
fn a_cache_that_loses_counts_is_caught() {
    assert_caught(&["kill", "--seconds", "3", "--lie", "lost-count"], "counter");
}
