//! An adapter with the store it has opened, behind one type for all.
//!
//! Owns the open store. It is called once for a request, never for an operation: those are called
//! directly by the generic loops.

use std::path::Path;

use crate::contract::{Adapter, Limits, Result, Store};
use crate::ledger::Ledger;
use crate::protocol::{Probed, Ran, Replay, Replayed, Run};
use crate::work::Work;
use crate::{pass, probe, replay};

/// A contestant that the host can drive. [`contestant`] makes it from an adapter.
pub struct Driver(pub(crate) Box<dyn Drive>);

/// Makes a contestant from an adapter.
pub fn contestant<A: Adapter + 'static>(adapter: A) -> Driver {
    Driver(Box::new(Driving { adapter, store: None }))
}

pub(crate) trait Drive {
    fn open(&mut self, folder: &Path, limits: Limits) -> Result<()>;
    fn probe_write(&self, work: &Work) -> Result<Probed>;
    fn probe_read(&self, work: &Work, workers: &[u64]) -> Result<Probed>;
    fn run(&self, work: &Work, ledger: &mut Ledger, request: &Run) -> Result<Ran>;
    fn replay(&self, work: &Work, ledger: &mut Ledger, request: &Replay) -> Result<Replayed>;
    fn close(&mut self) -> Result<()>;
}

struct Driving<A: Adapter> {
    adapter: A,
    store: Option<A::Store>,
}

impl<A: Adapter> Driving<A> {
    fn store(&self) -> Result<&A::Store> {
        self.store.as_ref().ok_or_else(|| NOT_OPEN.into())
    }
}

const NOT_OPEN: &str = "no store is open: ask for `open` first";

impl<A: Adapter> Drive for Driving<A> {
    fn open(&mut self, folder: &Path, limits: Limits) -> Result<()> {
        if self.store.is_some() {
            return Err("a store is open already: ask for `close` first".into());
        }
        self.store = Some(self.adapter.open(folder, limits)?);
        Ok(())
    }

    fn probe_write(&self, work: &Work) -> Result<Probed> {
        probe::write(self.store()?, work)
    }

    fn probe_read(&self, work: &Work, workers: &[u64]) -> Result<Probed> {
        probe::read(self.store()?, work, workers)
    }

    fn run(&self, work: &Work, ledger: &mut Ledger, request: &Run) -> Result<Ran> {
        pass::run(self.store()?, work, ledger, request)
    }

    fn replay(&self, work: &Work, ledger: &mut Ledger, request: &Replay) -> Result<Replayed> {
        let phase = work.phase(request.phase)?;
        replay::replay(self.store()?, work, phase, ledger, &request.folder)
    }

    fn close(&mut self) -> Result<()> {
        self.store.take().ok_or(NOT_OPEN)?.close()
    }
}
