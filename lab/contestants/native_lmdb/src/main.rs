//! LMDB through the crate `heed`, with one transaction per operation and without syncing.

use std::path::Path;
use std::process::ExitCode;

use heed::types::{Bytes, Str};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, Error, MdbError};
use lab_host::{Adapter, Limits, Result, Store};

/// A multiple of all common page sizes.
const MAP_STEP_BYTES: u64 = 64 << 10;

struct Lmdb;

struct Open {
    env: Env,
    database: Database<'static, Str, Bytes>,
}

impl Adapter for Lmdb {
    type Store = Open;

    fn open(&self, folder: &Path, limits: Limits) -> Result<Open> {
        let map_bytes = (limits.bytes / MAP_STEP_BYTES).max(1) * MAP_STEP_BYTES;
        let mut options = EnvOpenOptions::new();
        options.map_size(usize::try_from(map_bytes)?);
        // SAFETY: without syncing, a system crash may leave a damaged file. Each file is created
        // for one run and never opened after a crash.
        unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP) };
        // SAFETY: a process opens the folder once, and only processes of this program write to it, all
        // with the same flags.
        let env = unsafe { options.open(folder)? };
        let database = env
            .create_databases_and_commit(env.write_txn()?, |opener, transaction| {
                opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        Ok(Open { env, database })
    }
}

impl Open {
    fn store(&self, key: &str, value: &[u8]) -> heed::Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.database.put(&mut transaction, key, value)?;
        transaction.commit()
    }

    fn remove(&self, key: &str) -> heed::Result<bool> {
        let mut transaction = self.env.write_txn()?;
        let found = self.database.delete(&mut transaction, key)?;
        transaction.commit()?;
        Ok(found)
    }
}

/// Turns a refusal for lack of room into an answer.
fn refusable(answer: heed::Result<bool>) -> Result<bool> {
    match answer {
        Err(Error::Mdb(MdbError::MapFull)) => Ok(false),
        other => Ok(other?),
    }
}

impl Store for Open {
    type Value = Vec<u8>;
    type Answer = Vec<u8>;

    fn value(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let transaction = self.env.read_txn()?;
        Ok(self.database.get(&transaction, key)?.map(<[u8]>::to_vec))
    }

    fn set(&self, key: &str, value: &Vec<u8>) -> Result<bool> {
        refusable(self.store(key, value).map(|()| true))
    }

    fn delete(&self, key: &str) -> Result<bool> {
        refusable(self.remove(key))
    }

    fn clear(&self) -> Result<bool> {
        let mut transaction = self.env.write_txn()?;
        self.database.clear(&mut transaction)?;
        transaction.commit()?;
        Ok(true)
    }

    fn close(self) -> Result<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

fn main() -> ExitCode {
    lab_host::serve(|_| Ok(lab_host::contestant(Lmdb)))
}
