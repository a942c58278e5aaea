//! Changes that pass a gate, and who closes it. Must not know for whom; the words are those of
//! `storage/gate.rs`, which describes the races.

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::mutants;

use super::store::{Storing, Tries, DRAFT_WORDS};
use super::write::InPlace;
use super::Store;
use crate::error::Result;
use crate::format::{gate, shard, Draft};
use crate::repair::lock;
use crate::value::{Attributes, Condition, Pass, Ttl, Value};

impl Store<'_> {
    /// Closes the gate, unless it is closed, and returns its new word. Nobody else may do so meanwhile.
    pub(crate) fn close_gate(self) -> Result<u64> {
        let before = self.gate();
        let turn = (before & !gate::STATES).wrapping_add(gate::TURN);
        if before & gate::STATES == gate::CLOSED {
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
        let condition = match pass.version {
            0 => Condition::Absent,
            version => Condition::Version(version),
        };
        let mut storing = Storing { key, draft, condition, tries: Tries::default() };
        let weight = self.attempt_passing(&mut storing, pass);
        DRAFT_WORDS.set(storing.draft.into_spare());
        self.arena.check_not_lost()?;
        weight
    }

    fn attempt_passing(self, storing: &mut Storing<'_>, pass: &Pass) -> Result<Option<i64>> {
        if storing.draft.header().body_count != 0 {
            return Ok(None);
        }
        let shard = self.lock(storing.draft.hash.shard(self.shape.shard_count))?;
        if !self.is_open(pass) {
            return Ok(None);
        }
        hooks::reach(Point::GatePassed);
        match shard.put_in_place(storing.key, &mut storing.draft, storing.condition) {
            InPlace::Done(true) => Ok(Some(self.weigh(pass.delta))),
            InPlace::Done(false) => Ok(None),
            InPlace::NotEnough(live) => {
                // Before the lock is released: who closes the gate then must know the weight.
                let weight = self.weigh(pass.delta);
                let stored = self.evict_and_put(shard, storing, live, &[]);
                if !matches!(stored, Ok(Some(true))) {
                    self.weigh(-pass.delta);
                }
                Ok(stored?.and(Some(weight)))
            }
        }
    }

    /// Deletes an entry, and adds to the weight. Returns as [`Store::store_passing`].
    pub(crate) fn delete_passing(self, key: &[u8], pass: &Pass) -> Result<Option<i64>> {
        let (shard, hash, _) = self.lock_kept(key)?;
        if !self.is_open(pass) {
            return Ok(None);
        }
        let found = shard.find_valid(key, hash);
        let Some((live, _)) = found.filter(|(live, is)| !live.is_stale && *is == pass.version)
        else {
            return Ok(None);
        };
        shard.invalidate(hash);
        shard.remove_live(hash, &live, shard::DELETES);
        let weight = self.weigh(pass.delta);
        drop(shard);
        self.arena.check_not_lost()?;
        Ok(Some(weight))
    }

    /// Whether a change may pass. Its caller holds the lock of the shard.
    fn is_open(self, pass: &Pass) -> bool {
        let is_open = pass.gate & gate::STATES == gate::OPEN && self.gate() == pass.gate;
        is_open || mutants::is_on("gate-unheeded")
    }
}
