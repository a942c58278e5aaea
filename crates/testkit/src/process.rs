//! Child processes of a test: started from a program, signalled and reaped by id, and ended when
//! dropped. Must not know what they do.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// A child process. Killed and reaped when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    status: Option<ExitStatus>,
}

impl Worker {
    /// Runs a program. The kernel kills the child if this thread's process ends first.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(command: &mut Command) -> io::Result<Worker> {
        // SAFETY: between fork and exec there is only one system call, which takes no memory.
        unsafe {
            command.pre_exec(|| {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == -1 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        Ok(Worker { child: command.spawn()?, status: None })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, unless it has ended.
    pub fn signal(&mut self, signal: libc::c_int) {
        if self.poll().is_none() {
            // SAFETY: no memory is passed; the child was not reaped, so the id is still its own.
            unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
        }
    }

    /// Kills it as `kill -9` does, and reaps it. False if it had ended by itself.
    pub fn kill(&mut self) -> bool {
        self.signal(libc::SIGKILL);
        let status = match self.status {
            Some(status) => Ok(status),
            None => self.child.wait(),
        };
        if let Ok(status) = status {
            self.status = Some(status);
        }
        self.status.is_some_and(|status| status.signal() == Some(libc::SIGKILL))
    }

    /// Its exit status, if it has ended.
    pub fn poll(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Waits at most `limit` until it has ended.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        while self.poll().is_none() && began.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.status
    }

    /// Waits at most `limit` until a signal has stopped it. Whether it is stopped.
    pub fn wait_stopped(&mut self, limit: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < limit {
            if is_stopped(self.id()) {
                return true;
            }
            if self.poll().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.poll().is_none() {
            self.kill();
        }
    }
}

/// Whether a process is stopped by a signal.
pub fn is_stopped(id: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
}

/// Microseconds of a monotonic clock that all processes of the machine share.
pub fn monotonic_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call, which fills it in.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// The id of this thread.
pub fn thread_id() -> u32 {
    // SAFETY: no memory is passed.
    unsafe { libc::gettid() as u32 }
}

/// How long a thread was ready to run but had no processor: the delay by a busy machine.
#[derive(Debug)]
pub struct ProcessorWait {
    file: Option<File>,
}

impl ProcessorWait {
    /// For a thread of a process, by the ids that this process sees.
    pub fn of(process: u32, thread: u32) -> ProcessorWait {
        ProcessorWait { file: File::open(format!("/proc/{process}/task/{thread}/schedstat")).ok() }
    }

    /// For this thread.
    pub fn mine() -> ProcessorWait {
        ProcessorWait { file: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// Microseconds since the thread began; 0 if the thread has ended or the kernel does not tell.
    pub fn us(&self) -> u64 {
        let mut bytes = [0; 80];
        let len = self.file.as_ref().and_then(|file| file.read_at(&mut bytes, 0).ok()).unwrap_or(0);
        let text = std::str::from_utf8(&bytes[..len]).unwrap_or_default();
        let wait_ns = text.split_whitespace().nth(1).and_then(|field| field.parse::<u64>().ok());
        wait_ns.unwrap_or(0) / 1000
    }
}

/// Sends a signal to this thread: a stop or kill happens before the call returns.
pub fn signal_myself(signal: libc::c_int) {
    // SAFETY: no memory is passed.
    unsafe { libc::raise(signal) };
}

/// What the threads of a process wait for, one line each, for a report about a hang.
pub fn describe_threads(id: u32) -> String {
    let read = |task: &std::path::Path, name: &str| {
        let text = std::fs::read_to_string(task.join(name)).unwrap_or_default();
        text.trim().replace('\n', " | ")
    };
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{id}/task")) else {
        return format!("process {id} is gone");
    };
    tasks
        .flatten()
        .map(|task| {
            let path = task.path();
            format!(
                "thread {}: system call {}; kernel stack {}\n",
                task.file_name().to_string_lossy(),
                read(&path, "syscall"),
                read(&path, "stack"),
            )
        })
        .collect()
}

/// Runs `work` in a forked child, and waits for its end. Whether it returned true there.
pub fn is_true_in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child continues with this thread alone, and work uses nothing of the others.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: the call takes no memory and ends the process at once.
        unsafe { libc::_exit(i32::from(!result.unwrap_or(false))) };
    }
    let mut status = 0;
    // SAFETY: the status outlives the call, which fills it in; the child is ours.
    unsafe { libc::waitpid(child, &mut status, 0) };
    status == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_for_its_processor_and_only_for_that() {
        let wait = ProcessorWait::mine();
        let (began, before_us) = (Instant::now(), wait.us());
        std::thread::sleep(Duration::from_millis(50));
        let slept_us = wait.us() - before_us;
        // Time beyond the sleep may have been a wait.
        let more_us = (began.elapsed().as_micros() as u64).saturating_sub(50_000);
        assert!(slept_us <= more_us + 5_000, "{slept_us} microseconds of a sleep are counted");
        let again_us = ProcessorWait::of(std::process::id(), thread_id()).us();
        assert!(again_us >= before_us + slept_us);
        assert_eq!(ProcessorWait::of(0, 0).us(), 0);
    }

    #[test]
    fn a_child_is_stopped_killed_and_reaped() {
        let mut worker = Worker::start(Command::new("sleep").arg("60")).unwrap();
        assert!(worker.poll().is_none());
        worker.signal(libc::SIGSTOP);
        assert!(worker.wait_stopped(Duration::from_secs(5)));
        assert!(worker.kill() && worker.poll().is_some());
        let mut worker = Worker::start(&mut Command::new("true")).unwrap();
        assert!(worker.wait(Duration::from_secs(5)).unwrap().success());
        assert!(!worker.kill());
    }
}
