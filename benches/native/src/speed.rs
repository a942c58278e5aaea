//! Times gets and sets of all caches in one thread, each in turn.
//!
//! Owns clocks and turns. In each round every cache makes several passes over all keys, in turn
//! with the others. A sample is the median of the passes' times, in nanoseconds per operation. A
//! black box keeps answers from being optimised away; they are verified before and after, untimed.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{json, Map, Value};

use crate::caches::{Contestant, Failure, HashMap, Moka, QuickCache, Tuckbox};
use crate::inputs;
use crate::stripped_get::StrippedGet;

/// Tuckbox's file.
const NAME: &str = "speed.tuck";
/// Each cache has space for this many times the entries, so that none evicts: some divide their
/// space into parts, which fill unevenly.
const ROOM: usize = 4;
/// What Tuckbox's file has for an entry: its key, its value, and what is stored with them.
const ENTRY_BYTES: usize = 256;
const PASSES_MAX: usize = 50;

struct Inputs {
    stored: Vec<String>,
    values: Vec<Vec<u8>>,
    shuffled: Vec<String>,
    absent: Vec<String>,
}

/// A cache and its timed passes; the clock runs from the first key to the last.
struct Timed<C>(C);

trait Turns {
    fn verify(&mut self, inputs: &Inputs) -> Result<(), Failure>;
    /// Makes one pass; returns the nanoseconds of an operation.
    fn pass(&mut self, what: What, inputs: &Inputs) -> f64;
}

#[derive(Clone, Copy)]
enum What {
    Get,
    GetAndRead,
    GetInOrder,
    GetAbsent,
    Set,
}

const WHATS: [(What, &str); 5] = [
    (What::Get, "get"),
    (What::GetAndRead, "get, each value read"),
    (What::GetInOrder, "get, in the order of the sets"),
    (What::GetAbsent, "get, absent"),
    (What::Set, "set"),
];

/// Returns the nanoseconds of an operation.
fn time(operations: usize, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_nanos() as f64 / operations as f64
}

/// A program that does nothing with an answer, so that the next get begins at once.
#[inline(always)]
fn ignore(answer: &[u8]) {
    black_box(answer);
}

/// A program that reads the bytes one by one, for the hash FNV-1a. Between two gets there are then more
/// instructions than a processor looks ahead, as in most programs.
#[inline(always)]
fn read(answer: &[u8]) {
    black_box(answer.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    }));
}

impl<C: Contestant> Timed<C> {
    fn filled(mut cache: C, inputs: &Inputs) -> Timed<C> {
        for (key, value) in inputs.stored.iter().zip(&inputs.values) {
            cache.set(key, value);
        }
        Timed(cache)
    }

    fn get_all(&mut self, keys: &[String], consume: impl Fn(&[u8])) -> f64 {
        let cache = &mut self.0;
        time(keys.len(), || {
            for key in keys {
                if let Some(answer) = cache.get(key) {
                    consume(&answer);
                }
            }
        })
    }

    fn set_all(&mut self, inputs: &Inputs) -> f64 {
        let cache = &mut self.0;
        time(inputs.stored.len(), || {
            for (key, value) in inputs.stored.iter().zip(&inputs.values) {
                cache.set(key, value);
            }
        })
    }
}

impl<C: Contestant> Turns for Timed<C> {
    fn verify(&mut self, inputs: &Inputs) -> Result<(), Failure> {
        for key in &inputs.shuffled {
            let answer = self.0.get(key);
            if answer != Some(inputs::value_of(key)) {
                return Err(format!("the value of {key} is not the one that was stored").into());
            }
        }
        for key in &inputs.absent {
            if self.0.get(key).is_some() {
                return Err(format!("{key} was found, and was never stored").into());
            }
        }
        Ok(())
    }

    fn pass(&mut self, what: What, inputs: &Inputs) -> f64 {
        match what {
            What::Get => self.get_all(&inputs.shuffled, ignore),
            What::GetAndRead => self.get_all(&inputs.shuffled, read),
            What::GetInOrder => self.get_all(&inputs.stored, ignore),
            What::GetAbsent => self.get_all(&inputs.absent, ignore),
            What::Set => self.set_all(inputs),
        }
    }
}

type Caches = Vec<(&'static str, Box<dyn Turns>)>;

fn verify(caches: &mut Caches, inputs: &Inputs) -> Result<(), Failure> {
    for (name, cache) in caches {
        cache.verify(inputs).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// As many passes as the slowest cache can make in a round's time.
fn passes(caches: &mut Caches, inputs: &Inputs, round: Duration) -> usize {
    let slowest_ns = caches
        .iter_mut()
        .map(|(_, cache)| cache.pass(What::Get, inputs) * inputs.stored.len() as f64)
        .fold(1.0, f64::max);
    ((round.as_nanos() as f64 / slowest_ns) as usize).clamp(1, PASSES_MAX)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the samples by operation and by cache.
pub(crate) fn measure(
    folder: &Path,
    entries: usize,
    rounds: usize,
    round_ms: u64,
) -> Result<Value, Failure> {
    let stored = inputs::keys(0, entries);
    let inputs = Inputs {
        values: stored.iter().map(|key| inputs::value_of(key)).collect(),
        shuffled: inputs::shuffled(&stored),
        absent: inputs::keys(entries, entries),
        stored,
    };
    let room = ROOM * entries;
    let tuckbox = Tuckbox::limited(folder, NAME, (room * ENTRY_BYTES) as u64, 0)?;
    let moka = Timed::filled(Moka::new(room), &inputs);
    moka.0.settle();
    let mut caches: Caches = vec![
        ("tuckbox", Box::new(Timed::filled(tuckbox, &inputs))),
        ("moka", Box::new(moka)),
        ("quick_cache", Box::new(Timed::filled(QuickCache::new(room), &inputs))),
        ("stripped", Box::new(Timed::filled(StrippedGet::new(entries), &inputs))),
        ("HashMap", Box::new(Timed::filled(HashMap::default(), &inputs))),
    ];
    verify(&mut caches, &inputs)?;
    let passes = passes(&mut caches, &inputs, Duration::from_millis(round_ms));
    let mut samples = vec![vec![Vec::with_capacity(rounds); caches.len()]; WHATS.len()];
    for round in 0..rounds {
        for (index, (what, _)) in WHATS.iter().enumerate() {
            let mut times = vec![Vec::with_capacity(passes); caches.len()];
            for _ in 0..passes {
                for step in 0..caches.len() {
                    let turn = (round + step) % caches.len();
                    times[turn].push(caches[turn].1.pass(*what, &inputs));
                }
            }
            for (turn, times) in times.into_iter().enumerate() {
                samples[index][turn].push(median(times));
            }
        }
        verify(&mut caches, &inputs)?;
    }
    let found = WHATS.iter().zip(&samples).map(|((_, what), of_caches)| {
        let by_cache: Map<String, Value> = caches
            .iter()
            .zip(of_caches)
            .map(|((name, _), samples)| ((*name).to_owned(), json!(samples)))
            .collect();
        ((*what).to_owned(), Value::Object(by_cache))
    });
    std::fs::remove_file(folder.join(NAME))?;
    Ok(Value::Object(found.collect()))
}
