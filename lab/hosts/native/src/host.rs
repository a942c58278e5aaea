//! Executes requests one by one.
//!
//! Owns the host's state: the contestant and its work. Must not know the runner's plan, nor how
//! requests are transported.

use crate::allocator;
use crate::contract::{Limits, Result, Settings};
use crate::driver::Driver;
use crate::protocol::{Load, Open, Reply, Request};
use crate::timing::{clock_ns, timer_ns};
use crate::versions;
use crate::work::Work;

/// Chooses the contestant that the settings ask for.
pub(crate) type Choose = fn(&mut Settings) -> Result<Driver>;

/// One worker.
pub(crate) struct Host {
    choose: Choose,
    /// The clock at the start of the program.
    started_ns: u64,
    loaded: Option<Loaded>,
}

struct Loaded {
    driver: Driver,
    work: Work,
}

impl Host {
    pub(crate) fn new(choose: Choose, started_ns: u64) -> Host {
        Host { choose, started_ns, loaded: None }
    }

    /// Executes `request` and returns the reply.
    pub(crate) fn obey(&mut self, request: Request) -> Result<Reply> {
        if let Request::Load(load) = request {
            return self.load(load);
        }
        let loaded = self.loaded.as_mut().ok_or("nothing is loaded: ask for `load` first")?;
        loaded.obey(request)
    }

    fn load(&mut self, load: Load) -> Result<Reply> {
        let version = match load.distribution.as_str() {
            "" => "",
            name => match versions::version(name) {
                Some(version) => version,
                None => {
                    let reason = format!("not installed: no crate {name} is in Cargo.lock");
                    return Ok(Reply::Failed { reason, missing: true });
                }
            },
        };
        let work = Work::read(&load)?;
        let started_ns = clock_ns();
        let mut settings = Settings::new(load.settings);
        let driver = (self.choose)(&mut settings)?;
        settings.end()?;
        let create_ns = clock_ns() - started_ns;
        self.loaded = Some(Loaded { driver, work });
        Ok(Reply::Loaded {
            runtime: versions::runtime(),
            version: version.to_owned(),
            started_ns: self.started_ns,
            create_ns,
            timer_ns: timer_ns(),
        })
    }
}

impl Loaded {
    fn obey(&mut self, request: Request) -> Result<Reply> {
        let Loaded { driver: Driver(driver), work } = self;
        Ok(match request {
            Request::Load(_) => unreachable!("the host itself obeys it"),
            Request::Open(Open { folder, entries_max, bytes_max }) => {
                let entries = (entries_max > 0).then_some(entries_max);
                let limits = Limits { entries, bytes: bytes_max };
                Reply::Opened { elapsed_ns: driver.open(&folder, limits)? }
            }
            Request::ProbeWrite {} => Reply::Probed(driver.probe_write(work)?),
            Request::ProbeRead { workers } => Reply::Probed(driver.probe_read(work, &workers)?),
            Request::Prepare(prepare) => {
                driver.prepare(work, prepare)?;
                Reply::Prepared {}
            }
            Request::Run(run) => {
                let ran = driver.run(work, &run)?;
                // The runner may measure the memory of this process now.
                allocator::give_pages_back();
                Reply::Ran(ran)
            }
            Request::Replay(replay) => Reply::Replayed(driver.replay(work, &replay)?),
            Request::Clear {} => {
                let elapsed_ns = driver.clear()?;
                Reply::Cleared {
                    cleared: elapsed_ns.is_some(),
                    elapsed_ns: elapsed_ns.unwrap_or(0),
                }
            }
            Request::Close {} => Reply::Closed { elapsed_ns: driver.close()? },
        })
    }
}
