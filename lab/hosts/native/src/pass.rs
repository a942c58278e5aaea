//! The timed loops, with nothing but operations between the clock readings.
//!
//! Owns how operations are timed. Must not know which contestant it drives. A pass consists of
//! stretches: the operations of a stretch are prepared, run without a pause, and checked after the
//! clock has stopped. Within a stretch the clock is read after each block.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use crate::allocator;
use crate::contract::{Result, Store};
use crate::protocol::{Actions, Measure, Prepare, Ran, Run};
use crate::recorded::Recorded;
use crate::stream::{Operation, Verb};
use crate::timing::{clock_ns, cpu_ns, sleep_until};
use crate::verify::{Asked, Verifier};
use crate::work::Work;

/// An operation that is ready to run.
enum Step<S: Store> {
    Get(&'static str),
    Set(&'static str, S::Value),
    Delete(&'static str),
}

/// The answer to an operation.
enum Answer<S: Store> {
    Got(Option<S::Answer>),
    Stored(bool),
    Deleted(bool),
}

/// The data of a pass: an open store, and the knowledge about it.
pub(crate) struct Context<'a, S: Store> {
    pub(crate) store: &'a S,
    pub(crate) work: &'a Work,
    pub(crate) verifier: &'a mut Verifier,
}

/// One pass of one worker, warmed up and with its first stretch ready. It borrows nothing, so it
/// can be kept between requests.
pub(crate) struct Pass<S: Store> {
    request: Prepare,
    /// Operations run and checked so far.
    position: usize,
    /// The prepared stretch, with room for its answers.
    steps: Vec<Step<S>>,
    answers: Vec<Answer<S>>,
    /// Room for the durations of a latency pass, or for the block times of other passes.
    durations_ns: Vec<u64>,
    blocks_ns: Vec<u64>,
    actions: Actions,
}

impl<S: Store> Pass<S> {
    /// Warms up and prepares the first stretch.
    pub(crate) fn prepare(context: &mut Context<'_, S>, request: Prepare) -> Result<Pass<S>> {
        if request.block == 0 || request.stretch == 0 {
            return Err("a block and a stretch must have at least one operation".into());
        }
        if request.batch != 1 {
            return Err("this host can only request one key at a time".into());
        }
        let count = context.work.phases.own(request.phase).operations.len();
        let mut pass = Pass {
            request,
            position: 0,
            steps: Vec::new(),
            answers: Vec::new(),
            durations_ns: Vec::new(),
            blocks_ns: Vec::new(),
            actions: Actions::default(),
        };
        let warmup = pass.request.warmup.min(count);
        if pass.warm_up(context, warmup)? {
            let counted = count - warmup;
            if pass.request.measure == Measure::Latency {
                pass.durations_ns = room(counted, || 0);
            } else {
                pass.blocks_ns = room(counted / pass.request.block, || 0);
            }
            let stretch = pass.request.stretch.min(counted);
            pass.answers = room(stretch, || Answer::Stored(false));
            pass.stretch(context.work);
            // The following stretches reuse these pages.
            allocator::touch(pass.answers_bytes(context.work, warmup..warmup + stretch));
        }
        Ok(pass)
    }

    /// Runs the pass, or as much of it as the time allows, and checks every answer.
    pub(crate) fn run(mut self, context: &mut Context<'_, S>, request: &Run) -> Result<Ran> {
        // Created first, so that an invalid path fails before the work.
        let durations = create(&request.durations)?;
        let mut ran = Ran::default();
        let allowed_ns = nanoseconds(self.request.seconds_max);
        sleep_until(request.start_ns);
        while !self.steps.is_empty() {
            let (cpu_started_ns, started_ns) = (cpu_ns(), clock_ns());
            if ran.started_ns == 0 {
                ran.started_ns = started_ns;
            }
            let deadline_ns = ran.started_ns.saturating_add(allowed_ns);
            ran.ended_ns = self.obey(context.store, started_ns, deadline_ns)?;
            ran.cpu_ns += cpu_ns() - cpu_started_ns;
            ran.elapsed_ns += ran.ended_ns - started_ns;
            self.check(context, true);
            if ran.ended_ns < deadline_ns {
                self.stretch(context.work);
            }
        }
        if let Some(file) = durations {
            write(file, &self.durations_ns)
                .map_err(|error| format!("{}: {error}", request.durations.display()))?;
        }
        if self.request.measure == Measure::Untimed {
            ran = Ran::default();
        } else {
            ran.blocks_ns = self.blocks_ns;
        }
        ran.done = self.position;
        ran.actions = self.actions;
        ran.verdict = std::mem::take(&mut context.verifier.verdict);
        Ok(ran)
    }

    /// Runs and checks the first operations, untimed and uncounted. Returns whether time is left.
    fn warm_up(&mut self, context: &mut Context<'_, S>, count: usize) -> Result<bool> {
        let deadline_ns = clock_ns().saturating_add(nanoseconds(self.request.seconds_max));
        while self.position < count {
            let end = self.position.saturating_add(self.request.block).min(count);
            self.ready(context.work, end);
            obey(context.store, &self.steps, &mut self.answers)?;
            self.check(context, false);
            if clock_ns() >= deadline_ns {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Prepares the next stretch; nothing at the end of the stream.
    fn stretch(&mut self, work: &Work) {
        let count = work.phases.own(self.request.phase).operations.len();
        self.ready(work, self.position.saturating_add(self.request.stretch).min(count));
    }

    /// Prepares the operations up to `end`.
    fn ready(&mut self, work: &Work, end: usize) {
        let own = work.phases.own(self.request.phase);
        self.steps.reserve_exact(end - self.position);
        self.steps.extend((self.position..end).map(|position| step(work, own, position)));
    }

    /// The memory of the answers, if each get returns a copy of a value of the usual size.
    fn answers_bytes(&self, work: &Work, positions: Range<usize>) -> usize {
        let operations = &work.phases.own(self.request.phase).operations[positions];
        let gets = operations.iter().filter(|operation| operation.verb == Verb::Get);
        gets.map(|get| allocator::chunk_bytes(work.expected.usual_bytes(get.key))).sum()
    }

    /// Runs the stretch block by block until its end or the deadline; returns the last reading.
    fn obey(&mut self, store: &S, started_ns: u64, deadline_ns: u64) -> Result<u64> {
        let mut ended_ns = started_ns;
        for block in self.steps.chunks(self.request.block) {
            let before_ns = ended_ns;
            if self.request.measure == Measure::Latency {
                obey_each(store, block, &mut self.answers, &mut self.durations_ns)?;
                ended_ns = clock_ns();
            } else {
                obey(store, block, &mut self.answers)?;
                ended_ns = clock_ns();
                if block.len() == self.request.block {
                    self.blocks_ns.push(ended_ns - before_ns);
                }
            }
            if ended_ns >= deadline_ns {
                break;
            }
        }
        Ok(ended_ns)
    }

    /// Checks the answers, drops them and the stretch, and counts them except in the warm-up.
    fn check(&mut self, context: &mut Context<'_, S>, counts: bool) {
        let Context { work, verifier, .. } = context;
        let phase = self.request.phase;
        let own = work.phases.own(phase);
        let mut uncounted = Actions::default();
        let actions = if counts { &mut self.actions } else { &mut uncounted };
        for answer in self.answers.drain(..) {
            let key = own.operations[self.position].key;
            let asked = Asked { phase, sequence: own.sequence(self.position), key };
            match answer {
                Answer::Got(found) => {
                    let bytes = found.as_ref().map(S::Answer::as_ref);
                    actions.get.count(verifier.got(work, asked, bytes));
                }
                Answer::Stored(accepted) => {
                    actions.set.count(verifier.stored(work, asked, accepted));
                }
                Answer::Deleted(found) => {
                    actions.delete.count(verifier.deleted(work, asked, found));
                }
            }
            self.position += 1;
        }
        self.steps.clear();
    }
}

/// An empty vector with room for `count` elements, whose pages are mapped.
fn room<T>(count: usize, filler: impl FnMut() -> T) -> Vec<T> {
    let mut room = Vec::with_capacity(count);
    room.resize_with(count, filler);
    black_box(&mut room).clear();
    room
}

fn step<S: Store>(work: &Work, own: &Recorded, position: usize) -> Step<S> {
    let Operation { verb, key, size } = own.operations[position];
    let text = work.keys.text(key);
    match verb {
        Verb::Get => Step::Get(text),
        Verb::Set => {
            let bytes = work.values.derive(key.into(), own.sequence(position), size as usize);
            Step::Set(text, S::value(bytes))
        }
        Verb::Delete => Step::Delete(text),
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    // Saturates.
    (seconds * 1e9).round() as u64
}

fn create(path: &Path) -> Result<Option<File>> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let file = File::create_new(path)
        .map_err(|error| format!("durations {:?}: {error}", path.display()))?;
    Ok(Some(file))
}

fn write(file: File, durations_ns: &[u64]) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    for duration_ns in durations_ns {
        file.write_all(&duration_ns.to_le_bytes())?;
    }
    file.flush()
}

/// Runs a block. Not inlined, so that nothing moves past the clock readings outside.
#[inline(never)]
fn obey<S: Store>(store: &S, steps: &[Step<S>], answers: &mut Vec<Answer<S>>) -> Result<()> {
    for step in black_box(steps) {
        answers.push(match step {
            Step::Get(key) => Answer::Got(store.get(key)?),
            Step::Set(key, value) => Answer::Stored(store.set(key, value)?),
            Step::Delete(key) => Answer::Deleted(store.delete(key)?),
        });
    }
    black_box(answers);
    Ok(())
}

/// Runs a block and reads the clock around each operation.
#[inline(never)]
fn obey_each<S: Store>(
    store: &S,
    steps: &[Step<S>],
    answers: &mut Vec<Answer<S>>,
    durations_ns: &mut Vec<u64>,
) -> Result<()> {
    for step in black_box(steps) {
        let (answer, duration_ns) = match step {
            Step::Get(key) => {
                let (found, duration_ns) = timed(|| store.get(key));
                (Answer::Got(found?), duration_ns)
            }
            Step::Set(key, value) => {
                let (accepted, duration_ns) = timed(|| store.set(key, value));
                (Answer::Stored(accepted?), duration_ns)
            }
            Step::Delete(key) => {
                let (found, duration_ns) = timed(|| store.delete(key));
                (Answer::Deleted(found?), duration_ns)
            }
        };
        durations_ns.push(duration_ns);
        answers.push(answer);
    }
    Ok(())
}

#[inline(always)]
fn timed<T>(operation: impl FnOnce() -> T) -> (T, u64) {
    let started_ns = clock_ns();
    let answer = black_box(operation());
    (answer, clock_ns() - started_ns)
}
