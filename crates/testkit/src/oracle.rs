//! The expected state of keys, kept outside of the cache in words that all processes of a test
//! share. Must not know the cache.
//!
//! Every key has one writer at a time, and any number of readers. The writer announces a change,
//! makes it, and acknowledges it. If it is killed in between, its successor asks the cache what the
//! result is ([`Oracle::resolve`]). A reader notes what is known, reads, and has the result judged.
//! A cache may forget, unless the test forbids it, but must never return a value that was not
//! stored last.

use std::sync::atomic::Ordering;

use crate::shared::SharedWords;

/// What a change leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No entry.
    Absent,
    /// An entry.
    Present,
    /// An entry that may vanish at any moment, because it expires.
    Expiring,
}

/// A change of a key: its number, which is used once per key, and its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Its number; 0 only for the state before the first change.
    pub sequence: u64,
    /// What it leaves.
    pub outcome: Outcome,
}

impl Change {
    fn word(self) -> u64 {
        self.sequence << 2 | self.outcome as u64
    }

    fn from_word(word: u64) -> Change {
        let outcome = match word & 3 {
            0 => Outcome::Absent,
            1 => Outcome::Present,
            _ => Outcome::Expiring,
        };
        Change { sequence: word >> 2, outcome }
    }
}

/// What is known of a key at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The last change that was certainly made.
    pub acknowledged: Change,
    /// The last change that may have been made.
    pub announced: Change,
}

impl Known {
    /// Whether no change was in progress.
    pub fn is_settled(&self) -> bool {
        self.acknowledged == self.announced
    }
}

/// What is wrong with a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// A value older than the one that was certainly there: stored before, or deleted since.
    Stale,
    /// A value that had not been stored yet.
    NotStoredYet,
    /// No value, although there was one and nobody was changing it.
    Lost,
}

/// The expected states of `count` keys.
#[derive(Debug, Clone, Copy)]
pub struct Oracle<'a> {
    words: &'a SharedWords,
    at: usize,
    count: usize,
}

impl<'a> Oracle<'a> {
    /// Number of words for the states of `count` keys.
    pub const fn word_count(count: usize) -> usize {
        count * 2
    }

    /// The states from word `at` on. Zero words mean: absent, never changed.
    pub fn new(words: &'a SharedWords, at: usize, count: usize) -> Oracle<'a> {
        assert!(at + Oracle::word_count(count) <= words.count(), "the states do not fit");
        Oracle { words, at, count }
    }

    fn index(&self, key: usize) -> usize {
        assert!(key < self.count, "key {key} of {}", self.count);
        self.at + key * 2
    }

    /// The writer is about to change the key.
    pub fn announce(&self, key: usize, change: Change) {
        self.words.word(self.index(key) + 1).store(change.word(), Ordering::SeqCst);
    }

    /// The announced change was made.
    pub fn acknowledge(&self, key: usize) {
        let announced = self.words.word(self.index(key) + 1).load(Ordering::SeqCst);
        self.words.word(self.index(key)).store(announced, Ordering::SeqCst);
    }

    /// The announced change was not made, and never will be.
    pub fn withdraw(&self, key: usize) {
        let acknowledged = self.words.word(self.index(key)).load(Ordering::SeqCst);
        self.words.word(self.index(key) + 1).store(acknowledged, Ordering::SeqCst);
    }

    /// What is known of the key now. Call it before a read, and again after it.
    pub fn known(&self, key: usize) -> Known {
        // Loaded in the opposite order of the writer's stores, so that `acknowledged` never seems
        // newer than `announced`.
        let acknowledged = self.words.word(self.index(key)).load(Ordering::SeqCst);
        let announced = self.words.word(self.index(key) + 1).load(Ordering::SeqCst);
        Known {
            acknowledged: Change::from_word(acknowledged),
            announced: Change::from_word(announced),
        }
    }

    /// Judges a read: `found` is the sequence of the value, none for a miss; `may_forget` allows
    /// the cache to drop entries.
    ///
    /// # Errors
    /// What is wrong with the result.
    pub fn judge(
        &self,
        key: usize,
        before: Known,
        found: Option<u64>,
        may_forget: bool,
    ) -> Result<(), Wrong> {
        let after = self.known(key);
        let undisturbed = before.is_settled() && after.announced == before.announced;
        let known = before.acknowledged;
        match found {
            Some(sequence) if sequence < known.sequence => Err(Wrong::Stale),
            Some(sequence) if sequence > after.announced.sequence => Err(Wrong::NotStoredYet),
            Some(_) if undisturbed && known.outcome == Outcome::Absent => Err(Wrong::Stale),
            Some(sequence) if undisturbed && sequence != known.sequence => Err(Wrong::NotStoredYet),
            None if undisturbed && known.outcome == Outcome::Present && !may_forget => {
                Err(Wrong::Lost)
            }
            _ => Ok(()),
        }
    }

    /// Settles the state of a key whose writer died, by the result of a read now. For the key's
    /// next writer.
    ///
    /// # Errors
    /// If the cache holds neither the old nor the new value.
    pub fn resolve(&self, key: usize, found: Option<u64>) -> Result<(), Wrong> {
        let known = self.known(key);
        if known.is_settled() {
            return Ok(());
        }
        let change = match found {
            Some(sequence) if sequence == known.announced.sequence => match known.acknowledged {
                // A new time to live for the same value: nobody can tell whether it was set.
                before @ Change { outcome: Outcome::Expiring, .. }
                    if before.sequence == sequence =>
                {
                    before
                }
                _ => known.announced,
            },
            Some(sequence) if sequence == known.acknowledged.sequence => known.acknowledged,
            Some(sequence) if sequence < known.acknowledged.sequence => return Err(Wrong::Stale),
            Some(_) => return Err(Wrong::NotStoredYet),
            // The victim's own entry may be missing; its number must not be used again.
            None => Change { outcome: Outcome::Absent, ..known.announced },
        };
        self.words.word(self.index(key) + 1).store(change.word(), Ordering::SeqCst);
        self.words.word(self.index(key)).store(change.word(), Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_oracle(test: impl Fn(Oracle<'_>)) {
        static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tuckbox-oracle-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let words = SharedWords::create(&path, Oracle::word_count(4)).unwrap();
        std::fs::remove_file(path).unwrap();
        test(Oracle::new(&words, 0, 4));
    }

    fn change(sequence: u64, outcome: Outcome) -> Change {
        Change { sequence, outcome }
    }

    #[test]
    fn only_the_last_stored_value_is_right() {
        with_oracle(|oracle| {
            oracle.announce(1, change(5, Outcome::Present));
            oracle.acknowledge(1);
            let known = oracle.known(1);
            assert_eq!(oracle.judge(1, known, Some(5), false), Ok(()));
            assert_eq!(oracle.judge(1, known, Some(4), false), Err(Wrong::Stale));
            assert_eq!(oracle.judge(1, known, Some(6), false), Err(Wrong::NotStoredYet));
            assert_eq!(oracle.judge(1, known, None, false), Err(Wrong::Lost));
            assert_eq!(oracle.judge(1, known, None, true), Ok(()));
        });
    }

    #[test]
    fn while_a_change_is_under_way_old_and_new_are_right() {
        with_oracle(|oracle| {
            oracle.announce(0, change(1, Outcome::Present));
            oracle.acknowledge(0);
            oracle.announce(0, change(2, Outcome::Present));
            let known = oracle.known(0);
            for found in [Some(1), Some(2), None] {
                assert_eq!(oracle.judge(0, known, found, false), Ok(()));
            }
            assert_eq!(oracle.judge(0, known, Some(3), false), Err(Wrong::NotStoredYet));
            oracle.acknowledge(0);
            assert_eq!(oracle.judge(0, oracle.known(0), Some(1), false), Err(Wrong::Stale));
        });
    }

    #[test]
    fn a_deleted_value_does_not_come_back() {
        with_oracle(|oracle| {
            oracle.announce(2, change(1, Outcome::Present));
            oracle.acknowledge(2);
            oracle.announce(2, change(2, Outcome::Absent));
            oracle.acknowledge(2);
            let known = oracle.known(2);
            assert_eq!(oracle.judge(2, known, Some(1), true), Err(Wrong::Stale));
            assert_eq!(oracle.judge(2, known, None, false), Ok(()));
        });
    }

    #[test]
    fn a_read_settles_what_a_dead_writer_left() {
        with_oracle(|oracle| {
            oracle.announce(3, change(1, Outcome::Present));
            oracle.acknowledge(3);
            for (found, expected) in [
                (Some(1), Ok(())),
                (Some(2), Ok(())),
                (None, Ok(())),
                (Some(3), Err(Wrong::NotStoredYet)),
                (Some(0), Err(Wrong::Stale)),
            ] {
                oracle.announce(3, change(1, Outcome::Present));
                oracle.acknowledge(3);
                oracle.announce(3, change(2, Outcome::Present));
                assert_eq!(oracle.resolve(3, found), expected, "{found:?}");
                assert_eq!(oracle.known(3).is_settled(), expected.is_ok());
            }
        });
    }

    #[test]
    fn a_value_may_expire_if_its_writer_died_while_it_changed_the_time_to_live() {
        with_oracle(|oracle| {
            for (before, after) in
                [(Outcome::Expiring, Outcome::Present), (Outcome::Present, Outcome::Expiring)]
            {
                oracle.announce(0, change(1, before));
                oracle.acknowledge(0);
                oracle.announce(0, change(1, after));
                assert_eq!(oracle.resolve(0, Some(1)), Ok(()));
                let known = oracle.known(0);
                assert!(known.is_settled());
                for found in [Some(1), None] {
                    assert_eq!(oracle.judge(0, known, found, false), Ok(()), "{before:?}");
                }
            }
        });
    }
}
