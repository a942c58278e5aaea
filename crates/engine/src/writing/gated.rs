//! Changes that pass a gate, and who closes it. Must not know for whom; the words are those of
//! `storage/gate.rs`, which describes the races.

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::mutants;

use super::store::{Storing, Tries, BATCHES_WITHOUT_GAIN, DRAFT_WORDS};
use super::write::Writer;
use super::Store;
use crate::error::Result;
use crate::format::{gate, shard, Draft};
use crate::index::Lookup;
use crate::reading::{Buffer, Live, Reader};
use crate::repair::lock;
use crate::storage::Need;
use crate::value::{Attributes, Condition, Made, Make, Pass, Ttl, Value};

/// What became of an attempt.
enum Passed {
    /// The change was made. The weight.
    Done(i64),
    /// The gate or the entry was changed.
    Refused,
    /// Space was freed, if there is any: it may be tried again.
    NoRoom,
}

impl Store<'_> {
    /// Closes the gate, unless it is closed, and returns its new word. Nobody else may do so meanwhile.
    pub(crate) fn close_gate(self) -> Result<u64> {
        let before = self.gate();
        let turn = (before & !gate::STATES).wrapping_add(gate::TURN);
        if matches!(before & gate::STATES, gate::CLOSED | gate::LEFT) {
            // The shards' locks would tell whether this is still the file.
            lock::check_path(self.0, self.lock_limit)?;
            lock::check_successor(self.0)?;
        } else {
            self.set_gate(turn | gate::CLOSING);
            hooks::reach(Point::GateClosing);
            for index in 0..self.shape.shard_count {
                if !mutants::is_on("gate-without-locks") {
                    drop(self.lock(index)?);
                }
            }
        }
        self.set_gate(turn | gate::CLOSED);
        Ok(turn | gate::CLOSED)
    }

    /// Stores a value that never expires, and adds to the weight. Returns the weight; none if the gate
    /// or the entry was changed since the caller looked, or if there is no room without further steps.
    pub(crate) fn store_passing(
        self,
        key: &[u8],
        value: Value<'_>,
        pass: &Pass,
    ) -> Result<Option<i64>> {
        self.check_lengths(key, Some(value))?;
        let attributes = self.new_attributes(Ttl::Never, &Attributes::default())?;
        let attributes = attributes.as_ref().map(|(_, attributes)| attributes);
        let hash = self.hasher.key(key);
        let mut spare = DRAFT_WORDS.take();
        let extras = self.extras(None, attributes);
        let draft = Draft::new(key, hash, value, extras, &self.shape, &mut spare)?;
        // What holds is seen when a lock is held: it may be another one at each attempt.
        let mut storing =
            Storing { key, draft, condition: Condition::Always, tries: Tries::default() };
        let mut result = Ok(Passed::NoRoom);
        if storing.draft.header().body_count == 0 {
            for _ in 0..self.shape.batches_max {
                result = self.attempt_passing(&mut storing, pass);
                let is_stuck = storing.tries.stuck > BATCHES_WITHOUT_GAIN;
                if is_stuck || !matches!(result, Ok(Passed::NoRoom)) {
                    break;
                }
            }
        }
        DRAFT_WORDS.set(storing.draft.into_spare());
        self.arena.check_not_lost()?;
        result.map(|passed| match passed {
            Passed::Done(weight) => Some(weight),
            Passed::Refused | Passed::NoRoom => None,
        })
    }

    fn attempt_passing(self, storing: &mut Storing<'_>, pass: &Pass) -> Result<Passed> {
        let (key, draft) = (storing.key, &storing.draft);
        let shard = self.lock(draft.hash.shard(self.shape.shard_count))?;
        if !self.is_open(pass) {
            return Ok(Passed::Refused);
        }
        hooks::reach(Point::GatePassed);
        let found = shard.find_valid(key, draft.hash);
        let version = found.as_ref().map_or(0, |(live, is)| if live.is_stale { 0 } else { *is });
        if pass.version != Pass::ANY && version != pass.version {
            return Ok(Passed::Refused);
        }
        self.put_passing(shard, storing, found.map(|(live, _)| live), pass)
    }

    /// As [`Store::store_passing`], of a value that is made of the present one under the shard's lock.
    /// `make` fills `bytes`, which are its alone; it may be called again. If it makes nothing, nothing is
    /// changed.
    pub(crate) fn replace_passing(
        self,
        key: &[u8],
        gate: u64,
        buffer: &mut Buffer,
        bytes: &mut Vec<u8>,
        make: &mut Make<'_>,
    ) -> Result<Option<i64>> {
        self.check_lengths(key, None)?;
        let attributes = self.new_attributes(Ttl::Never, &Attributes::default())?;
        let extras = self.extras(None, attributes.as_ref().map(|(_, attributes)| attributes));
        let hash = self.hasher.key(key);
        Reader(Lookup(self.0)).ask_for_place(hash);
        let mut tries = Tries::default();
        let mut passed = Passed::NoRoom;
        for _ in 0..self.shape.batches_max {
            let shard = self.lock(hash.shard(self.shape.shard_count))?;
            if !self.is_open(&Pass { gate, version: Pass::ANY, delta: 1 }) {
                break;
            }
            hooks::reach(Point::GatePassed);
            let live = match shard.find_kept(key, hash) {
                Some(live) => shard.copy_entry(&live, hash, buffer)?.then_some(live),
                None => None,
            };
            let is_there = live.as_ref().is_some_and(|live| !live.is_stale);
            let old = is_there.then(|| buffer.entry(&self.shape).value);
            let Some(Made { tag, delta }) = make(old, bytes) else { break };
            let value = Value::Bytes { tag, bytes };
            self.check_lengths(key, Some(value))?;
            let mut spare = DRAFT_WORDS.take();
            let draft = Draft::new(key, hash, value, extras, &self.shape, &mut spare)?;
            let condition = Condition::Always;
            let mut storing = Storing { key, draft, condition, tries: std::mem::take(&mut tries) };
            let is_short = storing.draft.header().body_count == 0;
            let pass = Pass { gate, version: Pass::ANY, delta };
            let result = is_short.then(|| self.put_passing(shard, &mut storing, live, &pass));
            tries = std::mem::take(&mut storing.tries);
            DRAFT_WORDS.set(storing.draft.into_spare());
            passed = result.unwrap_or(Ok(Passed::Refused))?;
            if tries.stuck > BATCHES_WITHOUT_GAIN || !matches!(passed, Passed::NoRoom) {
                break;
            }
        }
        self.arena.check_not_lost()?;
        Ok(match passed {
            Passed::Done(weight) => Some(weight),
            Passed::Refused | Passed::NoRoom => None,
        })
    }

    /// Stores a draft in place of what was found, and releases the lock.
    fn put_passing(
        self,
        shard: Writer<'_>,
        storing: &mut Storing<'_>,
        live: Option<Live>,
        pass: &Pass,
    ) -> Result<Passed> {
        let draft = &mut storing.draft;
        if live.is_none() && !shard.evict_to_limit() {
            return Ok(Passed::Refused);
        }
        if let Some(live) = live.as_ref().filter(|_| draft.takes_over.is_any()) {
            shard.take_over(*live, draft);
        }
        if live.is_some() {
            shard.sample_overwrite(draft.hash, draft.header());
        }
        self.begin(pass);
        hooks::reach(Point::GateBegun);
        // Never in place, even if the size is the same: a death would lose the old value, too.
        let is_stored = shard.put(draft, live.as_ref(), &[], Need::NewRecord).is_some();
        let weight = self.end(pass, is_stored);
        if !is_stored {
            // Nothing has begun: who closes the gate meanwhile refuses the next attempt.
            self.make_room(shard, storing)?;
            return Ok(Passed::NoRoom);
        }
        shard.add_word(shard::SETS, 1);
        shard.tidy();
        Ok(Passed::Done(weight))
    }

    /// Deletes an entry, and adds to the weight. Returns as [`Store::store_passing`].
    pub(crate) fn delete_passing(self, key: &[u8], pass: &Pass) -> Result<Option<i64>> {
        let (shard, hash, _) = self.lock_kept(key)?;
        if !self.is_open(pass) {
            return Ok(None);
        }
        let is_wanted = |version| pass.version == Pass::ANY || version == pass.version;
        let found = shard.find_valid(key, hash);
        let Some((live, _)) = found.filter(|(live, is)| !live.is_stale && is_wanted(*is)) else {
            return Ok(None);
        };
        self.begin(pass);
        hooks::reach(Point::GateBegun);
        shard.invalidate(hash);
        shard.remove_live(hash, &live, shard::DELETES);
        let weight = self.end(pass, true);
        drop(shard);
        self.arena.check_not_lost()?;
        Ok(Some(weight))
    }

    /// Counts a change that adds to the weight as begun, before its entry is changed.
    fn begin(self, pass: &Pass) {
        if pass.delta != 0 && !mutants::is_on("gate-weighs-last") {
            self.weigh(pass.delta.wrapping_add(gate::BEGUN));
        }
    }

    /// Ends what [`Store::begin`] counted, and returns the weight. The shard is locked still: who closes
    /// the gate then must find no change that has begun.
    fn end(self, pass: &Pass, is_done: bool) -> i64 {
        if pass.delta == 0 {
            return self.weigh(0);
        }
        if mutants::is_on("gate-weighs-last") {
            return self.weigh(if is_done { pass.delta } else { 0 });
        }
        self.weigh(if is_done { 0 } else { pass.delta.wrapping_neg() }.wrapping_sub(gate::BEGUN))
    }

    /// Whether a change may pass. Its caller holds the lock of the shard.
    fn is_open(self, pass: &Pass) -> bool {
        if pass.gate == Pass::ANY {
            return pass.delta == 0;
        }
        let is_open = pass.gate & gate::STATES != gate::CLOSING && self.gate() == pass.gate;
        is_open || mutants::is_on("gate-unheeded")
    }
}
