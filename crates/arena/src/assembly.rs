//! Copying, summing up and comparing words that others may be writing, by the registers and the string
//! instruction of x86-64. The semantics proposed for a byte-wise atomic copy (RFC 3301) allow it to be
//! written as assembly: to the compiler it is not a read of plain memory.
//!
//! Knows addresses, which [`region`](crate::region) has checked, and nothing of what lies there.

/// Copies words, each whole.
///
/// # Safety
/// `from` must be readable and `to` writable for `word_count` words, and they must not overlap.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, word_count: usize) {
    // SAFETY: the caller vouches for the ranges; the instructions touch nothing else.
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

/// Copies and sums up the words at two distances, in bytes.
macro_rules! two_words {
    ($first:literal, $second:literal) => {
        concat!(
            "mov {a}, [{from} + ",
            $first,
            "]\n",
            "mov {b}, [{from} + ",
            $second,
            "]\n",
            "mov [{to} + ",
            $first,
            "], {a}\n",
            "mov [{to} + ",
            $second,
            "], {b}\n",
            "crc32 {even}, {a}\n",
            "crc32 {odd}, {b}",
        )
    };
}

/// As [`copy`], and sums up the words of the copy: the first by `even`, the next by `odd`, and so in
/// turns. Each word goes through a general register, from which it is both stored and summed up: a sum
/// that loaded what a vector register has just stored would wait for it.
///
/// # Safety
/// As of [`copy`], and the processor must have SSE 4.2.
#[inline(always)]
pub(crate) unsafe fn copy_summed(
    from: *const u8,
    to: *mut u64,
    word_count: usize,
    mut even: u64,
    mut odd: u64,
) -> (u64, u64) {
    // SAFETY: the caller vouches for the ranges and the processor; the instructions touch nothing
    // else. Sums are made of the words that were stored.
    unsafe {
        std::arch::asm!(
            "sub {count}, 8",
            "jc 3f",
            "2:",
            two_words!("0", "8"),
            two_words!("16", "24"),
            two_words!("32", "40"),
            two_words!("48", "56"),
            "add {from}, 64",
            "add {to}, 64",
            "sub {count}, 8",
            "jnc 2b",
            "3:",
            "add {count}, 6",
            "jnc 5f",
            "4:",
            two_words!("0", "8"),
            "add {from}, 16",
            "add {to}, 16",
            "sub {count}, 2",
            "jnc 4b",
            "5:",
            "test {count:e}, 1",
            "jz 6f",
            "mov {a}, [{from}]",
            "mov [{to}], {a}",
            "crc32 {even}, {a}",
            "6:",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            count = inout(reg) word_count => _,
            a = out(reg) _,
            b = out(reg) _,
            even = inout(reg) even,
            odd = inout(reg) odd,
            options(nostack)
        );
    }
    (even, odd)
}

/// A CRC-32C and a word more.
///
/// # Safety
/// The processor must have SSE 4.2.
#[inline(always)]
pub(crate) unsafe fn summed(mut sum: u64, word: u64) -> u64 {
    // SAFETY: the caller vouches for the processor; the instruction touches registers alone.
    unsafe {
        std::arch::asm!(
            "crc32 {sum}, {word}",
            sum = inout(reg) sum,
            word = in(reg) word,
            options(nomem, nostack, preserves_flags, pure)
        );
    }
    sum
}

/// Compares the highest sixteen bits of two times eight words.
///
/// # Safety
/// `first` and `second` must each be readable for eight words.
#[inline(always)]
pub(crate) unsafe fn compare(first: *const u8, second: *const u8, top: u16) -> u32 {
    let found: u32;
    // SAFETY: the caller vouches for the ranges; the instructions touch nothing else.
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
            // Quarters of words that are the same are -1, others 0. Each packing halves the width of
            // all, and the highest part of a word keeps its sign.
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

/// Copies bytes that others may be writing, in an order of the processor's choosing.
///
/// # Safety
/// `from` must be readable and `to` writable for `len_bytes` bytes, and they must not overlap.
#[inline]
pub(crate) unsafe fn string_copy(from: *const u8, to: *mut u8, len_bytes: usize) {
    // SAFETY: the caller vouches for the ranges; the instruction touches nothing else.
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
