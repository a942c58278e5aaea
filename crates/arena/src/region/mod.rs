//! Every raw access to shared memory. Must not know what the words mean.
//!
//! Other processes write these bytes at any moment. The race: a plain read that runs during a write
//! is undefined behaviour, even if its result is thrown away. So no reference into the memory
//! leaves this module. Words go in and out by value, payloads by copies made of relaxed 64-bit
//! words, and the protocols order them with fences. All accesses are of whole words, except the
//! kernel's look at half of a lock word, and comparisons of bytes.
//!
//! Every access is checked against the length that is held privately here, never against one in the
//! file.

mod latest;
mod view;

#[cfg(not(loom))]
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

#[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
use crate::assembly;
use crate::fault::Mapping;
use crate::platform::space;
use crate::sum;

#[cfg(loom)]
pub use crate::modelled::fence;
#[cfg(loom)]
pub(crate) use crate::modelled::Word;
#[cfg(not(loom))]
pub use std::sync::atomic::fence;

pub use self::latest::Latest;
use self::view::{copy_out, holds, nth, Words};
pub use self::view::{LinePair, SegmentSlice, Table, View};

/// A word of shared memory; under loom a modelled one.
#[cfg(not(loom))]
pub(crate) type Word = AtomicU64;

/// Bytes of a word.
pub const WORD: u64 = 8;

/// Copies of at least this many bytes use the processor's string instruction; shorter ones, and
/// those that are summed, use vector registers (see `assembly.rs`). Other processors, builds with
/// `--cfg portable` (the thread sanitizer's is one), Miri and loom use a loop of relaxed words.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
const STRING_COPY_FROM: usize = 2048;

/// A cache line.
const LINE_BYTES: u64 = 64;
/// Words of a cache line.
const LINE_WORDS: usize = 8;

enum Backing {
    /// A shared mapping of a file. If the file turns out to be shorter, it becomes zeros: see
    /// `fault`. The second value ends it with its last region.
    Mapping(&'static Mapping, Arc<Mapped>),
    /// The in-process twin, for tests and tools.
    Heap(Arc<[Word]>),
}

/// A mapping, which ends when this is dropped.
struct Mapped {
    mapping: &'static Mapping,
    base: usize,
    len_bytes: usize,
    /// Whether the file was given back: see [`Region::let_go`].
    is_let_go: AtomicBool,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // First: as soon as the address is free, it may become another mapping's.
        self.mapping.end(self.base);
        space::unmap(self.base as *mut u8, self.len_bytes);
    }
}

/// Memory that others write to.
pub struct Region {
    base: *mut u8,
    reserved_bytes: u64,
    usable_words: AtomicU64,
    /// The number of words at which a whole line can begin: `usable_words` less seven.
    usable_lines: AtomicU64,
    pool: Pool,
    segment_bytes: u64,
    /// The bits of an offset within a segment that select the line.
    line_mask: u64,
    /// As `line_mask`, for words.
    word_mask: u64,
    /// How many segments of the pool are usable.
    usable_segments: AtomicU32,
    backing: Backing,
    /// Whether asking for huge pages is of no use.
    is_without_huge_pages: AtomicBool,
}

/// The part of a region that consists of segments of equal length.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pool {
    /// Where it begins, a multiple of a line.
    pub at: u64,
    /// Where a table with a word for each segment begins. It ends before the pool.
    pub words_at: u64,
    /// Length of a segment as a power of two, at least a line.
    pub segment_shift: u32,
    /// Number of segments when the whole region is usable.
    pub segment_count: u32,
}

impl Pool {
    /// Number of whole segments within this many usable bytes.
    fn segments_in(&self, usable_bytes: u64) -> u32 {
        let segments = usable_bytes.saturating_sub(self.at) >> self.segment_shift;
        segments.min(u64::from(self.segment_count)) as u32
    }
}

// SAFETY: all access goes through atomic words or copies of atomic words; `base` never changes.
unsafe impl Send for Region {}
// SAFETY: as above; no method hands out a reference into the memory.
unsafe impl Sync for Region {}

impl Region {
    /// Zeroed private memory of `len_bytes`, rounded up to whole words.
    pub fn heap(len_bytes: u64) -> Region {
        let words = len_bytes.div_ceil(WORD) as usize;
        #[cfg(not(loom))]
        let memory: Arc<[Word]> = (0..words).map(|_| Word::new(0)).collect();
        #[cfg(loom)]
        let memory: Arc<[Word]> = (0..words).map(Word::new).collect();
        let len_bytes = words as u64 * WORD;
        let region = Region::on(memory.as_ptr() as *mut u8, len_bytes, Backing::Heap(memory));
        region.set_usable(len_bytes);
        region
    }

    /// Memory that begins at `base`, with no usable part and no pool yet.
    fn on(base: *mut u8, reserved_bytes: u64, backing: Backing) -> Region {
        Region {
            base,
            reserved_bytes,
            usable_words: AtomicU64::new(0),
            usable_lines: AtomicU64::new(0),
            pool: Pool::default(),
            segment_bytes: 0,
            line_mask: 0,
            word_mask: 0,
            usable_segments: AtomicU32::new(0),
            backing,
            is_without_huge_pages: AtomicBool::new(false),
        }
    }

    /// Another region over the same memory, with no usable part and no pool yet.
    pub(crate) fn share(&self) -> Region {
        let backing = match &self.backing {
            Backing::Mapping(mapping, mapped) => Backing::Mapping(mapping, Arc::clone(mapped)),
            Backing::Heap(memory) => Backing::Heap(Arc::clone(memory)),
        };
        Region::on(self.base, self.reserved_bytes, backing)
    }

    /// Maps `reserved_bytes` of `fd`, shared; none are usable until [`Region::set_usable`]. A write
    /// to a mapping that is not `writable` ends the process.
    ///
    /// # Errors
    /// The system's error, also if this process has too many mappings.
    pub(crate) fn map(fd: i32, reserved_bytes: u64, writable: bool) -> std::io::Result<Region> {
        let mapping = Mapping::reserve(fd).ok_or_else(space::no_memory)?;
        let base = space::map_shared(fd, reserved_bytes as usize, writable)
            .inspect_err(|_| mapping.end(0))?;
        let len_bytes = reserved_bytes as usize;
        mapping.begin(base, len_bytes);
        let (base_at, is_let_go) = (base.expose_provenance(), AtomicBool::new(false));
        let mapped = Arc::new(Mapped { mapping, base: base_at, len_bytes, is_let_go });
        Ok(Region::on(base, reserved_bytes, Backing::Mapping(mapping, mapped)))
    }

    /// Whether an access met the end of the file. From then on reads return zeros and writes are
    /// lost.
    #[inline]
    pub fn is_lost(&self) -> bool {
        match &self.backing {
            Backing::Mapping(mapping, _) => mapping.is_lost(),
            Backing::Heap(_) => false,
        }
    }

    /// Whether the file is shorter now than a region over this mapping has seen it.
    pub(crate) fn is_truncated(&self) -> bool {
        match &self.backing {
            Backing::Mapping(mapping, mapped) => {
                mapped.is_let_go.load(Ordering::Acquire) || mapping.is_truncated()
            }
            Backing::Heap(_) => false,
        }
    }

    /// Gives back the file's memory, when no handle uses it any more. Reads return zeros and writes
    /// are lost. Only the addresses stay taken until the last region is dropped, because threads
    /// may be reading. [`Region::is_lost`] is of no meaning from then on.
    pub(crate) fn let_go(&self) {
        let Backing::Mapping(mapping, mapped) = &self.backing else { return };
        if !mapped.is_let_go.swap(true, Ordering::AcqRel) && !mapping.let_go() {
            mapped.is_let_go.store(false, Ordering::Release);
        }
    }

    /// How many bytes may be accessed now.
    #[inline]
    pub fn usable_bytes(&self) -> u64 {
        self.usable_words.load(Ordering::Relaxed) * WORD
    }

    /// States that the file has at least `bytes` bytes. The usable part never shrinks.
    pub(crate) fn set_usable(&self, bytes: u64) {
        let bytes = bytes.min(self.reserved_bytes);
        self.usable_words.fetch_max(bytes / WORD, Ordering::Relaxed);
        self.usable_lines.fetch_max(lines_in(bytes / WORD), Ordering::Relaxed);
        match &self.backing {
            Backing::Mapping(mapping, mapped) if !mapped.is_let_go.load(Ordering::Acquire) => {
                mapping.set_usable(bytes);
            }
            _ => {}
        }
        // Last: a thread that sees a segment may access it.
        self.usable_segments.fetch_max(self.pool.segments_in(bytes), Ordering::Release);
    }

    /// Asks the kernel for a huge page for each 2 MiB that became complete when the usable part grew
    /// from `before_bytes`. A hint.
    pub(crate) fn use_huge_pages(&self, before_bytes: u64) {
        const HUGE: u64 = space::HUGE_BYTES as u64;
        let [from, to] = [before_bytes, self.usable_bytes()].map(|bytes| bytes / HUGE * HUGE);
        let is_mapped = matches!(self.backing, Backing::Mapping(..));
        if from == to || !is_mapped || self.is_without_huge_pages.load(Ordering::Relaxed) {
            return;
        }
        // Kernels before 6.18 may refuse if this process has not touched a page there.
        for at in (from..to).step_by(space::HUGE_BYTES) {
            std::hint::black_box(self.get(at));
        }
        if !space::use_huge_pages(self.base.wrapping_add(from as usize), (to - from) as usize) {
            self.is_without_huge_pages.store(true, Ordering::Relaxed);
        }
    }

    /// Sets where the segments are: see [`Region::line_in_segment`].
    pub(crate) fn set_pool(&mut self, pool: Pool) {
        let words_end = pool.words_at + u64::from(pool.segment_count) * WORD;
        assert!(pool.words_at % WORD == 0 && words_end <= pool.at, "{pool:?}");
        assert!(pool.at % LINE_BYTES == 0 && 1 << pool.segment_shift >= LINE_BYTES, "{pool:?}");
        self.pool = pool;
        self.segment_bytes = 1 << pool.segment_shift;
        self.line_mask = self.segment_bytes - LINE_BYTES;
        self.word_mask = self.segment_bytes - WORD;
        self.usable_segments = AtomicU32::new(pool.segments_in(self.usable_bytes()));
    }

    /// How many whole segments of the pool may be accessed now. Never shrinks.
    #[inline(always)]
    pub(crate) fn usable_segments(&self) -> u32 {
        self.usable_segments.load(Ordering::Acquire)
    }

    /// The line that contains a byte of a segment; the byte is taken modulo the segment's length.
    /// None if the segment is not usable.
    #[inline(always)]
    pub fn line_in_segment(&self, segment: u64, byte: u64) -> Option<View<'_, LINE_WORDS>> {
        if segment >= u64::from(self.usable_segments()) {
            return None;
        }
        // All lines of usable segments are usable.
        let in_pool = (segment << self.pool.segment_shift) + (byte & self.line_mask);
        Some(View { words: self.checked(self.pool.at + in_pool, LINE_WORDS as u64) })
    }

    /// The words from `offset` to the end of its segment. None outside of the usable segments.
    #[inline(always)]
    pub fn segment_slice(&self, offset: u64) -> Option<SegmentSlice<'_>> {
        // An offset before the pool wraps to a segment number that cannot exist.
        let in_pool = offset.wrapping_sub(self.pool.at);
        let segment = in_pool >> self.pool.segment_shift;
        if segment >= u64::from(self.usable_segments()) {
            return None;
        }
        let len_bytes = self.segment_bytes - (in_pool & self.word_mask);
        // All words of usable segments are usable.
        let words = self.checked(offset & !(WORD - 1), len_bytes / WORD);
        // The word of a usable segment is before the pool, and so is usable, too.
        let word = View { words: self.checked(self.pool.words_at + segment * WORD, 1) };
        Some(SegmentSlice { words, len_bytes, segment: segment as u32, word })
    }

    /// The address of `word_count` words at `offset`, a multiple of eight.
    #[inline(always)]
    fn at(&self, offset: u64, word_count: u64) -> Words<'_> {
        let index = index_of(offset);
        let usable_words = self.usable_words.load(Ordering::Relaxed);
        if index > usable_words || word_count > usable_words - index {
            self.refuse(offset, word_count);
        }
        self.checked(offset, word_count)
    }

    /// As [`Region::at`] for a line of eight words, with one comparison.
    #[inline(always)]
    fn line(&self, offset: u64) -> Words<'_> {
        if index_of(offset) >= self.usable_lines.load(Ordering::Relaxed) {
            self.refuse(offset, LINE_WORDS as u64);
        }
        self.checked(offset, LINE_WORDS as u64)
    }

    #[inline(always)]
    fn word(&self, offset: u64) -> &Word {
        if index_of(offset) >= self.usable_words.load(Ordering::Relaxed) {
            self.refuse(offset, 1);
        }
        nth(self.checked(offset, 1), 0)
    }

    /// The address of words that the caller has checked.
    #[cfg(not(loom))]
    #[inline(always)]
    fn checked(&self, offset: u64, _word_count: u64) -> Words<'_> {
        // SAFETY: the callers have checked that the words are in the usable part of the one
        // allocation that begins at `base`.
        Words(unsafe { self.base.add(offset as usize) }, PhantomData)
    }

    #[cfg(loom)]
    fn checked(&self, offset: u64, word_count: u64) -> Words<'_> {
        match &self.backing {
            Backing::Heap(memory) => &memory[(offset / WORD) as usize..][..word_count as usize],
            Backing::Mapping(..) => panic!("a model has no file"),
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self, offset: u64, word_count: u64) -> ! {
        let usable_bytes = self.usable_bytes();
        panic!("access to {word_count} words at {offset} outside of {usable_bytes} bytes")
    }

    #[cfg(loom)]
    pub(crate) fn modelled_word(&self, index: usize) -> &Word {
        self.word(index as u64 * WORD)
    }

    /// The lock word at `offset`, which a thread can sleep on.
    #[inline(always)]
    pub(crate) fn lock_word(&self, offset: u64) -> &Word {
        self.word(offset)
    }

    /// Reads a word.
    #[inline(always)]
    pub fn load(&self, offset: u64, order: Ordering) -> u64 {
        self.word(offset).load(order)
    }

    /// Reads a word, relaxed.
    #[inline(always)]
    pub fn get(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Relaxed)
    }

    /// A checked part of `word_count` words.
    #[inline(always)]
    pub fn table(&self, offset: u64, word_count: u64) -> Table<'_> {
        Table { words: self.at(offset, word_count), word_count }
    }

    /// Prefetches the cache lines of some bytes. A hint: reads nothing, and any offset is allowed.
    #[inline(always)]
    pub fn prefetch(&self, offset: u64, len_bytes: u64) {
        prefetch_lines(self.base.wrapping_add(offset as usize), len_bytes);
    }

    /// Writes a word.
    #[inline(always)]
    pub fn store(&self, offset: u64, value: u64, order: Ordering) {
        self.word(offset).store(value, order);
    }

    /// Writes a word, relaxed.
    #[inline(always)]
    pub fn set(&self, offset: u64, value: u64) {
        self.word(offset).store(value, Ordering::Relaxed);
    }

    /// Replaces `current` by `new`; whether it did. Acquires and releases on success.
    #[inline(always)]
    pub fn replace(&self, offset: u64, current: u64, new: u64) -> bool {
        self.word(offset)
            .compare_exchange(current, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Sets bits of a word and returns its old value. Acquires and releases.
    #[inline]
    pub fn set_bits(&self, offset: u64, bits: u64) -> u64 {
        self.word(offset).fetch_or(bits, Ordering::AcqRel)
    }

    /// Clears bits of a word and returns its old value. Acquires and releases.
    #[inline]
    pub fn clear_bits(&self, offset: u64, bits: u64) -> u64 {
        self.word(offset).fetch_and(!bits, Ordering::AcqRel)
    }

    /// Adds to a word and returns its old value.
    #[inline(always)]
    pub fn add(&self, offset: u64, amount: u64) -> u64 {
        self.word(offset).fetch_add(amount, Ordering::Relaxed)
    }

    /// Copies words out, each relaxed.
    #[inline]
    pub fn copy_out(&self, offset: u64, target: &mut [u64]) {
        copy_out(self.at(offset, target.len() as u64), target);
    }

    /// Copies whole words out as bytes, each word relaxed. `target` is a multiple of eight bytes
    /// long.
    pub fn copy_out_bytes(&self, offset: u64, target: &mut [u8]) {
        assert_eq!(target.len() as u64 % WORD, 0, "{} bytes are no whole words", target.len());
        let from = self.at(offset, target.len() as u64 / WORD);
        #[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
        // SAFETY: `from` covers the bytes by `at`, and `target` is exclusively ours.
        unsafe {
            assembly::string_copy(from.0, target.as_mut_ptr(), target.len())
        };
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, portable)))))]
        for (index, word) in target.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&nth(from, index).load(Ordering::Relaxed).to_ne_bytes());
        }
    }

    /// The offset of a view of this region.
    #[inline(always)]
    pub fn offset_of<const COUNT: usize>(&self, view: View<'_, COUNT>) -> u64 {
        let first: *const Word = nth(view.words, 0);
        debug_assert!(first as usize >= self.base as usize, "a view of another region");
        let index = (first as usize - self.base as usize) / size_of::<Word>();
        index as u64 * WORD
    }

    /// A view of some words, for several accesses with one check.
    #[inline(always)]
    pub fn view<const COUNT: usize>(&self, offset: u64) -> View<'_, COUNT> {
        let words = match COUNT {
            LINE_WORDS => self.line(offset),
            _ => self.at(offset, COUNT as u64),
        };
        View { words }
    }

    /// Whether the bytes at any `offset` equal `bytes`. Reads each byte at most twice: if some change
    /// meanwhile, either answer is possible.
    #[inline(always)]
    pub fn holds(&self, offset: u64, bytes: &[u8]) -> bool {
        let lead_bytes = offset % WORD;
        let from = self.at(offset - lead_bytes, (lead_bytes + bytes.len() as u64).div_ceil(WORD));
        holds(from, lead_bytes as usize, bytes)
    }

    /// Copies words in, each relaxed.
    #[inline]
    pub fn copy_in(&self, offset: u64, source: &[u64]) {
        let to = self.at(offset, source.len() as u64);
        #[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
        if source.len() * 8 >= STRING_COPY_FROM {
            // SAFETY: `to` covers the bytes by `at`, and `source` is borrowed from its owner.
            unsafe { assembly::string_copy(source.as_ptr().cast(), to.0, source.len() * 8) };
            return;
        }
        #[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
        // SAFETY: `to` covers the words by `at`, and `source` is borrowed from its owner.
        unsafe {
            assembly::copy(source.as_ptr().cast(), to.0, source.len())
        };
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, portable)))))]
        for (index, word) in source.iter().enumerate() {
            #[cfg(not(loom))]
            if crate::mutants::is_on("plain-words") {
                // SAFETY: none. Tools that look for such a write must notice it.
                unsafe { to.0.add(index * 8).cast::<u64>().write(*word) };
                continue;
            }
            nth(to, index).store(*word, Ordering::Relaxed);
        }
    }

    /// Copies words in, each relaxed, and returns the [`sum::of`] them.
    #[inline(always)]
    pub fn copy_in_summed(&self, offset: u64, source: &[u64]) -> u64 {
        #[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
        if sum::has_instructions() {
            let to = self.at(offset, source.len() as u64);
            // SAFETY: the processor has the instructions. `to` covers the words by `at`, and `source` is
            // borrowed from its owner.
            return unsafe {
                assembly::copy_summed(source.as_ptr().cast(), to.0.cast(), source.len())
            };
        }
        self.copy_in(offset, source);
        sum::of(source)
    }

    /// Copies bytes in; the last word is padded with zeros.
    pub fn copy_in_bytes(&self, offset: u64, source: &[u8]) {
        let whole_bytes = source.len() / 8 * 8;
        let (whole, rest) = source.split_at(whole_bytes);
        #[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
        {
            let to = self.at(offset, whole_bytes as u64 / WORD);
            // SAFETY: `to` covers the bytes by `at`, and `whole` is borrowed from its owner.
            unsafe { assembly::string_copy(whole.as_ptr(), to.0, whole_bytes) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, portable)))))]
        for (index, chunk) in whole.chunks_exact(8).enumerate() {
            let word = u64::from_ne_bytes(chunk.try_into().expect("chunks of eight"));
            self.set(offset + index as u64 * WORD, word);
        }
        if !rest.is_empty() {
            let mut last = [0u8; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.set(offset + whole_bytes as u64, u64::from_ne_bytes(last));
        }
    }
}

/// Whether [`Region::copy_in_summed`] takes hardly longer than [`Region::copy_in`].
#[inline(always)]
pub fn sums_while_copying() -> bool {
    cfg!(all(target_arch = "x86_64", not(any(miri, loom, portable)))) && sum::has_instructions()
}

/// Prefetches the cache lines of private bytes. A hint.
#[inline(always)]
pub fn prefetch_bytes(bytes: &[u8]) {
    // Of the first line, too, if they begin within it.
    let lead_bytes = bytes.as_ptr().addr() as u64 % LINE_BYTES;
    prefetch_lines(bytes.as_ptr(), lead_bytes + bytes.len() as u64);
}

/// Prefetches as many cache lines as bytes take if they begin with a line, from any address on.
#[inline(always)]
fn prefetch_lines(from: *const u8, len_bytes: u64) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
    for line in 0..len_bytes.div_ceil(LINE_BYTES) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        let at = from.wrapping_add((line * LINE_BYTES) as usize);
        // SAFETY: the instruction takes any address and never fails.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, portable)))))]
    let _ = (from, len_bytes);
}

/// The bytes of private words.
#[inline(always)]
pub fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: any bytes are valid `u8`s, the length is that of the words, and they stay borrowed.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 8) }
}

/// The bytes of private words, mutable.
#[inline(always)]
pub fn bytes_of_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: as in `bytes_of`; any bytes are valid words, and the borrow is exclusive.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 8) }
}

/// The index of a word. The low bits of a misaligned offset become the highest bits of the index,
/// so one comparison refuses both offsets too far and misaligned ones.
#[inline(always)]
fn index_of(offset: u64) -> u64 {
    offset.rotate_right(WORD.trailing_zeros())
}

/// The number of words at which a whole line can begin.
fn lines_in(words: u64) -> u64 {
    words.saturating_sub(LINE_WORDS as u64 - 1)
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use super::*;

    #[test]
    fn words_and_payloads_come_back() {
        let region = Region::heap(8192);
        let source: Vec<u64> = (0..512).map(|n| n * 0x0101).collect();
        region.copy_in(4096, &source);
        let mut target = vec![0; 512];
        region.copy_out(4096, &mut target);
        assert_eq!(source, target);
        let mut bytes = vec![0; 4096];
        region.copy_out_bytes(4096, &mut bytes);
        assert_eq!(bytes, bytes_of(&source));
        region.copy_in_bytes(8, b"twelve bytes");
        assert!(region.holds(8, b"twelve bytes") && region.holds(8, b"twelve b"));
        assert!(!region.holds(8, b"twelve bytez") && !region.holds(8, b"Twelve bytes"));
        for (start, end) in [(4, 12), (4, 9), (4, 6), (4, 4), (8, 12), (8, 9)] {
            let (offset, bytes) = (8 + start as u64, &b"twelve bytes"[start..end]);
            assert!(region.holds(offset, bytes), "{start}..{end}");
            for wrong in 0..bytes.len() {
                let mut bytes = bytes.to_vec();
                bytes[wrong] ^= 1;
                assert!(!region.holds(offset, &bytes), "{start}..{end}, {wrong}");
            }
        }
        // Bytes before, in and after whole words.
        let long = b"sixty bytes, which is longer than some parts together may be";
        region.copy_in_bytes(40, &[&b"...."[..], long].concat());
        for len in 0..=long.len() {
            assert!(region.holds(44, &long[..len]));
            for wrong in 0..len {
                let mut bytes = long[..len].to_vec();
                bytes[wrong] ^= 0x80;
                assert!(!region.holds(44, &bytes), "{len}, {wrong}");
            }
        }
        assert_eq!(region.get(8).to_ne_bytes(), *b"twelve b");
        assert_eq!(region.get(16).to_ne_bytes(), *b"ytes\0\0\0\0");
    }

    #[test]
    fn memory_that_is_not_there_may_be_asked_for() {
        for offset in [0, 56, 64, 1 << 40, u64::MAX - 1000] {
            Region::heap(64).prefetch(offset, 256);
        }
    }

    #[test]
    fn a_line_may_end_where_the_region_does() {
        let region = Region::heap(128);
        region.set(120, 7);
        assert_eq!(region.view::<8>(64).get(7), 7);
        let pair = LinePair::new(region.view(0), region.view(64));
        assert_eq!(pair.load(15, Ordering::Relaxed), 7);
        let again = region.share();
        again.set_usable(64);
        assert_eq!(again.view::<8>(0).get(7), 0);
        again.set_usable(128);
        assert_eq!(again.view::<8>(64).get(7), 7);
    }

    #[test]
    #[should_panic(expected = "Pool")]
    fn a_table_of_segments_that_reaches_into_them_is_refused() {
        let pool = Pool { at: 64, words_at: 56, segment_shift: 7, segment_count: 2 };
        Region::heap(64 + 256).set_pool(pool);
    }

    #[test]
    #[should_panic(expected = "Pool")]
    fn a_table_of_segments_that_begins_within_a_word_is_refused() {
        let pool = Pool { at: 64, words_at: 4, segment_shift: 7, segment_count: 2 };
        Region::heap(64 + 256).set_pool(pool);
    }

    #[test]
    fn a_line_of_a_segment_is_there_as_soon_as_all_of_the_segment_is() {
        let whole = Region::heap(64 + 3 * 128);
        for word in 0..56 {
            whole.set(word * 8, word);
        }
        let mut region = whole.share();
        region.set_usable(64 + 128 + 64);
        region.set_pool(Pool { at: 64, words_at: 0, segment_shift: 7, segment_count: 2 });
        let first_of = |region: &Region, segment, byte| {
            region.line_in_segment(segment, byte).map(|line| (region.offset_of(line), line.get(0)))
        };
        assert_eq!(region.usable_segments(), 1);
        assert_eq!(first_of(&region, 0, 0), Some((64, 8)));
        for byte in [64, 65, 127, 192, u64::MAX] {
            assert_eq!(first_of(&region, 0, byte), Some((128, 16)), "{byte}");
        }
        for segment in [1, 2, 1 << 57, 1 << 58, u64::MAX] {
            assert_eq!(first_of(&region, segment, 0), None, "{segment}");
        }
        region.set_usable(64 + 256);
        assert_eq!(first_of(&region, 1, 64), Some((256, 32)));
        // The words of the segments are the first ones here.
        let slice = region.segment_slice(64 + 128).unwrap();
        assert_eq!((slice.segment(), region.offset_of(slice.segment_word())), (1, 8));
        region.set_usable(64 + 384);
        assert_eq!((region.usable_segments(), first_of(&region, 2, 0)), (2, None));
    }

    #[test]
    fn a_segment_slice_ends_where_its_segment_does() {
        let whole = Region::heap(64 + 3 * 128);
        for word in 0..56 {
            whole.set(word * 8, word);
        }
        let mut region = whole.share();
        assert!(region.segment_slice(0).is_none() && region.segment_slice(64).is_none());
        region.set_usable(64 + 256);
        region.set_pool(Pool { at: 64, words_at: 0, segment_shift: 7, segment_count: 3 });
        let of = |region: &Region, offset| {
            let slice = region.segment_slice(offset)?;
            Some((slice.segment(), slice.len_bytes(), slice.view::<1>().get(0)))
        };
        assert_eq!(of(&region, 64), Some((0, 128, 8)));
        // A misaligned offset belongs to its word.
        assert_eq!(of(&region, 79), Some((0, 120, 9)));
        assert_eq!(of(&region, 184), Some((0, 8, 23)));
        assert_eq!(of(&region, 192), Some((1, 128, 24)));
        for offset in [0, 56, 63, 320, 448, 1 << 40, u64::MAX - 7, u64::MAX] {
            assert_eq!(of(&region, offset), None, "{offset}");
        }
        region.set_usable(64 + 384);
        assert_eq!(of(&region, 440), Some((2, 8, 55)));
        assert_eq!(of(&region, 448), None);
    }

    #[test]
    fn lines_past_the_end_or_misaligned_are_refused() {
        let refused = |bytes: u64, offset: u64| {
            let region = Region::heap(bytes);
            let view =
                std::panic::catch_unwind(AssertUnwindSafe(|| region.view::<8>(offset).get(0)));
            view.is_err()
        };
        for offset in [72, 128, 4, 60, 1 << 40, u64::MAX - 7, u64::MAX - 63, u64::MAX] {
            assert!(refused(128, offset), "{offset}");
        }
        assert!(refused(56, 0) && !refused(64, 0));
    }

    #[test]
    #[should_panic(expected = "outside of")]
    fn a_view_past_the_end_is_refused() {
        Region::heap(64).view::<8>(8);
    }

    #[test]
    #[should_panic(expected = "outside of")]
    fn an_access_past_the_end_is_refused() {
        Region::heap(64).get(64);
    }

    #[test]
    #[should_panic(expected = "outside of")]
    fn a_misaligned_access_is_refused() {
        Region::heap(64).get(4);
    }

    #[test]
    #[should_panic(expected = "outside of")]
    fn a_length_that_would_wrap_is_refused() {
        Region::heap(64).copy_out(u64::MAX - 7, &mut [0; 2]);
    }
}
