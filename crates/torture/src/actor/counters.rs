//! Counters that all threads count up. No count may be lost, whichever process dies.

use std::time::Duration;

use tuckbox_engine::{Ttl, Value};

use super::{Actor, Kind, Lie};

/// The key of a counter. Even ones are counted up by `incr`, odd ones by compare-and-set.
pub fn counter_key(index: usize) -> Vec<u8> {
    format!("counter/{index}").into_bytes()
}

impl Actor<'_> {
    pub(super) fn incr(&mut self) {
        let counter = self.random.usize(..self.board.shape().counters) & !1;
        let delta = self.random.u64(1..5);
        let (least, _) = self.board.count_bounds(counter);
        self.board.begin_count(self.row, counter, delta, false);
        let key = counter_key(counter);
        let sum = self.run(Kind::Incr, counter, |cache, _| {
            cache.incr(&key, delta as i64, Some(0), Ttl::Never)
        });
        let counted = if sum.is_some() { delta } else { 0 };
        self.board.end_count(self.row, counter, counted);
        if let Some(Some(sum)) = sum {
            self.judge_count(counter, least + delta, sum);
        }
    }

    fn judge_count(&mut self, counter: usize, least: u64, sum: i64) {
        let bent = sum - i64::from(self.lie == Some(Lie::LostCount) && self.random.u8(..) == 0);
        if !self.may_forget && bent < least as i64 && !self.may_have_restarted(counter) {
            self.wrong(&format!("counter {counter} was {bent}, less than {least}"));
        }
    }

    /// Whether the entry of a counter may have been lost with a writer that died. Waits for a
    /// while, because the supervisor notices a death a little later than the cache does.
    fn may_have_restarted(&self, counter: usize) -> bool {
        let is_replaced = counter % 2 == 1;
        is_replaced
            && (0..200).any(|_| {
                let (least, most) = self.board.count_bounds(counter);
                let may_have = least == 0 && most > 0;
                if !may_have {
                    std::thread::sleep(Duration::from_millis(5));
                }
                may_have
            })
    }

    pub(super) fn count_by_compare(&mut self) {
        let counter = self.random.usize(..self.board.shape().counters) | 1;
        if counter >= self.board.shape().counters {
            return;
        }
        let key = counter_key(counter);
        let (least, _) = self.board.count_bounds(counter);
        self.board.begin_count(self.row, counter, 1, true);
        let mut before = None;
        let stored = self.run(Kind::CountByCompare, counter, |cache, buffer| {
            match cache.get(&key, buffer)? {
                Some(entry) => {
                    let Value::Int(number) = entry.value else { return Ok(false) };
                    before = Some(number);
                    let next = Value::Int(number + 1);
                    cache.compare_and_set(&key, next, Ttl::Never, entry.version)
                }
                None => cache.add(&key, Value::Int(1), Ttl::Never),
            }
        });
        self.board.end_count(self.row, counter, u64::from(stored == Some(true)));
        if let Some(number) = before {
            self.judge_count(counter, least, number);
        }
    }

    pub(super) fn read_counter(&mut self) {
        let counter = self.random.usize(..self.board.shape().counters);
        let key = counter_key(counter);
        let (least, _) = self.board.count_bounds(counter);
        let found = self.run(Kind::ReadCounter, counter, |cache, buffer| {
            Ok(cache.get(&key, buffer)?.map(|entry| match entry.value {
                Value::Int(number) => Some(number),
                Value::Bytes { .. } => None,
            }))
        });
        match found {
            Some(Some(Some(number))) => self.judge_count(counter, least, number),
            Some(Some(None)) => self.wrong(&format!("counter {counter} is no integer")),
            Some(None)
                if !self.may_forget
                    && least > 0
                    && !self.may_have_restarted(counter)
                    && !self.gave_up(&key) =>
            {
                self.lost(&format!("counter {counter} is gone"));
            }
            _ => {}
        }
    }
}
