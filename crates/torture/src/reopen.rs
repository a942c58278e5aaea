//! `torture reopen`: processes open, close and crash. Many create the same cache at once, or die
//! while they create it. Disks are full, or file sizes are limited.

use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use tuckbox_testkit::process::Worker;
use tuckbox_testkit::watchdog::Watchdog;

use crate::board::{Flag, RowWord};
use crate::report::Report;
use crate::roles::{Part, Role, NOT_PERMITTED};
use crate::scene::{open_many, Scene};

/// The arguments of `torture reopen`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// How long processes open, close and crash.
    #[arg(long, default_value_t = 30.0)]
    pub seconds: f64,
    /// Processes that create the same cache at once.
    #[arg(long, default_value_t = 200)]
    pub creators: u64,
    /// Processes that are killed while they create a cache.
    #[arg(long, default_value_t = 300)]
    pub killed_creators: u64,
}

const SMALL_BYTES: u64 = 960 << 10;
const SLOTS: usize = 32;

/// Runs `torture reopen`.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::new("reopen");
    let processes = (arguments.creators + arguments.killed_creators) as f64;
    let limit = Duration::from_secs_f64(arguments.seconds + 180.0 + processes / 10.0);
    let _watchdog = Watchdog::new("torture reopen", limit);
    let lives = churn(&mut report, arguments.seconds);
    create_at_once(&mut report, arguments.creators);
    die_creating(&mut report, arguments.killed_creators);
    run_out_of_space(&mut report);
    report.trials(lives + arguments.creators + arguments.killed_creators + 3, "processes");
    report.finish()
}

fn churn(report: &mut Report, seconds: f64) -> u64 {
    const PLACES: usize = 8;
    let scene = Scene::new(SMALL_BYTES, PLACES, 64, true);
    let start = |place: usize| Role::new(Part::Churner, &scene.path).number(place as u64).start();
    let mut workers: Vec<Worker> = (0..PLACES).map(start).collect();
    let mut lives = PLACES as u64;
    let began = Instant::now();
    while began.elapsed().as_secs_f64() < seconds {
        for (place, worker) in workers.iter_mut().enumerate() {
            let Some(status) = worker.poll() else { continue };
            let is_meant = status.success()
                || std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGKILL);
            report.expect(is_meant, || format!("churn: a process ended with {status}"));
            scene.board.account_for_death(place);
            *worker = start(place);
            lives += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    scene.board.stop();
    for (place, worker) in workers.iter_mut().enumerate() {
        let status = worker.wait(Duration::from_secs(10));
        report.expect(status.is_some(), || "churn: a process did not end".into());
        scene.board.account_for_death(place);
    }
    if let Err(error) = open_many(&scene.path, SLOTS - 1) {
        report.fail(format!("churn: process slots are lost: {error}"));
    }
    scene.settle(report, "churn");
    report.figure("churn_processes", lives);
    report.figure("churn_operations", scene.board.sum(RowWord::Operations));
    report.figure("churn_takeovers", scene.cache.stats().takeovers);
    lives
}

/// The files in the folder of a run that are not the supervisor's.
fn others(scene: &Scene) -> Vec<String> {
    let entries = std::fs::read_dir(scene.folder.path()).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| !["cache.tuck", "cache.board", "cache.findings"].contains(&&**name))
        .collect()
}

fn create_at_once(report: &mut Report, count: u64) {
    let scene = Scene::new(SMALL_BYTES, 1, 64, true);
    scene.board.flag(Flag::ProcessId).store(count, SeqCst);
    let mut workers: Vec<Worker> = (0..count)
        .map(|number| Role::new(Part::Creator, &scene.path).number(number).start())
        .collect();
    let arrived = scene.board.wait_for(Flag::Arrived, count, Duration::from_secs(120));
    report.expect(arrived, || "creators: not all processes arrived".into());
    scene.board.flag(Flag::Go).store(1, SeqCst);
    let mut good = 0;
    for (number, worker) in workers.iter_mut().enumerate() {
        let status = worker.wait(Duration::from_secs(60));
        good += u64::from(status.is_some_and(|status| status.success()));
        // A creator that exited has reported its own findings.
        if status.and_then(|status| status.code()).is_none() {
            scene.board.report(&format!("wrong: creator {number} ended with {status:?}"));
        }
    }
    report.expect(good == count, || {
        format!(
            "creators: {good} of {count} created or opened the same cache: {}",
            scene.findings()
        )
    });
    let others = others(&scene);
    report.expect(others == ["cache.made"], || format!("creators: left behind: {others:?}"));
    report.figure("creators_good", good);
}

fn die_creating(report: &mut Report, count: u64) {
    let scene = Scene::new(SMALL_BYTES, 1, 64, true);
    let mut made = 0;
    for number in 0..count {
        let path = scene.folder.file(&format!("made-{}", number / 4));
        let mut maker = Role::new(Part::Maker, &path).start();
        std::thread::sleep(Duration::from_micros(fastrand::u64(0..6000)));
        maker.kill();
        made += u64::from(path.exists());
    }
    let left: Vec<_> =
        others(&scene).into_iter().filter(|name| !name.starts_with("made-")).collect();
    report.expect(left.is_empty(), || format!("killed creators left behind: {left:?}"));
    // Each file that exists is complete.
    for number in 0..count / 4 {
        let path = scene.folder.file(&format!("made-{number}"));
        match crate::worker::open(&path) {
            Ok(cache) => {
                let sound = cache.check().is_ok_and(|found| found.is_sound());
                report.expect(sound, || format!("made-{number} is not sound"));
                let links = std::fs::metadata(&path).map_or(0, |data| data.nlink());
                report.expect(links == 1, || format!("made-{number} has {links} names"));
            }
            Err(error) => report.fail(format!("made-{number}: {error}")),
        }
    }
    report.figure("killed_creators", count);
    report.figure("killed_creators_too_late", made);
}

fn run_out_of_space(report: &mut Report) {
    for (name, part, number) in [
        ("no room to make a cache", Part::FullDisk, 512 << 10),
        ("a disk of 2 MiB", Part::FullDisk, 2 << 20),
        ("a disk of 4 MiB", Part::FullDisk, 4 << 20),
        ("a limit of the size of files", Part::SizeLimit, 0),
    ] {
        let scene = Scene::new(SMALL_BYTES, 1, 64, true);
        let mut worker = Role::new(part, &scene.path).number(number).start();
        let status = worker.wait(Duration::from_secs(60));
        let code = status.and_then(|status| status.code());
        if code == Some(i32::from(NOT_PERMITTED)) && !must_not_skip() {
            eprintln!("SKIPPED: {name}: this machine permits no mount namespace");
            report.figure("skipped", name);
            continue;
        }
        report.expect(code == Some(0), || format!("{name}: it ended with {status:?}"));
    }
}

/// Whether tests that cannot run must fail instead of being skipped, as in CI.
pub fn must_not_skip() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}
