//! An adapter with its open store, behind one type for all contestants.
//!
//! Owns the open store, and everything that lives as long as the store. It is called once per
//! request, never per operation: the generic loops call the operations directly.

use std::path::Path;

use crate::contract::{Adapter, Limits, Result, Store};
use crate::pass::{Context, Pass};
use crate::probe::Prober;
use crate::protocol::{Prepare, Probed, Ran, Replay, Replayed, Run};
use crate::replay::{self, Stored};
use crate::timing::clock_ns;
use crate::verify::Verifier;
use crate::work::Work;

/// A contestant that the host can drive, made by [`contestant`].
pub struct Driver(pub(crate) Box<dyn Drive>);

/// Makes a contestant from an adapter.
pub fn contestant<A: Adapter + 'static>(adapter: A) -> Driver {
    Driver(Box::new(Driving { adapter, opened: None }))
}

/// Opening, emptying and closing return the contestant's time in nanoseconds.
pub(crate) trait Drive {
    fn open(&mut self, folder: &Path, limits: Limits) -> Result<u64>;
    fn probe_write(&mut self, work: &Work) -> Result<Probed>;
    fn probe_read(&mut self, work: &Work, workers: &[usize]) -> Result<Probed>;
    fn prepare(&mut self, work: &Work, request: Prepare) -> Result<()>;
    fn run(&mut self, work: &Work, request: &Run) -> Result<Ran>;
    fn replay(&mut self, work: &Work, request: &Replay) -> Result<Replayed>;
    /// None if the contestant cannot empty its store.
    fn clear(&mut self) -> Result<Option<u64>>;
    fn close(&mut self) -> Result<u64>;
}

struct Driving<A: Adapter> {
    adapter: A,
    opened: Option<Opened<A::Store>>,
}

/// An open store, and this worker's knowledge about it.
struct Opened<S: Store> {
    store: S,
    prober: Prober,
    verifier: Verifier,
    /// The pass that can start.
    pass: Option<Pass<S>>,
    /// What a replay has stored, after it has started.
    stored: Option<Stored>,
    /// The last phase that was run. The checks rely on the order of the phases.
    phase_last: Option<usize>,
}

impl<A: Adapter> Driving<A> {
    fn opened(&mut self) -> Result<&mut Opened<A::Store>> {
        self.opened.as_mut().ok_or_else(|| NOT_OPEN.into())
    }
}

const NOT_OPEN: &str = "no store is open: ask for `open` first";

impl<A: Adapter> Drive for Driving<A> {
    fn open(&mut self, folder: &Path, limits: Limits) -> Result<u64> {
        if self.opened.is_some() {
            return Err("a store is already open: request `close` first".into());
        }
        let started_ns = clock_ns();
        let store = self.adapter.open(folder, limits)?;
        let elapsed_ns = clock_ns() - started_ns;
        self.opened = Some(Opened {
            store,
            prober: Prober::default(),
            verifier: Verifier::default(),
            pass: None,
            stored: None,
            phase_last: None,
        });
        Ok(elapsed_ns)
    }

    fn probe_write(&mut self, work: &Work) -> Result<Probed> {
        let Opened { store, prober, .. } = self.opened()?;
        prober.write(store, work)
    }

    fn probe_read(&mut self, work: &Work, workers: &[usize]) -> Result<Probed> {
        let Opened { store, prober, .. } = self.opened()?;
        prober.read(store, work, workers)
    }

    fn prepare(&mut self, work: &Work, request: Prepare) -> Result<()> {
        let Opened { store, verifier, pass, phase_last, .. } = self.opened()?;
        let phase = request.phase;
        work.phases.require(phase)?;
        if let Some(last) = phase_last.filter(|last| phase <= *last) {
            return Err(format!("phase {phase} was requested after phase {last}").into());
        }
        // Free the stretch of a pass that was never run before the next one allocates memory.
        *pass = None;
        *pass = Some(Pass::prepare(&mut Context { store, work, verifier }, request)?);
        *phase_last = Some(phase);
        Ok(())
    }

    fn run(&mut self, work: &Work, request: &Run) -> Result<Ran> {
        let Opened { store, verifier, pass, .. } = self.opened()?;
        let pass = pass.take().ok_or("no pass is ready: ask for `prepare` first")?;
        pass.run(&mut Context { store, work, verifier }, request)
    }

    fn replay(&mut self, work: &Work, request: &Replay) -> Result<Replayed> {
        let Opened { store, stored, .. } = self.opened()?;
        replay::replay(store, work, stored.get_or_insert_with(|| Stored::nothing(work)), request)
    }

    fn clear(&mut self) -> Result<Option<u64>> {
        let Opened { store, .. } = self.opened()?;
        let started_ns = clock_ns();
        let cleared = store.clear()?;
        Ok(cleared.then(|| clock_ns() - started_ns))
    }

    fn close(&mut self) -> Result<u64> {
        let Opened { store, pass, .. } = self.opened.take().ok_or(NOT_OPEN)?;
        drop(pass);
        let started_ns = clock_ns();
        store.close()?;
        Ok(clock_ns() - started_ns)
    }
}
