//! Accesses beyond the end of a mapped file: SIGBUS. Must not know what is mapped.
//!
//! The handler uses only atomics and system calls, which are allowed there. A signal that does not
//! concern the caller goes to the action that was installed before.

use std::sync::OnceLock;

use crate::platform::Fault;

type MayGoOn = fn(Fault) -> bool;
static HANDLER: OnceLock<(MayGoOn, libc::sigaction)> = OnceLock::new();

/// Calls `may_go_on` at each SIGBUS. If it returns false, the previous action follows.
pub fn handle(may_go_on: MayGoOn) {
    // SAFETY: all-zero bytes are a valid `sigaction`, which is a plain C structure.
    let (mut before, mut ours): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call, which fills it in.
    unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut before) };
    if HANDLER.set((may_go_on, before)).is_err() {
        return;
    }
    ours.sa_sigaction = on_signal as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the structure outlives the call. The handler only makes system calls and uses
    // atomics, and stays loaded: an extension module is never unloaded.
    unsafe { libc::sigaction(libc::SIGBUS, &ours, std::ptr::null_mut()) };
}

extern "C" fn on_signal(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let Some((may_go_on, before)) = HANDLER.get() else { return };
    // SAFETY: the kernel passes a valid structure, which holds an address if the code is positive.
    let error = unsafe {
        if (*info).si_code > 0 {
            Fault::At((*info).si_addr() as usize)
        } else {
            Fault::Raised
        }
    };
    // SAFETY: the address of this thread's own error number.
    let errno = unsafe { *libc::__errno_location() };
    let goes_on = may_go_on(error);
    // SAFETY: as above. The interrupted code finds its error number unchanged.
    unsafe { *libc::__errno_location() = errno };
    if goes_on {
        return;
    }
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: the structure came from the system. The access is tried again and meets the
            // default action; a signal that was sent is sent again.
            unsafe {
                libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut());
                if matches!(error, Fault::Raised) {
                    libc::raise(signal);
                }
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: its `SA_SIGINFO` flag says that the handler takes these three arguments.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without `SA_SIGINFO` the handler takes the number alone.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
