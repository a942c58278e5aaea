//! The timed loops, and nothing between the clock's two readings but the operations.
//!
//! Owns how operations are timed. Must not know which contestant it drives. Each pass goes in
//! blocks: keys and values are made ready, the operations obeyed and their answers kept, the clock
//! stops, then the answers are checked and dropped.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use crate::contract::{Result, Store};
use crate::ledger::Ledger;
use crate::protocol::{Actions, Measure, Ran, Run};
use crate::stream::{Operation, Verb};
use crate::timing::{cpu_ns, elapsed_ns};
use crate::work::{Phase, Work};

/// An operation, ready to be obeyed.
enum Step<'a, S: Store> {
    Get(&'a str),
    Set(&'a str, S::Value),
    Delete(&'a str),
}

/// What an operation was answered.
enum Answer<S: Store> {
    Got(Option<S::Answer>),
    Stored(bool),
    Deleted(bool),
}

/// Obeys a phase once, as far as the time allows.
pub(crate) fn run<S: Store>(
    store: &S,
    work: &Work,
    ledger: &mut Ledger,
    request: &Run,
) -> Result<Ran> {
    let phase = work.phase(request.phase)?;
    if request.block == 0 {
        return Err("a block must have at least one operation".into());
    }
    let count = phase.operations.len();
    let warmup = request.warmup.min(count);
    // Made now, so that a path that cannot be written to is known before the work is done.
    let durations = match request.measure {
        Measure::Latency => Some(create(&request.durations)?),
        Measure::Untimed | Measure::Throughput => None,
    };
    let mut pass = Pass {
        store,
        work,
        phase,
        ledger,
        steps: Vec::with_capacity(request.block),
        answers: Vec::with_capacity(request.block),
        durations_ns: Vec::with_capacity(if durations.is_some() { count - warmup } else { 0 }),
        ran: Ran::default(),
    };
    let began = Instant::now();
    let is_over = || began.elapsed().as_secs_f64() >= request.seconds_max;
    if pass.blocks(0..warmup, request.block, None, is_over)? {
        let started = Instant::now();
        pass.blocks(warmup..count, request.block, Some(request.measure), is_over)?;
        if request.measure != Measure::Untimed {
            pass.ran.wall_ns = elapsed_ns(started);
        }
    }
    if let Some(file) = durations {
        write(file, &pass.durations_ns)
            .map_err(|error| format!("{}: {error}", request.durations.display()))?;
    }
    Ok(pass.ran)
}

fn create(path: &Path) -> Result<File> {
    File::create_new(path)
        .map_err(|error| format!("durations {:?}: {error}", path.display()).into())
}

fn write(file: File, durations_ns: &[u64]) -> std::io::Result<()> {
    let mut file = BufWriter::new(file);
    for duration_ns in durations_ns {
        file.write_all(&duration_ns.to_le_bytes())?;
    }
    file.flush()
}

struct Pass<'a, S: Store> {
    store: &'a S,
    work: &'a Work,
    phase: &'a Phase,
    ledger: &'a mut Ledger,
    /// One block.
    steps: Vec<Step<'a, S>>,
    answers: Vec<Answer<S>>,
    durations_ns: Vec<u64>,
    ran: Ran,
}

impl<'a, S: Store> Pass<'a, S> {
    /// Obeys the operations at `positions`, and counts them unless `measure` is none, which means
    /// warming up. Whether there is time left.
    fn blocks(
        &mut self,
        positions: Range<usize>,
        block: usize,
        measure: Option<Measure>,
        is_over: impl Fn() -> bool,
    ) -> Result<bool> {
        for start in positions.clone().step_by(block) {
            let end = positions.end.min(start.saturating_add(block));
            self.prepare(start..end);
            match measure {
                None | Some(Measure::Untimed) => obey(self.store, &self.steps, &mut self.answers)?,
                Some(Measure::Throughput) => {
                    let block_ns = self.timed_block()?;
                    if end - start == block {
                        self.ran.blocks_ns.push(block_ns);
                    }
                }
                Some(Measure::Latency) => self.timed_operations()?,
            }
            self.check(start..end, measure.is_some());
            self.steps.clear();
            self.answers.clear();
            self.ran.done = end;
            if is_over() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn prepare(&mut self, positions: Range<usize>) {
        for position in positions {
            let Operation { verb, key, size } = self.phase.operations[position];
            let text = self.work.keys.text(key);
            self.steps.push(match verb {
                Verb::Get => Step::Get(text),
                Verb::Set => {
                    let sequence = self.phase.sequence(position);
                    let bytes = self.work.values.derive(key.into(), sequence, size as usize);
                    Step::Set(text, S::value(bytes))
                }
                Verb::Delete => Step::Delete(text),
            });
        }
    }

    fn timed_block(&mut self) -> Result<u64> {
        let cpu_before_ns = cpu_ns();
        let started = Instant::now();
        obey(self.store, &self.steps, &mut self.answers)?;
        let block_ns = elapsed_ns(started);
        self.ran.cpu_ns += cpu_ns() - cpu_before_ns;
        self.ran.timed_ns += block_ns;
        Ok(block_ns)
    }

    fn timed_operations(&mut self) -> Result<()> {
        let noted = self.durations_ns.len();
        let cpu_before_ns = cpu_ns();
        obey_each(self.store, &self.steps, &mut self.answers, &mut self.durations_ns)?;
        self.ran.cpu_ns += cpu_ns() - cpu_before_ns;
        self.ran.timed_ns += self.durations_ns[noted..].iter().sum::<u64>();
        Ok(())
    }

    fn check(&mut self, positions: Range<usize>, counts: bool) {
        let Work { keys, values, .. } = self.work;
        let Ran { actions, verdict, .. } = &mut self.ran;
        // What is not counted is checked all the same.
        let mut uncounted = Actions::default();
        let actions = if counts { actions } else { &mut uncounted };
        for (position, answer) in positions.zip(&self.answers) {
            let Operation { key, size, .. } = self.phase.operations[position];
            match answer {
                Answer::Got(found) => {
                    actions.get.count += 1;
                    match found {
                        Some(bytes) => {
                            let bytes = bytes.as_ref();
                            let wrong = self.ledger.judge(keys, values, key, bytes, verdict);
                            actions.get.wrong += u64::from(wrong);
                        }
                        None => {
                            actions.get.miss += 1;
                            actions.get.absent += u64::from(self.ledger.is_absent(key));
                        }
                    }
                }
                Answer::Stored(accepted) => {
                    let sequence = self.phase.sequence(position);
                    self.ledger.stored(key, sequence, size, *accepted);
                    actions.set.count += 1;
                    actions.set.miss += u64::from(!accepted);
                }
                Answer::Deleted(found) => {
                    self.ledger.deleted(key, *found);
                    actions.delete.count += 1;
                    actions.delete.miss += u64::from(!found);
                }
            }
        }
    }
}

/// Obeys a block. Not inlined: the clock is read outside, and nothing may move past the readings.
#[inline(never)]
fn obey<S: Store>(store: &S, steps: &[Step<'_, S>], answers: &mut Vec<Answer<S>>) -> Result<()> {
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

/// Obeys a block, with the clock read around each operation.
#[inline(never)]
fn obey_each<S: Store>(
    store: &S,
    steps: &[Step<'_, S>],
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
    let started = Instant::now();
    let answer = black_box(operation());
    (answer, elapsed_ns(started))
}
