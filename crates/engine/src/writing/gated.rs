//! Changes that pass a gate, and who closes it. Must not know for whom; the words are those of
//! `storage/gate.rs`, which describes the races.

use tuckbox_arena::hooks::{self, Point};
use tuckbox_arena::mutants;

use super::store::DRAFT_WORDS;
use super::write::InPlace;
use super::Store;
use crate::error::Result;
use crate::format::{gate, shard, Draft};
use crate::repair::lock;
use crate::storage::Need;
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
        let mut draft = Draft::new(key, hash, value, extras, &self.shape, &mut spare)?;
        let weight = self.store_draft_passing(key, &mut draft, pass);
        DRAFT_WORDS.set(draft.into_spare());
        self.arena.check_not_lost()?;
        weight
    }

    fn store_draft_passing(
        self,
        key: &[u8],
        draft: &mut Draft<'_>,
        pass: &Pass,
    ) -> Result<Option<i64>> {
        if draft.header().body_count != 0 {
            return Ok(None);
        }
        let shard = self.lock(draft.hash.shard(self.shape.shard_count))?;
        if !self.is_open(pass) {
            return Ok(None);
        }
        hooks::reach(Point::GatePassed);
        let condition = match pass.version {
            0 => Condition::Absent,
            version => Condition::Version(version),
        };
        match shard.put_in_place(key, draft, condition) {
            InPlace::Done(true) => {}
            InPlace::Done(false) => return Ok(None),
            InPlace::NotEnough(live) => {
                if live.is_none() && !shard.evict_to_limit() {
                    return Ok(None);
                }
                if shard.put(draft, live.as_ref(), &[], Need::NewRecord).is_none() {
                    return Ok(None);
                }
                shard.add_word(shard::SETS, 1);
                shard.tidy();
            }
        }
        Ok(Some(self.weigh(pass.delta)))
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
