//! Keys that all threads change. An answer must be a value that was stored under the key, and no
//! older than the last change that was over before the read.

use tuckbox_engine::{Ttl, Value};
use tuckbox_testkit::stamp;

use super::{Actor, Kind, Look};
use crate::board::{RowWord, Verdict};

/// A key that all threads change.
fn contested_key(index: usize) -> Vec<u8> {
    format!("contested/{index}").into_bytes()
}

impl Actor<'_> {
    pub(super) fn contested_get(&mut self) {
        let index = self.random.usize(..self.board.shape().contested);
        let floor = self.board.contest_floor(index);
        let key = contested_key(index);
        if let Some(Look { sequence: Some(ticket), .. }) =
            self.look(Kind::ContestedGet, index + (1 << 24), &key)
        {
            self.judge_contested(index, floor, ticket);
        }
    }

    fn judge_contested(&mut self, index: usize, floor: u64, ticket: u64) {
        match self.board.judge_contested(index, floor, ticket) {
            Verdict::Right => {}
            Verdict::Unknown => self.add(RowWord::Unjudged, 1),
            verdict => self.wrong(&format!(
                "contested key {index}: found {ticket}, {verdict:?}; the floor was {floor}"
            )),
        }
    }

    pub(super) fn contested_set(&mut self) {
        let index = self.random.usize(..self.board.shape().contested);
        let key = contested_key(index);
        let ticket = self.board.begin_contest(self.row, index);
        self.make_value(&key, index, ticket);
        let value = std::mem::take(&mut self.value);
        let done = self.run(Kind::ContestedSet, index, |cache, _| {
            cache.set(&key, Value::bytes(&value), Ttl::Never)
        });
        self.value = value;
        self.board.end_contest(self.row, index, ticket, done.is_some());
    }

    pub(super) fn contested_delete(&mut self) {
        let index = self.random.usize(..self.board.shape().contested);
        let key = contested_key(index);
        let ticket = self.board.begin_contest(self.row, index);
        let done = self.run(Kind::ContestedDelete, index, |cache, _| cache.delete(&key));
        self.board.end_contest(self.row, index, ticket, done.is_some());
    }

    pub(super) fn contested_pop(&mut self) {
        let index = self.random.usize(..self.board.shape().contested);
        let key = contested_key(index);
        let floor = self.board.contest_floor(index);
        let ticket = self.board.begin_contest(self.row, index);
        let popped = self.run(Kind::ContestedPop, index, |cache, buffer| {
            Ok(cache.pop(&key, buffer)?.map(|entry| match entry.value {
                Value::Bytes { bytes, .. } => stamp::read(&key, bytes).map_err(Some),
                Value::Int(_) => Err(None),
            }))
        });
        self.board.end_contest(self.row, index, ticket, popped.is_some());
        match popped.flatten() {
            Some(Ok(stamp)) => {
                self.judge_contested(index, floor, stamp.sequence);
                if !self.board.note_pop(index, stamp.sequence) {
                    self.wrong(&format!("contested key {index}: {stamp:?} was popped twice"));
                }
            }
            Some(Err(forgery)) => {
                self.wrong(&format!(
                    "contested key {index} popped a value that was never stored there: {forgery:?}"
                ));
            }
            None => {}
        }
    }
}
