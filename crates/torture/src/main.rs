//! Torture: kills, stops, forks and starves processes that share a cache. Every answer that the
//! other processes get is checked against what was stored.
//!
//! Each subcommand is a supervisor that runs this program again for its workers. It prints a
//! summary to standard error and one line of JSON to standard output. Its exit status is 1 if
//! anything was wrong.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod actor;
mod allocations;
mod board;
mod creation;
mod cut;
mod damage;
mod flood;
mod fork;
mod full;
mod images;
mod kill;
mod matrix;
mod memory;
mod namespaces;
mod pages;
mod place;
mod points;
mod reopen;
mod report;
mod resize;
mod roles;
mod scene;
mod scribble;
mod step;
mod stop;
mod syscalls;
mod tracer;
mod worker;

#[derive(Parser)]
#[command(about = "Kills, stops, forks and starves processes that share a cache")]
struct Program {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Kills workers while they work.
    Kill(kill::Arguments),
    /// Stops or kills a worker between two named steps.
    Stop(stop::Arguments),
    /// Cuts, punches, replaces and removes a file in use.
    Cut(cut::Arguments),
    /// Forks, calls `exec`, closes descriptors.
    Fork(fork::Arguments),
    /// Opens, closes, crashes, creates caches, and runs out of space.
    Reopen(reopen::Arguments),
    /// Kills workers that are all process 1 of their PID namespaces.
    Namespaces(namespaces::Arguments),
    /// Kills, stops and panics every operation at every named point.
    Matrix(matrix::Arguments),
    /// A child that is interrupted at a named point.
    #[command(hide = true)]
    Hit(matrix::Child),
    /// Damages the file of a closed cache, byte by byte or at random, and uses it.
    Damage(damage::Arguments),
    /// Loses pages of a file, as a power cut does.
    Pages(pages::Arguments),
    /// Writes random words into the mapping while processes use it.
    Scribble(scribble::Arguments),
    /// Keeps a cache full with values of all sizes.
    Full(full::Arguments),
    /// Stores keys that collide.
    Flood(flood::Arguments),
    /// Judges the file that a death after each instruction of an operation leaves.
    Step(step::Arguments),
    /// Kills the repair after a death, after each of its stores.
    Repair(step::Arguments),
    /// Resizes the file while others use it, and is killed.
    Resize(resize::Arguments),
    /// A child of `resize`.
    #[command(hide = true)]
    Resizing(resize::Child),
    /// Makes system calls fail, one after the other.
    Calls(syscalls::Arguments),
    /// A child whose system calls fail.
    #[command(hide = true)]
    Refused(syscalls::Child),
    /// Makes the n-th allocation of every operation fail, for every n.
    Allocations(allocations::Arguments),
    /// A child that is stepped instruction by instruction.
    #[command(hide = true)]
    Stepped(step::Child),
    /// A child of the supervisors.
    #[command(hide = true)]
    Role(roles::Role),
    /// A worker of the supervisors.
    #[command(hide = true)]
    Worker(worker::Orders),
}

fn main() -> ExitCode {
    match Program::parse().command {
        Task::Kill(arguments) => kill::run(&arguments),
        Task::Stop(arguments) => stop::run(&arguments),
        Task::Cut(arguments) => cut::run(&arguments),
        Task::Fork(arguments) => fork::run(&arguments),
        Task::Reopen(arguments) => reopen::run(&arguments),
        Task::Namespaces(arguments) => namespaces::run(&arguments),
        Task::Matrix(arguments) => matrix::run(&arguments),
        Task::Hit(child) => matrix::be_hit(&child),
        Task::Damage(arguments) => damage::run(&arguments),
        Task::Pages(arguments) => pages::run(&arguments),
        Task::Scribble(arguments) => scribble::run(&arguments),
        Task::Full(arguments) => full::run(&arguments),
        Task::Flood(arguments) => flood::run(&arguments),
        Task::Step(arguments) => step::run(&arguments),
        Task::Repair(arguments) => step::repair(&arguments),
        Task::Resize(arguments) => resize::run(&arguments),
        Task::Resizing(child) => resize::play(&child),
        Task::Calls(arguments) => syscalls::run(&arguments),
        Task::Refused(child) => syscalls::be_refused(&child),
        Task::Allocations(arguments) => allocations::run(&arguments),
        Task::Stepped(child) => step::be_stepped(&child),
        Task::Role(role) => roles::play(&role),
        Task::Worker(orders) => worker::run(&orders),
    }
}
