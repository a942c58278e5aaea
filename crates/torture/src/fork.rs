//! `torture fork`: processes with threads and held locks fork, call `exec`, and close all their
//! descriptors. Their children must work, and no live process may be taken for dead or the other
//! way round.

use std::process::ExitCode;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tuckbox_testkit::process::Worker;
use tuckbox_testkit::watchdog::Watchdog;

use crate::board::Flag;
use crate::points;
use crate::report::Report;
use crate::roles::{write_held, Part, Role};
use crate::scene::{open_many, Probe, Scene};

/// The arguments of `torture fork`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The number of forked children.
    #[arg(long, default_value_t = 1000)]
    pub children: u64,
    /// The seed of the random choices.
    #[arg(long)]
    pub seed: Option<u64>,
}

/// A cache of this size has 32 process slots.
const SMALL_BYTES: u64 = 960 << 10;
const SLOTS: usize = 32;
/// How long it may take to take over a dead process's lock.
const TAKEOVER: Duration = Duration::from_secs(5);

/// Runs `torture fork`.
pub fn run(arguments: &Arguments) -> ExitCode {
    points::require("torture fork");
    let mut report = Report::new("fork");
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let _watchdog =
        Watchdog::new("torture fork", Duration::from_secs(60 + arguments.children / 10));
    storm(&mut report, arguments.children, seed);
    for touches in [0, 1] {
        parent_dies(&mut report, touches);
    }
    becomes_another(&mut report);
    becomes_itself(&mut report);
    closes_descriptors(&mut report);
    report.figure("seed", seed);
    report.trials(arguments.children + 5, "forks and the like");
    report.finish()
}

fn storm(report: &mut Report, children: u64, seed: u64) {
    let scene = Scene::new(SMALL_BYTES, 11, 64, true);
    let mut role = Role::new(Part::ForkParent, &scene.path).number(children);
    role.seed = seed;
    let mut parent = role.start();
    let status = parent.wait(Duration::from_secs(30 + children / 10));
    report.expect(status.is_some_and(|status| status.success()), || {
        format!("storm: the forking process ended with {status:?}: {}", scene.findings())
    });
    parent.kill();
    slots_are_free(report, "storm", &scene);
    scene.settle(report, "storm");
    report.figure("operations", scene.board.sum(crate::board::RowWord::Operations));
    report.figure("takeovers", scene.cache.stats().takeovers);
}

/// Demands that all slots except the supervisor's can be taken.
fn slots_are_free(report: &mut Report, trial: &str, scene: &Scene) {
    if let Err(error) = open_many(&scene.path, SLOTS - 1) {
        report.fail(format!("{trial}: process slots are lost: {error}"));
    }
}

/// Starts a holder and waits until it holds the lock.
fn start_holder(report: &mut Report, trial: &str, role: &Role, scene: &Scene) -> Worker {
    let holder = role.start();
    let held = scene.board.wait_for(Flag::Holding, 1, Duration::from_secs(10));
    report.expect(held, || format!("{trial}: the holder never held the lock"));
    let (stored, _) = write_held(scene, Duration::from_millis(100));
    report.expect(stored == Probe::TimedOut, || {
        format!("{trial}: a write under a held lock: {stored:?}")
    });
    holder
}

fn is_taken_over(report: &mut Report, trial: &str, scene: &Scene) {
    let (stored, took) = write_held(scene, TAKEOVER);
    report.expect(stored == Probe::Done, || {
        format!("{trial}: the dead process's lock was not taken over: {stored:?} after {took:?}")
    });
}

/// The parent dies with a lock while a child of it lives.
fn parent_dies(report: &mut Report, touches: u64) {
    let trial = format!("parent dies, child {}", if touches == 1 { "at work" } else { "idle" });
    let scene = Scene::new(SMALL_BYTES, 1, 64, true);
    let role = Role::new(Part::ForkHolder, &scene.path).number(touches).held_at("RewriteHalf");
    let mut holder = start_holder(report, &trial, &role, &scene);
    holder.kill();
    is_taken_over(report, &trial, &scene);
    let child = scene.board.flag(Flag::ProcessId).load(SeqCst);
    let lives = std::path::Path::new(&format!("/proc/{child}")).exists();
    report.expect(lives, || format!("{trial}: the child did not outlive its parent"));
    scene.board.stop();
    scene.settle(report, &trial);
}

/// A process calls `exec` while one of its threads holds a lock.
fn becomes_another(report: &mut Report) {
    let trial = "exec with a lock";
    let scene = Scene::new(SMALL_BYTES, 1, 64, true);
    let role = Role::new(Part::ExecHolder, &scene.path).held_at("RewriteHalf");
    let mut holder = role.start();
    let held = scene.board.wait_for(Flag::Holding, 1, Duration::from_secs(10));
    report.expect(held, || format!("{trial}: the holder never held the lock"));
    // Waits until the holder is the sleeper.
    for _ in 0..1000 {
        let line = std::fs::read(format!("/proc/{}/cmdline", holder.id())).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains("sleeper") {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    is_taken_over(report, trial, &scene);
    report.expect(holder.poll().is_none(), || format!("{trial}: the new program ended early"));
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", holder.id()));
    let inherited =
        descriptors.into_iter().flatten().flatten().filter(|entry| {
            std::fs::read_link(entry.path()).is_ok_and(|target| target == scene.path)
        });
    let inherited = inherited.count();
    report.expect(inherited == 0, || format!("{trial}: {inherited} descriptors were inherited"));
    slots_are_free(report, trial, &scene);
    holder.kill();
    scene.settle(report, trial);
}

/// A server that restarts itself by `exec` more often than there are slots.
fn becomes_itself(report: &mut Report) {
    let trial = "a chain of execs";
    let scene = Scene::new(SMALL_BYTES, 1, 64, true);
    let mut chain = Role::new(Part::ExecChain, &scene.path).number(SLOTS as u64 * 2).start();
    let status = chain.wait(Duration::from_secs(60));
    report.expect(status.is_some_and(|status| status.success()), || {
        format!("{trial}: it ended with {status:?}")
    });
    slots_are_free(report, trial, &scene);
    scene.settle(report, trial);
}

/// A daemon closes all its descriptors, including the cache's, and lives on.
fn closes_descriptors(report: &mut Report) {
    let trial = "a daemon without descriptors";
    let scene = Scene::new(SMALL_BYTES, 1, 64, true);
    let role = Role::new(Part::Daemon, &scene.path).held_at("RewriteHalf");
    let mut daemon = start_holder(report, trial, &role, &scene);
    let (stored, _) = write_held(&scene, Duration::from_millis(700));
    report.expect(stored == Probe::TimedOut, || {
        format!("{trial}: its lock was taken while it was alive: {stored:?}")
    });
    let takeovers = scene.cache.stats().takeovers;
    report.expect(takeovers == 0, || format!("{trial}: {takeovers} locks were taken over"));
    scene.board.stop();
    scene.board.flag(Flag::Release).store(1, SeqCst);
    let status = daemon.wait(Duration::from_secs(20));
    if !status.is_some_and(|status| status.success()) {
        report.fail(format!("{trial}: it ended with {status:?}: {}", scene.findings()));
    }
    slots_are_free(report, trial, &scene);
    scene.settle(report, trial);
}
