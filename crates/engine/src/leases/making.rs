//! Beginning and finishing the making of a value, and waiting for another maker. Must not know how
//! entries are stored.

use std::time::{Duration, Instant};

use tuckbox_arena::Error as ArenaError;

use crate::error::{Error, Result};
use crate::format::shard;
use crate::index::Lookup;
use crate::invalidation::rows;
use crate::reading::{Buffer, Reader};
use crate::repair::lock;
use crate::value::{Attributes, Basis, Condition, Terms, Ttl, Value};
use crate::writing::Store;

use super::token::Token;

/// How often a waiter looks whether the file is still the one at its path.
const LOOK_EVERY: Duration = Duration::from_secs(1);

layer! {
    /// The leases of a cache.
    #[derive(Clone, Copy)]
    Leases(Store<'a>)
}

/// The result of [`Leases::begin`].
#[derive(Debug)]
pub enum Begun {
    /// There is a fresh entry.
    Found,
    /// The caller makes the value.
    Lease(Token),
    /// Another maker does.
    Busy,
}

impl Leases<'_> {
    /// Decides who makes the value of a key. Also whether the entry in the buffer is stale; none if
    /// there is none.
    ///
    /// Counts neither a hit nor a miss: whoever wants a value made has looked for it before.
    ///
    /// # Errors
    /// As [`crate::Cache::begin`].
    pub fn begin(
        self,
        key: &[u8],
        anyway: bool,
        buffer: &mut Buffer,
    ) -> Result<(Begun, Option<bool>)> {
        let reader = Reader(Lookup(self.0 .0));
        self.arena.reader()?;
        self.check_lengths(key, None)?;
        let hash = self.hasher.key(key);
        let is_read = reader.read::<false>(key, hash, buffer, false)?;
        let mut is_stale = if is_read { buffer.judge_full(&self, hash) } else { None };
        if is_stale == Some(false) && !anyway {
            return Ok((Begun::Found, is_stale));
        }
        let shard = self.lock(hash.shard(self.shape.shard_count))?;
        let mut version = None;
        if let Some((live, now)) = shard.find_valid(key, hash) {
            // Usually the same that was read without the lock, which may be long.
            let is_same = is_stale.is_some() && buffer.entry(&self.shape).version == now;
            if is_same || shard.copy_entry(&live, hash, buffer)? {
                version = Some(now);
            }
        }
        is_stale = if version.is_some() { buffer.judge_full(&self, hash) } else { None };
        let begun = if is_stale == Some(false) && !anyway {
            Begun::Found
        } else if shard.is_being_made(hash) {
            Begun::Busy
        } else {
            let basis = Basis {
                version,
                invalidations: shard.invalidations(hash),
                epoch: shard.word(shard::EPOCH),
                stamp: rows(&self).stamp(),
            };
            let claim = shard.claim_row(hash)?;
            Begun::Lease(Token { file: self.serial, hash, basis, claim })
        };
        drop(shard);
        match (self.arena.check_not_lost(), begun) {
            (Ok(()), begun) => Ok((begun, is_stale)),
            (Err(error), begun) => {
                if let Begun::Lease(token) = begun {
                    self.abandon(&token);
                }
                Err(error.into())
            }
        }
    }

    /// Stores the value if nothing speaks against it, and ends the lease in any case but
    /// [`tuckbox_arena::Error::WouldBlock`]. Whether it was stored.
    ///
    /// The race: a tag is evicted after its row was looked at. The entry has the stamp of the
    /// beginning, so whoever reads it finds it invalid.
    ///
    /// # Errors
    /// As [`crate::Cache::store`].
    pub fn finish(
        self,
        token: &Token,
        key: &[u8],
        value: Value<'_>,
        ttl: Ttl,
        attributes: &Attributes<'_>,
    ) -> Result<bool> {
        let is_of_parent = !token.claim.is_of_this_process();
        let is_of_other = token.file != self.serial || token.hash != self.hasher.key(key);
        if is_of_parent || is_of_other || self.is_any_evicted(attributes.tags, &token.basis) {
            self.abandon(token);
            return Ok(false);
        }
        let attributes = Attributes { stamp: Some(token.basis.stamp), ..*attributes };
        let condition = Condition::Unchanged(&token.basis);
        let stored =
            self.store_on(key, value, &Terms { ttl, keeps_ttl: false, attributes, condition });
        // After the entry is stored, so that whoever waited finds it.
        if !matches!(stored, Err(Error::Arena(ArenaError::WouldBlock { .. }))) {
            self.abandon(token);
        }
        stored
    }

    /// Whether a tag was evicted since.
    fn is_any_evicted(self, tags: &[&str], basis: &Basis) -> bool {
        let rows = rows(&self);
        let mut hashes = tags.iter().map(|tag| rows.name_hash(tag.as_bytes()));
        hashes.any(|tag| rows.is_evicted_since(tag, basis.stamp))
            && !tuckbox_arena::mutants::is_on("no-lease-stamp")
    }

    /// Ends a lease. Takes no lock.
    pub fn abandon(self, token: &Token) {
        if token.file == self.serial {
            self.arena.release(token.claim);
        }
    }

    /// Waits until nobody makes the value of the key, at most `limit`. False if the time is over.
    ///
    /// # Errors
    /// As [`crate::Cache::wait_made`].
    pub fn wait_made(self, key: &[u8], limit: Duration) -> Result<bool> {
        // Takes a process slot after a fork: without one, nobody can be found dead.
        self.arena.owner()?;
        self.check_lengths(key, None)?;
        let hash = self.hasher.key(key);
        let Some(row) = self.maker_of(self.shard_at(hash), hash) else { return Ok(true) };
        let began = Instant::now();
        loop {
            let rest = limit.saturating_sub(began.elapsed());
            if self.arena.wait_for_claim(row.claim_at, row.word, rest.min(LOOK_EVERY))? {
                return Ok(true);
            }
            if rest <= LOOK_EVERY {
                return Ok(false);
            }
            lock::check_successor(self.0 .0)?;
            lock::check_path(self.0 .0, Duration::ZERO)?;
        }
    }
}
