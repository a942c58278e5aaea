//! Beginning and finishing the making of a value, and waiting for another maker. Must not know how
//! entries are stored.

use std::time::{Duration, Instant};

use crate::error::Result;
use crate::format::shard;
use crate::index::Lookup;
use crate::reading::{Buffer, Reader};
use crate::repair::lock;
use crate::value::{Ttl, Value};
use crate::writing::{Basis, Condition, Store};

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
    /// There is an entry.
    Found,
    /// The caller makes the value.
    Lease(Token),
    /// Another maker does.
    Busy,
}

impl Leases<'_> {
    /// Decides who makes the value of a key. Also whether the buffer has the key's entry.
    ///
    /// # Errors
    /// As [`crate::Cache::begin`].
    pub fn begin(self, key: &[u8], anyway: bool, buffer: &mut Buffer) -> Result<(Begun, bool)> {
        let reader = Reader(Lookup(self.0 .0));
        let owner = self.arena.reader()?;
        self.check_lengths(key, None)?;
        let hash = self.hasher.key(key);
        let is_read = match anyway {
            false => reader.find_hashed(owner, key, hash, buffer)?,
            // Neither hit nor miss: whoever makes a value anyway knows of the entry.
            true => reader.read(key, hash, buffer, false)?,
        };
        if is_read && !anyway {
            return Ok((Begun::Found, true));
        }
        let shard = self.lock(hash.shard(self.shape.shard_count))?;
        let present = shard.find_valid(key, hash);
        let mut version = None;
        if let Some((live, now)) = &present {
            // Usually the same that was read without the lock, which may be long.
            let is_same = is_read && buffer.entry(&self.shape).version == *now;
            if is_same || shard.copy_entry(live, hash, buffer)? {
                version = Some(*now);
            }
        }
        let has_entry = version.is_some();
        let begun = if has_entry && !anyway {
            Begun::Found
        } else if shard.is_being_made(hash) {
            Begun::Busy
        } else {
            let basis = Basis {
                version,
                invalidations: shard.invalidations(hash),
                epoch: shard.word(shard::EPOCH),
            };
            let claim = shard.claim_row(hash)?;
            Begun::Lease(Token { file: self.serial, hash, basis, claim })
        };
        drop(shard);
        match (self.arena.check_not_lost(), begun) {
            (Ok(()), begun) => Ok((begun, has_entry)),
            (Err(error), begun) => {
                if let Begun::Lease(token) = begun {
                    self.abandon(token);
                }
                Err(error.into())
            }
        }
    }

    /// Stores the value if nothing speaks against it, and ends the lease in any case. Whether it was
    /// stored.
    ///
    /// # Errors
    /// As [`crate::Cache::set`].
    pub fn finish(self, token: Token, key: &[u8], value: Value<'_>, ttl: Ttl) -> Result<bool> {
        let is_of_parent = !token.claim.is_of_this_process();
        if is_of_parent || token.file != self.serial || token.hash != self.hasher.key(key) {
            self.abandon(token);
            return Ok(false);
        }
        let stored = self.store(key, value, ttl, Condition::Unchanged(&token.basis));
        // After the entry is stored, so that whoever waited finds it.
        self.abandon(token);
        stored
    }

    /// Ends a lease. Takes no lock.
    pub fn abandon(self, token: Token) {
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
