//! Wait and wake: futexes. Must not know what a lock word means.

use std::time::Duration;

use crate::region::Word;

/// The half of a lock word that the kernel checks: a futex has 32 bits.
fn low_half(word: &Word) -> *mut u32 {
    word.as_ptr().cast::<u32>().wrapping_add(usize::from(cfg!(target_endian = "big")))
}

/// Sleeps while `word` holds `value`, at most `limit`. May wake early without a reason.
#[cfg(not(miri))]
pub fn sleep_while(word: &Word, value: u32, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as _,
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    };
    // SAFETY: the word and the time outlive the call.
    unsafe { libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAIT, value, &limit) };
}

/// Always wakes early: Miri would take the kernel's load of half a word for a load of this program,
/// and loads must not be narrower than the others.
#[cfg(miri)]
pub fn sleep_while(_word: &Word, _value: u32, _limit: Duration) {
    std::thread::yield_now();
}

/// Wakes one sleeper.
#[cold]
pub fn wake_one(word: &Word) {
    wake(word, 1);
}

/// Wakes all sleepers.
#[cold]
pub fn wake_all(word: &Word) {
    wake(word, i32::MAX);
}

fn wake(word: &Word, count: i32) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAKE, count) };
}
