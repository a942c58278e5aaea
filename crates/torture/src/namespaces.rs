//! `torture namespaces`: workers share a cache, and each is process 1 of its own PID namespace,
//! like the main process of a container. Process ids identify nobody there, and the cache must not
//! rely on them.

use std::process::ExitCode;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use tuckbox_testkit::process::Worker;
use tuckbox_testkit::watchdog::Watchdog;

use crate::actor::{Kind, HANG_US};
use crate::board::{Flag, RowWord};
use crate::points;
use crate::reopen::must_not_skip;
use crate::report::Report;
use crate::roles::{Part, Role, NOT_PERMITTED};
use crate::scene::{probe, Probe, Scene};

/// The arguments of `torture namespaces`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Workers that are killed: half of them with the `/proc` of their own namespace, half with the
    /// `/proc` of the machine.
    #[arg(long, default_value_t = 100)]
    pub kills: u64,
}

const PLACES: usize = 3;

/// How long a busy machine may take to start or end a process. Whatever takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `torture namespaces`.
pub fn run(arguments: &Arguments) -> ExitCode {
    points::require("torture namespaces");
    let mut report = Report::new("namespaces");
    let limit = Duration::from_secs(90 + arguments.kills);
    let _watchdog = Watchdog::new("torture namespaces", limit);
    if !is_permitted() {
        if must_not_skip() {
            report.fail("this machine permits no PID namespaces, and CI is true");
        } else {
            eprintln!("SKIPPED: torture namespaces: this machine permits no PID namespaces");
            report.figure("skipped", "all");
        }
        return report.finish();
    }
    let mut kills = 0;
    for own_proc in [true, false] {
        die_with_a_lock(&mut report, own_proc);
        kills += 1 + kill_at_random(&mut report, own_proc, arguments.kills.div_ceil(2));
    }
    report.trials(kills, "kills");
    report.finish()
}

fn is_permitted() -> bool {
    let scene = Scene::new(960 << 10, 1, 64, true);
    scene.board.stop();
    let mut host = start(&scene, 0, true, 1, None);
    let code = host.wait(PATIENCE).and_then(|status| status.code());
    code != Some(i32::from(NOT_PERMITTED))
}

/// Starts a process that gives its only child its own PID namespace.
fn start(scene: &Scene, row: usize, own_proc: bool, incarnation: u64, at: Option<&str>) -> Worker {
    let number = incarnation << 16 | (row as u64) << 1 | u64::from(own_proc);
    let mut role = Role::new(Part::NamespaceHost, &scene.path).number(number);
    if let Some(point) = at {
        role = role.held_at(point);
    }
    role.start()
}

/// The id, in this namespace, of the process that is number 1 in the child namespace.
fn inside(host: &mut Worker) -> Option<u32> {
    let path = format!("/proc/{0}/task/{0}/children", host.id());
    for _ in 0..PATIENCE.as_millis() {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if let Some(id) = text.split_whitespace().next().and_then(|id| id.parse().ok()) {
            return Some(id);
        }
        if host.poll().is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

/// Kills the worker, and waits until its host has seen it die.
fn kill(host: &mut Worker) -> bool {
    let Some(id) = inside(host) else { return false };
    // SAFETY: no memory is passed; the id is that of a child of our child, which has not reaped it.
    unsafe { libc::kill(id as libc::pid_t, libc::SIGKILL) };
    let ended = host.wait(PATIENCE).is_some();
    host.kill();
    ended
}

fn is_number_one(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("NSpid:"));
    line.is_some_and(|line| line.split_whitespace().last() == Some("1"))
}

/// One worker dies with a lock. The other worker, which has the same process id, goes on.
fn die_with_a_lock(report: &mut Report, own_proc: bool) {
    let trial = format!("a death with a lock, own /proc {own_proc}");
    let scene = Scene::new(33 << 20, 2, 512, true);
    let mut other = start(&scene, 1, own_proc, 1, None);
    let mut holder = start(&scene, 0, own_proc, 1, Some("RewriteHalf"));
    let held = scene.board.wait_for(Flag::Holding, 1, PATIENCE);
    report.expect(held, || format!("{trial}: the holder never held the lock"));
    std::thread::sleep(Duration::from_millis(300));
    for (name, host) in [("holder", &mut holder), ("other", &mut other)] {
        let is_one = inside(host).is_some_and(is_number_one);
        report.expect(is_one, || format!("{trial}: the {name} is not process 1"));
    }
    let stolen = scene.cache.stats().takeovers;
    report.expect(stolen == 0, || format!("{trial}: {stolen} locks of a live process were taken"));
    report.expect(kill(&mut holder), || format!("{trial}: the holder did not die"));
    scene.board.account_for_death(0);
    for index in 0..40 {
        let (stored, took) = probe(&scene.cache, format!("probe/{index}").as_bytes(), 100);
        if stored != Probe::Done {
            report.fail(format!("{trial}: {stored:?} after {took:?}"));
            break;
        }
    }
    let takeovers = scene.cache.stats().takeovers;
    report.expect(takeovers == 1, || format!("{trial}: {takeovers} takeovers instead of one"));
    let before = scene.board.row(1, RowWord::Operations).load(SeqCst);
    let began = Instant::now();
    let continues = || scene.board.row(1, RowWord::Operations).load(SeqCst) > before;
    while !continues() && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    report.expect(continues(), || format!("{trial}: the other process does not continue"));
    end(report, &trial, &scene, &mut [other]);
}

fn end(report: &mut Report, trial: &str, scene: &Scene, hosts: &mut [Worker]) {
    scene.board.stop();
    for host in hosts {
        let status = host.wait(PATIENCE);
        report.expect(status.is_some_and(|status| status.success()), || {
            format!("{trial}: a worker ended with {status:?}")
        });
    }
    (0..scene.board.shape().rows).for_each(|row| scene.board.account_for_death(row));
    let timeouts = scene.board.sum(RowWord::LockTimeouts);
    report.expect(timeouts == 0, || format!("{trial}: {timeouts} lock timeouts"));
    scene.settle(report, trial);
}

fn kill_at_random(report: &mut Report, own_proc: bool, kills_wanted: u64) -> u64 {
    let trial = format!("random kills, own /proc {own_proc}");
    let scene = Scene::new(33 << 20, PLACES, 512, true);
    let mut hosts: Vec<Worker> =
        (0..PLACES).map(|place| start(&scene, place, own_proc, 1, None)).collect();
    let mut kills = 0;
    while kills < kills_wanted && report.is_good() {
        std::thread::sleep(Duration::from_millis(fastrand::u64(10..60)));
        let place = fastrand::usize(..PLACES);
        report.expect(kill(&mut hosts[place]), || format!("{trial}: a worker did not die"));
        scene.board.account_for_death(place);
        kills += 1;
        hosts[place] = start(&scene, place, own_proc, kills + 1, None);
        for (row, took_us) in scene.board.overdue(HANG_US) {
            let operation = scene.board.row(row, RowWord::Operation).load(SeqCst);
            let name = Kind::name(operation);
            report.fail(format!("{trial}: hang: {name} for {took_us} microseconds"));
        }
    }
    end(report, &trial, &scene, &mut hosts);
    let form = if own_proc { "own_proc" } else { "other_proc" };
    report.figure(&format!("kills_{form}"), kills);
    report.figure(&format!("takeovers_{form}"), scene.cache.stats().takeovers);
    report.figure(&format!("operations_{form}"), scene.board.sum(RowWord::Operations));
    kills
}
