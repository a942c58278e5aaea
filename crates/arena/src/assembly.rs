//! Copies, sums and compares words and bytes that others may be writing, by the vector registers and
//! the string instruction of x86-64. Assembly, because to the compiler it is no plain read of memory:
//! the proposed byte-wise atomic copy (RFC 3301) allows that.
//!
//! Knows addresses, which [`region`](crate::region) has checked. Must not know what is there.

use crate::sum;

/// Copies words, each word whole.
///
/// # Safety
/// `from` must be readable and `to` writable for `word_count` words, and they must not overlap.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, word_count: usize) {
    // SAFETY: the caller guarantees the ranges; the instructions touch nothing else.
    unsafe {
        std::arch::asm!(
            "mov {rest:e}, {count:e}",
            "shr {count}, 3",
            "jz 3f",
            "2:",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "dec {count}",
            "jnz 2b",
            "3:",
            "test {rest:e}, 7",
            "jz 6f",
            "test {rest:e}, 4",
            "jz 4f",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "add {from}, 32",
            "add {to}, 32",
            "4:",
            "test {rest:e}, 2",
            "jz 5f",
            "movups {a}, [{from}]",
            "movups [{to}], {a}",
            "add {from}, 16",
            "add {to}, 16",
            "5:",
            "test {rest:e}, 1",
            "jz 6f",
            "mov {count}, [{from}]",
            "mov [{to}], {count}",
            "6:",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            count = inout(reg) word_count => _,
            rest = out(reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack)
        );
    }
}

/// As [`copy`], and returns the [`sum`] of the copy. Sums the registers before they are stored, so
/// it need not wait for the stores.
///
/// # Safety
/// As for [`copy`], and the processor must have AES.
#[inline(always)]
pub(crate) unsafe fn copy_summed(from: *const u8, to: *mut u64, word_count: usize) -> u64 {
    let sum: u64;
    // SAFETY: the caller guarantees the ranges and the processor; the instructions touch nothing
    // else but the constants.
    unsafe {
        std::arch::asm!(
            "movdqa {one}, [{begin}]",
            "movdqa {two}, [{begin} + 16]",
            "movdqa {three}, [{begin} + 32]",
            "movdqa {four}, [{begin} + 48]",
            "test {count:e}, 1",
            "jz 2f",
            "movq {a}, [{from} + {count} * 8 - 8]",
            "movq [{to} + {count} * 8 - 8], {a}",
            "pxor {four}, {a}",
            "2:",
            "mov {rest:e}, {count:e}",
            "sub {to}, {from}",
            "shr {count}, 3",
            "jz 4f",
            "3:",
            "movdqu {a}, [{from}]",
            "movdqu {b}, [{from} + 16]",
            "movdqu {c}, [{from} + 32]",
            "movdqu {d}, [{from} + 48]",
            "movdqu [{from} + {to}], {a}",
            "movdqu [{from} + {to} + 16], {b}",
            "movdqu [{from} + {to} + 32], {c}",
            "movdqu [{from} + {to} + 48], {d}",
            "aesenc {one}, {a}",
            "aesenc {two}, {b}",
            "aesenc {three}, {c}",
            "aesenc {four}, {d}",
            "add {from}, 64",
            "dec {count}",
            "jnz 3b",
            "4:",
            "test {rest:e}, 4",
            "jz 5f",
            "movdqu {a}, [{from}]",
            "movdqu {b}, [{from} + 16]",
            "movdqu [{from} + {to}], {a}",
            "movdqu [{from} + {to} + 16], {b}",
            "aesenc {one}, {a}",
            "aesenc {two}, {b}",
            "add {from}, 32",
            "5:",
            "test {rest:e}, 2",
            "jz 6f",
            "movdqu {a}, [{from}]",
            "movdqu [{from} + {to}], {a}",
            "aesenc {three}, {a}",
            "6:",
            "aesenc {one}, {two}",
            "aesenc {one}, {three}",
            "aesenc {one}, {four}",
            // Straight from memory, which must be aligned to 16 bytes.
            "aesenc {one}, [{begin}]",
            "aesenc {one}, [{begin} + 16]",
            "aesenc {one}, [{begin} + 32]",
            "movq {sum}, {one}",
            begin = in(reg) &raw const sum::BEGIN,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            count = inout(reg) word_count => _,
            rest = out(reg) _,
            sum = lateout(reg) sum,
            one = out(xmm_reg) _,
            two = out(xmm_reg) _,
            three = out(xmm_reg) _,
            four = out(xmm_reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack)
        );
    }
    sum
}

/// The least bytes that [`are_equal`] compares.
pub(crate) const EQUAL_FROM: usize = 16;

/// Whether `len_bytes` bytes at two places are the same, at least [`EQUAL_FROM`].
///
/// # Safety
/// `first` and `second` must each be readable for `len_bytes`.
#[inline(always)]
pub(crate) unsafe fn are_equal(first: *const u8, second: *const u8, len_bytes: usize) -> bool {
    let equal: usize;
    // SAFETY: the caller guarantees the ranges; the instructions read nothing else.
    unsafe {
        std::arch::asm!(
            // First the last sixteen bytes, then whole sixteens before them, which may overlap these.
            "movdqu {a}, [{first} + {at} - 16]",
            "movdqu {b}, [{second} + {at} - 16]",
            "pcmpeqb {a}, {b}",
            "dec {at}",
            "and {at}, -16",
            "jz 3f",
            "2:",
            "movdqu {b}, [{first} + {at} - 16]",
            "movdqu {c}, [{second} + {at} - 16]",
            "pcmpeqb {b}, {c}",
            "pand {a}, {b}",
            "sub {at}, 16",
            "jnz 2b",
            "3:",
            "pmovmskb {at:e}, {a}",
            first = in(reg) first,
            second = in(reg) second,
            at = inout(reg) len_bytes => equal,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            options(nostack, readonly)
        );
    }
    equal == 0xffff
}

/// Compares the highest sixteen bits of two times eight words; one result bit for each word.
///
/// # Safety
/// `first` and `second` must each be readable for eight words.
#[inline(always)]
pub(crate) unsafe fn compare(first: *const u8, second: *const u8, top: u16) -> u32 {
    let found: u32;
    // SAFETY: the caller guarantees the ranges; the instructions touch nothing else.
    unsafe {
        std::arch::asm!(
            "movd {top}, {found:e}",
            "pshuflw {top}, {top}, 0",
            "punpcklqdq {top}, {top}",
            "movdqu {a}, [{first}]",
            "movdqu {b}, [{first} + 16]",
            "movdqu {c}, [{first} + 32]",
            "movdqu {d}, [{first} + 48]",
            "movdqu {e}, [{second}]",
            "movdqu {f}, [{second} + 16]",
            "movdqu {g}, [{second} + 32]",
            "movdqu {h}, [{second} + 48]",
            "pcmpeqw {a}, {top}",
            "pcmpeqw {b}, {top}",
            "pcmpeqw {c}, {top}",
            "pcmpeqw {d}, {top}",
            "pcmpeqw {e}, {top}",
            "pcmpeqw {f}, {top}",
            "pcmpeqw {g}, {top}",
            "pcmpeqw {h}, {top}",
            // Equal 16-bit quarters are -1, others 0. Each packing halves the width, and the
            // highest quarter of a word keeps its sign.
            "packsswb {a}, {b}",
            "packsswb {c}, {d}",
            "packsswb {e}, {f}",
            "packsswb {g}, {h}",
            "packsswb {a}, {c}",
            "packsswb {e}, {g}",
            "packsswb {a}, {e}",
            "pmovmskb {found:e}, {a}",
            first = in(reg) first,
            second = in(reg) second,
            found = inout(reg) u32::from(top) => found,
            top = out(xmm_reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            e = out(xmm_reg) _,
            f = out(xmm_reg) _,
            g = out(xmm_reg) _,
            h = out(xmm_reg) _,
            options(nostack, readonly, preserves_flags)
        );
    }
    found
}

/// Copies bytes that others may be writing, in any order.
///
/// # Safety
/// `from` must be readable and `to` writable for `len_bytes` bytes, and they must not overlap.
#[inline]
pub(crate) unsafe fn string_copy(from: *const u8, to: *mut u8, len_bytes: usize) {
    // SAFETY: the caller guarantees the ranges; the instruction touches nothing else.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len_bytes => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}
