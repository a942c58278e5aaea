//! A child under `ptrace`, which runs this same program. It is stepped by instructions, by stores
//! into a mapped file, or by system calls, whose results can be replaced. This module does not know
//! what the child does.
//!
//! The child stops itself (`raise(SIGSTOP)`) at the beginning and at the end of the part to trace.
//! The kernel demands that all calls about a child come from the thread that started it.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The first argument of `ptrace`, which the C libraries type differently.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// The registers of a stopped child.
pub type Registers = libc::user_regs_struct;

/// Why a child stopped, or that it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The child made its step.
    Stepped,
    /// The child begins a system call, or has completed one.
    SystemCall,
    /// A signal arrived, which the child has not seen yet.
    Signal(libc::c_int),
    /// The child exited with this status.
    Exited(libc::c_int),
    /// A signal killed the child.
    Killed(libc::c_int),
}

/// A traced child. It is killed and reaped when dropped.
#[derive(Debug)]
pub struct Traced {
    id: libc::pid_t,
    has_ended: bool,
    /// Address of a `syscall` instruction in the child, known after its first stop.
    call_at: u64,
}

/// Length of the instruction `syscall`.
const CALL_BYTES: u64 = 2;

/// `rep movsb` and `rep stosb`, as the first half of a word of code.
const REP_MOVSB: u64 = 0xa4f3;
const REP_STOSB: u64 = 0xaaf3;
/// The bit in the flags that makes string instructions run backwards.
const DIRECTION_FLAG: u64 = 1 << 10;

fn clear_errno() {
    // SAFETY: the place is this thread's own.
    unsafe { *libc::__errno_location() = 0 };
}

/// A word that `ptrace` read. Every value is valid, so only `errno` shows an error.
fn word_or_error(word: libc::c_long) -> io::Result<u64> {
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(0) | None => Ok(word as u64),
        _ => Err(error),
    }
}

fn remote_range(at: u64, len: usize) -> libc::iovec {
    libc::iovec { iov_base: at as *mut libc::c_void, iov_len: len }
}

fn local_range(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn check_length(done: isize, len: usize) -> io::Result<()> {
    match usize::try_from(done) {
        Ok(done) if done == len => Ok(()),
        Ok(_) => Err(io::Error::other("the child's memory ends within the string")),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

fn answer(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

impl Traced {
    /// Runs a program until it first stops itself.
    ///
    /// # Errors
    /// What the system answers, or that the child ended before it stopped itself.
    pub fn start(command: &mut Command) -> io::Result<Traced> {
        // SAFETY: between fork and exec only one system call is made, which takes no memory.
        unsafe {
            command.pre_exec(|| {
                answer(libc::ptrace(libc::PTRACE_TRACEME, 0, 0usize, 0usize)).map(|_| ())
            });
        }
        let id = command.spawn()?.id() as libc::pid_t;
        let mut child = Traced { id, has_ended: false, call_at: 0 };
        // The stop at the exec.
        child.wait()?;
        let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
        // SAFETY: no memory is passed.
        answer(unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, id, 0usize, options as usize) })?;
        match child.go_on(0)? {
            Stop::Signal(libc::SIGSTOP) => {}
            other => return Err(io::Error::other(format!("it did not start: {other:?}"))),
        }
        // The child stopped as it returned from the system call that sent the signal.
        child.call_at = child.registers()?.rip - CALL_BYTES;
        Ok(child)
    }

    /// The process id of the child.
    pub fn id(&self) -> libc::pid_t {
        self.id
    }

    fn wait(&mut self) -> io::Result<Stop> {
        let mut status = 0;
        loop {
            // SAFETY: the status outlives the call, which fills it in; the child is ours.
            if unsafe { libc::waitpid(self.id, &mut status, libc::__WALL) } == self.id {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        if libc::WIFEXITED(status) {
            self.has_ended = true;
            return Ok(Stop::Exited(libc::WEXITSTATUS(status)));
        }
        if libc::WIFSIGNALED(status) {
            self.has_ended = true;
            return Ok(Stop::Killed(libc::WTERMSIG(status)));
        }
        Ok(match libc::WSTOPSIG(status) {
            libc::SIGTRAP => Stop::Stepped,
            signal if signal == libc::SIGTRAP | 0x80 => Stop::SystemCall,
            signal => Stop::Signal(signal),
        })
    }

    fn resume(&mut self, request: Request, signal: libc::c_int) -> io::Result<Stop> {
        if self.has_ended {
            return Err(io::Error::other("it has ended"));
        }
        // SAFETY: no memory is passed; the child is ours and stopped.
        answer(unsafe { libc::ptrace(request, self.id, 0usize, signal as usize) })?;
        self.wait()
    }

    /// Runs one instruction. A system call is one.
    ///
    /// # Errors
    /// What the system answers.
    pub fn step(&mut self) -> io::Result<Stop> {
        self.resume(libc::PTRACE_SINGLESTEP, 0)
    }

    /// Runs the child until it stops for another reason. Delivers `signal`, unless it is 0.
    ///
    /// # Errors
    /// What the system answers.
    pub fn go_on(&mut self, signal: libc::c_int) -> io::Result<Stop> {
        self.resume(libc::PTRACE_CONT, signal)
    }

    /// Runs the child to the beginning or the end of its next system call. Delivers `signal`,
    /// unless it is 0.
    ///
    /// # Errors
    /// What the system answers.
    pub fn go_to_system_call(&mut self, signal: libc::c_int) -> io::Result<Stop> {
        self.resume(libc::PTRACE_SYSCALL, signal)
    }

    /// The registers of the child.
    ///
    /// # Errors
    /// What the system answers.
    pub fn registers(&self) -> io::Result<Registers> {
        let mut registers = MaybeUninit::<Registers>::zeroed();
        // SAFETY: the structure outlives the call, which fills it in.
        answer(unsafe {
            libc::ptrace(libc::PTRACE_GETREGS, self.id, 0usize, registers.as_mut_ptr())
        })?;
        // SAFETY: filled in by the call, and all-zero bytes were valid before.
        Ok(unsafe { registers.assume_init() })
    }

    /// Sets the registers of the child.
    ///
    /// # Errors
    /// What the system answers.
    pub fn set_registers(&mut self, registers: &Registers) -> io::Result<()> {
        let registers: *const Registers = registers;
        // SAFETY: the structure outlives the call, which reads it.
        answer(unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.id, 0usize, registers) })
            .map(|_| ())
    }

    /// Makes the child do an extra system call, and restores its registers. Returns the result of
    /// the call.
    fn call(&mut self, number: libc::c_long, arguments: [u64; 3]) -> io::Result<i64> {
        let before = self.registers()?;
        let [rdi, rsi, rdx] = arguments;
        let registers =
            Registers { rax: number as u64, rip: self.call_at, rdi, rsi, rdx, ..before };
        self.set_registers(&registers)?;
        let stop = self.step()?;
        if stop != Stop::Stepped {
            return Err(io::Error::other(format!("no system call could be made: {stop:?}")));
        }
        let result = self.registers()?.rax as i64;
        self.set_registers(&before)?;
        Ok(result)
    }

    /// The address at which the child has mapped a file, and the length.
    fn mapping_of(&self, path: &Path) -> io::Result<(u64, u64)> {
        let text = std::fs::read_to_string(format!("/proc/{}/maps", self.id))?;
        let path = path.to_string_lossy();
        let range = text.lines().find(|line| line.ends_with(&*path)).and_then(|line| {
            let (from, to) = line.split_whitespace().next()?.split_once('-')?;
            let parse = |text| u64::from_str_radix(text, 16).ok();
            Some((parse(from)?, parse(to)?))
        });
        let (from, to) = range.ok_or_else(|| io::Error::other("it has not mapped the file"))?;
        Ok((from, to - from))
    }

    fn protect(&mut self, mapping: (u64, u64), flags: libc::c_int) -> io::Result<()> {
        match self.call(libc::SYS_mprotect, [mapping.0, mapping.1, flags as u64])? {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error as i32)),
        }
    }

    /// The address of the next instruction.
    fn at(&self) -> io::Result<u64> {
        let offset = std::mem::offset_of!(Registers, rip);
        clear_errno();
        // SAFETY: no memory is passed.
        let word = unsafe { libc::ptrace(libc::PTRACE_PEEKUSER, self.id, offset, 0usize) };
        word_or_error(word)
    }

    /// Does part of an instruction that copies or fills a string: up to `bytes_max` bytes, and
    /// never the last. A step would do one byte. A processor may be interrupted after any byte,
    /// too. None if the next instruction is another one.
    fn hurry_string(&mut self, at: u64, bytes_max: usize) -> io::Result<Option<()>> {
        clear_errno();
        // SAFETY: no memory is passed.
        let word = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, self.id, at as usize, 0usize) };
        let copies = match word_or_error(word)? & 0xffff {
            REP_MOVSB => true,
            REP_STOSB => false,
            _ => return Ok(None),
        };
        let mut registers = self.registers()?;
        let len = (registers.rcx.saturating_sub(1) as usize).min(bytes_max);
        let overlaps = copies && registers.rdi.abs_diff(registers.rsi) < len as u64;
        let goes_back = registers.eflags & DIRECTION_FLAG != 0;
        if len == 0 || overlaps || goes_back {
            return Ok(None);
        }
        let mut bytes = vec![registers.rax as u8; len];
        if copies {
            let remote = remote_range(registers.rsi, len);
            let local = local_range(&mut bytes);
            // SAFETY: `local` is our own vector; the child's memory is read by the kernel.
            let done = unsafe { libc::process_vm_readv(self.id, &local, 1, &remote, 1, 0) };
            check_length(done, len)?;
            registers.rsi += len as u64;
        }
        let remote = remote_range(registers.rdi, len);
        let local = local_range(&mut bytes);
        // SAFETY: `local` is our own vector; the child, which is stopped, was about to write there.
        let done = unsafe { libc::process_vm_writev(self.id, &local, 1, &remote, 1, 0) };
        check_length(done, len)?;
        registers.rdi += len as u64;
        registers.rcx -= len as u64;
        self.set_registers(&registers)?;
        Ok(Some(()))
    }

    /// Runs the child by single instructions until it stops itself. Calls `changed` with the file's
    /// bytes after each instruction that changed the file, and within a string instruction every
    /// `string_bytes` bytes. Returns the number of instructions.
    ///
    /// # Errors
    /// What the system answers, or any other end of the run.
    pub fn by_instructions(
        &mut self,
        view: &mut View,
        string_bytes: usize,
        changed: &mut dyn FnMut(&[u8]),
    ) -> io::Result<u64> {
        let mut count = 0;
        let mut before = 0;
        loop {
            match self.step()? {
                Stop::Stepped => {}
                Stop::Signal(libc::SIGSTOP) => return Ok(count),
                other => return Err(io::Error::other(format!("unexpected stop: {other:?}"))),
            }
            let at = self.at()?;
            if at == before {
                self.hurry_string(at, string_bytes)?;
            } else {
                count += 1;
            }
            before = at;
            if view.look()? {
                changed(&view.bytes);
            }
        }
    }

    /// As [`Traced::by_instructions`], but runs from one store into the mapping of the file at
    /// `path` to the next. Returns the number of stores.
    ///
    /// # Errors
    /// As [`Traced::by_instructions`].
    pub fn by_stores(
        &mut self,
        path: &Path,
        view: &mut View,
        changed: &mut dyn FnMut(&[u8]),
    ) -> io::Result<u64> {
        let mapping = self.mapping_of(path)?;
        let mut count = 0;
        loop {
            self.protect(mapping, libc::PROT_READ)?;
            match self.go_on(0)? {
                // The store into the protected mapping.
                Stop::Signal(libc::SIGSEGV) => {}
                Stop::Signal(libc::SIGSTOP) => return Ok(count),
                other => return Err(io::Error::other(format!("unexpected stop: {other:?}"))),
            }
            self.protect(mapping, libc::PROT_READ | libc::PROT_WRITE)?;
            let stop = self.step()?;
            if stop != Stop::Stepped {
                return Err(io::Error::other(format!("it did not execute its store: {stop:?}")));
            }
            count += 1;
            if view.look()? {
                changed(&view.bytes);
            }
        }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if !self.has_ended {
            // SAFETY: no memory is passed; the child was not reaped, so the id is still its own.
            unsafe { libc::kill(self.id, libc::SIGKILL) };
            while !self.has_ended && self.wait().is_ok() {}
        }
    }
}

/// A file that a stopped child has mapped, seen from outside: its bytes at the last look.
#[derive(Debug)]
pub struct View {
    file: File,
    base: *mut libc::c_void,
    bytes_max: usize,
    bytes: Vec<u8>,
}

impl View {
    /// The view of a file that never gets longer than `bytes_max`.
    ///
    /// # Errors
    /// What the system answers.
    pub fn new(path: &Path, bytes_max: usize) -> io::Result<View> {
        let file = File::open(path)?;
        // SAFETY: a new mapping at an address of the kernel's choosing; no memory of ours is
        // affected.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes_max,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut view = View { file, base, bytes_max, bytes: Vec::new() };
        view.look()?;
        Ok(view)
    }

    /// The bytes of the file at the last look.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Looks at the file again. Returns whether anything changed.
    ///
    /// # Errors
    /// What the system answers.
    pub fn look(&mut self) -> io::Result<bool> {
        let len = (self.file.metadata()?.len() as usize).min(self.bytes_max);
        let is_same = len == self.bytes.len()
            // SAFETY: the mapping has `len` bytes of file behind it, and its writer is stopped.
            && unsafe { libc::memcmp(self.base, self.bytes.as_ptr().cast(), len) } == 0;
        if !is_same {
            self.bytes.resize(len, 0);
            // SAFETY: as above, and `bytes` is as long and our own.
            unsafe {
                std::ptr::copy_nonoverlapping(self.base.cast(), self.bytes.as_mut_ptr(), len);
            }
        }
        Ok(!is_same)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.base, self.bytes_max) };
    }
}
