//! Checked parts of a region, for several accesses with one check. Must not know how much of the
//! region is usable: a view stays in bounds as long as its region lives.

#[cfg(not(loom))]
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

#[cfg(not(loom))]
use super::Region;
#[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
use super::STRING_COPY_FROM;
use super::{Word, LINE_WORDS, WORD};
#[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
use crate::assembly;
use crate::sum;

/// Words that their region has checked, valid as long as the region is mapped.
#[cfg(not(loom))]
#[derive(Clone, Copy)]
pub(super) struct Words<'a>(pub(super) *mut u8, pub(super) PhantomData<&'a Region>);
#[cfg(loom)]
pub(super) type Words<'a> = &'a [Word];

/// One of the checked words.
#[cfg(not(loom))]
#[inline(always)]
pub(super) fn nth(words: Words<'_>, index: usize) -> &Word {
    // SAFETY: the callers pass an index below the number of checked words. The reference is to an
    // atomic, stays in this module, and the memory lives as long as its region.
    unsafe { Word::from_ptr(words.0.add(index * 8).cast()) }
}

#[cfg(loom)]
pub(super) fn nth(words: Words<'_>, index: usize) -> &Word {
    &words[index]
}

/// Copies words out, each relaxed. The caller has checked as many as `target` has.
#[inline(always)]
pub(super) fn copy_out(from: Words<'_>, target: &mut [u64]) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
    if target.len() * 8 >= STRING_COPY_FROM {
        // SAFETY: `from` covers the bytes, and `target` is exclusively ours.
        unsafe { assembly::string_copy(from.0, target.as_mut_ptr().cast(), target.len() * 8) };
        return;
    }
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
    // SAFETY: `from` covers the words, and `target` is exclusively ours.
    unsafe {
        assembly::copy(from.0, target.as_mut_ptr().cast(), target.len())
    };
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, portable)))))]
    for (index, word) in target.iter_mut().enumerate() {
        *word = nth(from, index).load(Ordering::Relaxed);
    }
}

/// Whether the bytes from `at` on equal `bytes`. The caller has checked the words that contain them.
/// Reads each byte at most twice.
#[inline(always)]
pub(super) fn holds(from: Words<'_>, at: usize, bytes: &[u8]) -> bool {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
    if bytes.len() >= assembly::EQUAL_FROM {
        // SAFETY: `from` covers the bytes, and `bytes` is borrowed from its owner.
        return unsafe { assembly::are_equal(from.0.add(at), bytes.as_ptr(), bytes.len()) };
    }
    let load = |index: usize| nth(from, index).load(Ordering::Relaxed);
    let (mut first, lead_bytes) = (at / WORD as usize, at % WORD as usize);
    let (mut bytes, mut difference) = (bytes, 0);
    if lead_bytes != 0 && !bytes.is_empty() {
        let (lead, rest) = bytes.split_at(bytes.len().min(WORD as usize - lead_bytes));
        difference = difference_of(load(first), lead_bytes, lead);
        (first, bytes) = (first + 1, rest);
    }
    let chunks = bytes.chunks_exact(8);
    let rest = chunks.remainder();
    if !rest.is_empty() {
        difference |= difference_of(load(first + bytes.len() / 8), 0, rest);
    }
    for (index, chunk) in chunks.enumerate() {
        let word = u64::from_ne_bytes(chunk.try_into().expect("chunks of eight"));
        difference |= load(first + index) ^ word;
    }
    difference == 0
}

/// The difference between the bytes of a word from `at` on and `bytes`, of which there is at least
/// one. 0 if they are equal.
#[inline(always)]
fn difference_of(word: u64, at: usize, bytes: &[u8]) -> u64 {
    let mine = match bytes {
        // The common case of keys of 36 characters: four bytes before or after whole words.
        [a, b, c, d] => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
        _ => bytes.iter().rev().fold(0, |part, byte| part << 8 | u64::from(*byte)),
    };
    let unused_bits = 64 - 8 * bytes.len() as u32;
    (word.to_le() >> (8 * at) ^ mine) << unused_bits
}

/// `COUNT` consecutive words of a region: see [`Region::view`].
#[derive(Clone, Copy)]
pub struct View<'a, const COUNT: usize> {
    pub(super) words: Words<'a>,
}

impl<const COUNT: usize> View<'_, COUNT> {
    #[inline(always)]
    fn nth(&self, index: usize) -> &Word {
        assert!(index < COUNT, "word {index} of {COUNT}");
        nth(self.words, index)
    }

    /// Reads a word.
    #[inline(always)]
    pub fn load(&self, index: usize, order: Ordering) -> u64 {
        self.nth(index).load(order)
    }

    /// Reads a word, relaxed.
    #[inline(always)]
    pub fn get(&self, index: usize) -> u64 {
        self.nth(index).load(Ordering::Relaxed)
    }

    /// Writes a word, relaxed.
    #[inline(always)]
    pub fn set(&self, index: usize, value: u64) {
        self.nth(index).store(value, Ordering::Relaxed);
    }

    /// Writes a word.
    #[inline(always)]
    pub fn store(&self, index: usize, value: u64, order: Ordering) {
        self.nth(index).store(value, order);
    }

    /// Reads all words, one by one.
    pub fn words(&self) -> [u64; COUNT] {
        std::array::from_fn(|index| self.get(index))
    }

    /// Whether both views are of the same words.
    pub fn is_at(&self, other: View<'_, COUNT>) -> bool {
        std::ptr::eq(nth(self.words, 0), nth(other.words, 0))
    }

    /// As [`Region::replace`].
    #[inline(always)]
    pub fn replace(&self, index: usize, current: u64, new: u64) -> bool {
        self.nth(index).compare_exchange(current, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Consecutive words of a region: see [`Region::table`].
#[derive(Clone, Copy)]
pub struct Table<'a> {
    pub(super) words: Words<'a>,
    pub(super) word_count: u64,
}

impl Table<'_> {
    /// Reads a word, relaxed; none if `index` is past the end.
    #[inline(always)]
    pub fn get(&self, index: u64) -> Option<u64> {
        (index < self.word_count).then(|| nth(self.words, index as usize).load(Ordering::Relaxed))
    }
}

/// The words from an offset to the end of its segment: see [`Region::segment_slice`].
#[derive(Clone, Copy)]
pub struct SegmentSlice<'a> {
    pub(super) words: Words<'a>,
    pub(super) len_bytes: u64,
    pub(super) segment: u32,
    pub(super) word: View<'a, 1>,
}

impl<'a> SegmentSlice<'a> {
    /// The segment.
    #[inline(always)]
    pub fn segment(&self) -> u32 {
        self.segment
    }

    /// The segment's word: see [`Pool::words_at`](super::Pool::words_at).
    #[inline(always)]
    pub fn segment_word(&self) -> View<'a, 1> {
        self.word
    }

    /// Bytes up to the segment's end.
    #[inline(always)]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The first `word_count` words.
    #[inline(always)]
    fn first(&self, word_count: usize) -> Words<'a> {
        if word_count as u64 > self.len_bytes / WORD {
            refuse_behind(word_count, self.len_bytes);
        }
        self.words
    }

    /// Whether the bytes from `at` on equal `bytes`; false if they do not end in the segment. Reads
    /// each byte at most twice.
    #[inline(always)]
    pub fn holds(&self, at: u64, bytes: &[u8]) -> bool {
        at.saturating_add(bytes.len() as u64) <= self.len_bytes
            && holds(self.words, at as usize, bytes)
    }

    /// A view of the first words.
    #[inline(always)]
    pub fn view<const COUNT: usize>(&self) -> View<'a, COUNT> {
        View { words: self.first(COUNT) }
    }

    /// Copies at least two words out, each relaxed, and returns the [`sum::of`] the copy from word
    /// `from` on, which is 1 or 2. None if they and the `behind` bytes after them do not fit in the
    /// segment.
    #[inline(always)]
    pub fn copy_out_summed(&self, target: &mut [u64], from: usize, behind: u64) -> Option<u64> {
        debug_assert!(matches!(from, 1 | 2) && target.len() >= 2, "{} from {from}", target.len());
        if target.len() as u64 * WORD > self.len_bytes.saturating_sub(behind) {
            return None;
        }
        #[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
        if sum::has_instructions() {
            let words = self.words;
            let (before, rest) = target.split_at_mut(from);
            for (index, word) in before.iter_mut().enumerate() {
                *word = nth(words, index).load(Ordering::Relaxed);
            }
            // SAFETY: the processor has the instructions. `words` covers `from` words more than
            // `rest`, as was checked, and `rest` is exclusively ours.
            return Some(unsafe {
                assembly::copy_summed(words.0.add(from * 8), rest.as_mut_ptr(), rest.len())
            });
        }
        copy_out(self.words, target);
        Some(sum::of(&target[from..]))
    }
}

#[cold]
#[inline(never)]
fn refuse_behind(word_count: usize, len_bytes: u64) -> ! {
    panic!("access to {word_count} words outside of the {len_bytes} bytes up to a segment's end")
}

/// Two lines of eight words, checked once and compared together. Words from eight on belong to the
/// second line. Both may be the same line.
#[derive(Clone, Copy)]
pub struct LinePair<'a> {
    lines: [Words<'a>; 2],
}

impl<'a> LinePair<'a> {
    /// A pair of lines.
    #[inline(always)]
    pub fn new(first: View<'a, LINE_WORDS>, second: View<'a, LINE_WORDS>) -> LinePair<'a> {
        LinePair { lines: [first.words, second.words] }
    }

    /// The line of a word, chosen without a branch that the processor could mispredict.
    #[inline(always)]
    fn line_of(&self, index: usize) -> Words<'a> {
        debug_assert!(index < 2 * LINE_WORDS, "word {index} of two lines");
        let [first, second] = self.lines;
        if index < LINE_WORDS {
            first
        } else {
            second
        }
    }

    #[inline(always)]
    fn nth(&self, index: usize) -> &Word {
        nth(self.line_of(index), index % LINE_WORDS)
    }

    /// Reads a word.
    #[inline(always)]
    pub fn load(&self, index: usize, order: Ordering) -> u64 {
        self.nth(index).load(order)
    }

    /// A view of one word.
    #[inline(always)]
    pub fn word(&self, index: usize) -> View<'a, 1> {
        #[cfg(not(loom))]
        // SAFETY: one of the eight words of a checked line.
        let words =
            Words(unsafe { self.line_of(index).0.add(index % LINE_WORDS * 8) }, PhantomData);
        #[cfg(loom)]
        let words = &self.line_of(index)[index % LINE_WORDS..];
        View { words }
    }

    /// Which words have `top` as their highest sixteen bits: one bit each, the lowest for the first
    /// word. Reads each word once, relaxed.
    #[inline(always)]
    pub fn words_with_top(&self, top: u16) -> u32 {
        // SAFETY: each line covers eight checked words.
        #[cfg(all(target_arch = "x86_64", not(any(miri, loom, portable))))]
        return unsafe { assembly::compare(self.lines[0].0, self.lines[1].0, top) };
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, portable)))))]
        (0..2 * LINE_WORDS).fold(0, |found, index| {
            let word = self.load(index, Ordering::Relaxed);
            found | u32::from(word >> 48 == u64::from(top)) << index
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pool;
    use super::*;

    #[test]
    fn a_copy_and_its_sum_match() {
        let source: Vec<u64> =
            (1..100).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let mut region = Region::heap(64 + 1024);
        region.set_pool(Pool { at: 64, words_at: 0, segment_shift: 10, segment_count: 1 });
        region.copy_in(128, &source);
        let slice = region.segment_slice(128).unwrap();
        for count in 2..source.len() {
            for from in [1, 2] {
                let mut target = vec![7; count + 1];
                let sum = slice.copy_out_summed(&mut target[..count], from, 0).unwrap();
                assert_eq!(target[..count], source[..count]);
                assert_eq!((target[count], sum), (7, sum::of(&source[from..count])));
            }
        }
    }

    #[test]
    fn a_summed_copy_past_the_end_is_none() {
        let mut region = Region::heap(64 + 256);
        region.set_pool(Pool { at: 64, words_at: 0, segment_shift: 7, segment_count: 2 });
        let slice = region.segment_slice(72).unwrap();
        assert_eq!(slice.copy_out_summed(&mut [0; 16], 1, 0), None);
        assert_eq!(slice.copy_out_summed(&mut [0; 14], 1, 16), None);
        assert_eq!(slice.copy_out_summed(&mut [0; 13], 1, (-8_i64) as u64), None);
        assert!(slice.copy_out_summed(&mut [0; 13], 1, 16).is_some());
    }

    #[test]
    fn bytes_are_compared_up_to_the_segments_end() {
        let mut region = Region::heap(64 + 256);
        region.set_pool(Pool { at: 64, words_at: 0, segment_shift: 7, segment_count: 2 });
        let bytes: Vec<u8> = (0..120).collect();
        region.copy_in_bytes(72, &bytes);
        region.copy_in_bytes(192, &bytes);
        let slice = region.segment_slice(72).unwrap();
        for at in 0..=bytes.len() {
            for end in at..=bytes.len() {
                assert!(slice.holds(at as u64, &bytes[at..end]), "{at}..{end}");
            }
            let further = [&bytes[at..], &[0]].concat();
            assert!(!slice.holds(at as u64, &further), "{at}");
        }
        assert!(!slice.holds(u64::MAX, &bytes[..1]) && !slice.holds(121, &[]));
    }

    #[test]
    fn a_table_ends_where_it_should() {
        let region = Region::heap(64);
        region.set(16, 5);
        let table = region.table(8, 2);
        assert_eq!([0, 1, 2, u64::MAX].map(|at| table.get(at)), [Some(0), Some(5), None, None]);
    }

    #[test]
    #[should_panic(expected = "outside of")]
    fn a_table_past_the_end_is_refused() {
        Region::heap(64).table(8, 8);
    }

    #[test]
    #[should_panic(expected = "outside of")]
    fn a_summed_copy_into_the_region_past_its_end_is_refused() {
        Region::heap(128).copy_in_summed(8, &[0; 16]);
    }

    #[test]
    fn words_of_two_lines_are_found_by_their_highest_bits() {
        let region = Region::heap(192);
        let tops = [[7, 0, 7, 0x8000, 0xffff, 0x7fff, 7, 0], [0, 1, 0xff, 0xff00, 7, 0x0700, 1, 7]];
        let offsets = [128, 0];
        for low in [0, 0x0007_0007_0007, 0xffff_8000_7fff, 0xffff_ffff_ffff] {
            for (line, offset) in tops.iter().zip(offsets) {
                for (index, top) in line.iter().enumerate() {
                    region.set(offset + index as u64 * 8, top << 48 | low);
                }
            }
            for wanted in [0, 1, 7, 0xff, 0x700, 0x7fff, 0x8000, 0xff00, 0xffff] {
                for (first, second) in [(0, 1), (1, 0), (0, 0), (1, 1)] {
                    let line = |index: usize| region.view(offsets[index]);
                    let pair = LinePair::new(line(first), line(second));
                    let both = [tops[first], tops[second]].concat();
                    let expected = (0..16).filter(|n| both[*n] == u64::from(wanted));
                    let bits = expected.fold(0, |bits, n| bits | 1 << n);
                    assert_eq!(pair.words_with_top(wanted), bits, "{wanted:#x}");
                    for (index, top) in both.iter().enumerate() {
                        assert_eq!(pair.load(index, Ordering::Relaxed) >> 48, *top);
                        assert_eq!(pair.word(index).get(0) >> 48, *top);
                    }
                }
            }
        }
    }
}
