//! Replays a trace of requests on the engine, once for each cell, and prints one line of JSON for
//! each: `make hit-ratio` reads them.
//!
//! A cell is one of
//!
//! - `entries:LIMIT:SHARDS`: empty values; the byte limit does not bind;
//! - `bytes:LIMIT:FAVOUR`: values of the lengths in the trace, in a file of that many bytes,
//!   everything included; `FAVOUR` is `balanced`, `hits` or `bytes`. With `:LONGEST`, longer values
//!   are refused;
//! - `payload:ENTRIES:PERCENT`: keys of 36 and values of 160 bytes, in a file of this percentage of
//!   the bytes of this many keys and values;
//! - `fleet:ENTRIES:MACHINES:ROUTE:STALE:CLEARED`: the lookups are divided over so many caches of
//!   so many empty values. `ROUTE` is `random`, or `sticky`: each key has its machine. A value
//!   expires after `STALE` lookups of a machine, 0 for never. If `CLEARED` is 1, all caches are
//!   cleared once, in the middle of the trace. The line has the lookups and hits of each of 64 equal
//!   parts of the trace.
//!
//! The trace comes on standard input: a heading, then lines `key,size[,op[,ttl_ms]]`. `get` looks a
//! key up and stores it on a miss, `set` stores it, `delete` deletes it; without a third column
//! every line is a `get`. A millisecond passes with each request.
//!
//! ```text
//! zstd -dc trace.csv.zst | cargo run --release --example replay -- entries:1024:1 bytes:1048576:hits
//! ```

use std::collections::HashMap;
use std::io::BufRead;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use tuckbox_engine::{Buffer, Cache, Clock, Config, Favour, Place, Ttl, Value};

type Anything<T> = Result<T, Box<dyn std::error::Error>>;

const MS: u64 = 1_000;
const SHORT_KEY_BYTES: usize = 4;
/// Lengths for cells that count real memory.
const KEY_BYTES: usize = 36;
const VALUE_BYTES: usize = 160;

/// The size of a cache that gets this many shards.
fn bytes_for(shards: u64) -> u64 {
    if shards <= 4 {
        shards << 24
    } else {
        shards << 26
    }
}

/// Settings with so many entries as the only limit.
fn config_for(limit: u64, shards: u64) -> Config {
    // Large enough that the byte limit never binds.
    let size_bytes = bytes_for(shards).max(limit.saturating_mul(128));
    Config { max_entries: Some(limit), size_bytes, ..Config::default() }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Get,
    Set,
    Delete,
}

struct Request {
    key: u32,
    size: u32,
    ttl_ms: u32,
    op: Op,
}

struct Cell {
    name: String,
    config: Config,
    values: Values,
    key_bytes: usize,
}

/// What a command line argument asks for.
enum Asked {
    One(Cell),
    Fleet(Fleet),
}

/// Caches that divide the lookups of a trace.
struct Fleet {
    name: String,
    entries: u64,
    machines: u64,
    sticky: bool,
    stale: u64,
    cleared: bool,
}

/// Parts of a trace whose hits a fleet counts.
const PARTS: usize = 64;

/// The length of values.
#[derive(Clone, Copy)]
enum Values {
    AsTheTraceSays { longest: usize },
    Fixed(usize),
}

fn parse_request(line: &str) -> Anything<Request> {
    let mut fields = line.split(',');
    let mut next = || fields.next().filter(|field| !field.is_empty());
    let key = next().ok_or("a line without a key")?.parse()?;
    let size = next().ok_or("a line without a size")?.parse()?;
    let op = match next().unwrap_or("get") {
        "get" => Op::Get,
        "set" => Op::Set,
        "delete" => Op::Delete,
        other => return Err(format!("no operation: {other}").into()),
    };
    let ttl_ms = next().map_or(Ok(0), str::parse)?;
    Ok(Request { key, size, ttl_ms, op })
}

fn parse_asked(argument: &str) -> Anything<Asked> {
    let fields: Vec<&str> = argument.split(':').collect();
    let name = argument.to_owned();
    match fields.as_slice() {
        ["fleet", entries, machines, route, stale, cleared] => {
            let sticky = match *route {
                "random" => false,
                "sticky" => true,
                other => return Err(format!("no route: {other}").into()),
            };
            let (entries, machines, stale) = (entries.parse()?, machines.parse()?, stale.parse()?);
            let cleared = *cleared == "1";
            Ok(Asked::Fleet(Fleet { name, entries, machines, sticky, stale, cleared }))
        }
        ["entries", limit, shards] => {
            let config = config_for(limit.parse()?, shards.parse()?);
            Ok(Asked::One(Cell {
                name,
                config,
                values: Values::Fixed(0),
                key_bytes: SHORT_KEY_BYTES,
            }))
        }
        ["bytes", limit, favour, longest @ ..] if longest.len() <= 1 => {
            let longest = longest.first().map_or(Ok(usize::MAX), |longest| longest.parse())?;
            let favour = match *favour {
                "balanced" => Favour::Balanced,
                "hits" => Favour::Hits,
                "bytes" => Favour::Bytes,
                other => return Err(format!("nothing to favour: {other}").into()),
            };
            let config = Config { size_bytes: limit.parse()?, favour, ..Config::default() };
            Ok(Asked::One(Cell {
                name,
                config,
                values: Values::AsTheTraceSays { longest },
                key_bytes: SHORT_KEY_BYTES,
            }))
        }
        ["payload", entries, percent] => {
            let (entries, percent): (u64, u64) = (entries.parse()?, percent.parse()?);
            let entry_bytes = (KEY_BYTES + VALUE_BYTES) as u64;
            let size_bytes = entries.saturating_mul(entry_bytes).saturating_mul(percent) / 100;
            let config = Config { size_bytes, ..Config::default() };
            Ok(Asked::One(Cell {
                name,
                config,
                values: Values::Fixed(VALUE_BYTES),
                key_bytes: KEY_BYTES,
            }))
        }
        _ => Err(format!("{argument}: not a cell; see the head of replay.rs").into()),
    }
}

/// SplitMix64: a number that looks random, the same in each replay.
fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Divides the lookups, and replays those of one machine after those of another: nothing that one
/// does changes what another one finds.
fn replay_fleet(fleet: &Fleet, requests: &[Request]) -> Anything<()> {
    let mut divided: Vec<Vec<(usize, u32)>> = Vec::new();
    divided.resize_with(usize::try_from(fleet.machines)?, Vec::new);
    for (place, request) in requests.iter().enumerate() {
        if request.op != Op::Get {
            return Err("a fleet replays lookups only".into());
        }
        let by = if fleet.sticky { u64::from(request.key) } else { place as u64 };
        let machine = usize::try_from(scattered(by) % fleet.machines)?;
        divided[machine].push((place, request.key));
    }
    let ttl = match fleet.stale * fleet.machines {
        0 => Ttl::Never,
        lookups => Ttl::Us(lookups * MS),
    };
    let (mut gets, mut hits) = ([0u64; PARTS], [0u64; PARTS]);
    let mut buffer = Buffer::new();
    for lookups in &divided {
        let now = Arc::new(AtomicU64::new(1));
        let config = Config { clock: Clock::Manual(now.clone()), ..config_for(fleet.entries, 1) };
        let cache = Cache::open(&Place::Private, &config)?;
        let mut is_due = fleet.cleared;
        for &(place, number) in lookups {
            now.store((place as u64 + 1) * MS, Ordering::Relaxed);
            if is_due && place >= requests.len() / 2 {
                cache.clear()?;
                is_due = false;
            }
            let key = number.to_le_bytes();
            let part = place * PARTS / requests.len();
            gets[part] += 1;
            if cache.get(&key, &mut buffer)?.is_some() {
                hits[part] += 1;
            } else {
                cache.set(&key, Value::bytes(&[]), ttl)?;
            }
        }
    }
    println!(r#"{{"cell": "{}", "gets": {gets:?}, "hits": {hits:?}}}"#, fleet.name);
    Ok(())
}

/// A key of this length that begins with the number.
fn key_of(number: u32, len: usize, key: &mut [u8; KEY_BYTES]) -> &[u8] {
    key[..SHORT_KEY_BYTES].copy_from_slice(&number.to_le_bytes());
    &key[..len]
}

/// Bytes of the present values, as the trace counts them.
fn value_bytes_of(cache: &Cache, cell_key_bytes: usize, requests: &[Request]) -> Anything<u64> {
    let mut sizes = HashMap::new();
    sizes.extend(requests.iter().map(|request| (request.key, request.size)));
    let (mut sum, mut buffer) = (0, Buffer::new());
    let mut key = [b'k'; KEY_BYTES];
    for (number, size) in sizes {
        if cache.contains(key_of(number, cell_key_bytes, &mut key), &mut buffer)? {
            sum += u64::from(size);
        }
    }
    Ok(sum)
}

fn replay(cell: Cell, requests: &[Request], filler: &[u8]) -> Anything<()> {
    let (values, key_bytes) = (cell.values, cell.key_bytes);
    let mut key_room = [b'k'; KEY_BYTES];
    let now = Arc::new(AtomicU64::new(1));
    let cache =
        Cache::open(&Place::Private, &Config { clock: Clock::Manual(now.clone()), ..cell.config })?;
    let mut buffer = Buffer::new();
    let (mut gets, mut hits, mut refused) = (0u64, 0u64, 0u64);
    let (mut bytes, mut hit_bytes) = (0u64, 0u64);
    let began = Instant::now();
    for request in requests {
        now.fetch_add(MS, Ordering::Relaxed);
        let key = key_of(request.key, key_bytes, &mut key_room);
        match request.op {
            Op::Get => {
                gets += 1;
                bytes += u64::from(request.size);
                if cache.get(key, &mut buffer)?.is_some() {
                    hits += 1;
                    hit_bytes += u64::from(request.size);
                    continue;
                }
            }
            Op::Set => {}
            Op::Delete => {
                cache.delete(key)?;
                continue;
            }
        }
        let len = match values {
            Values::AsTheTraceSays { longest } if request.size as usize > longest => {
                refused += 1;
                continue;
            }
            Values::AsTheTraceSays { .. } => request.size as usize,
            Values::Fixed(len) => len,
        };
        let ttl = match request.ttl_ms {
            0 => Ttl::Never,
            ttl_ms => Ttl::Us(u64::from(ttl_ms) * MS),
        };
        // A refused value is too long for this cache.
        refused += u64::from(cache.set(key, Value::bytes(&filler[..len]), ttl).is_err());
    }
    let request_ns = began.elapsed().as_nanos() as f64 / requests.len().max(1) as f64;
    let stats = cache.stats();
    let mut line = format!(r#"{{"cell": "{}", "shards": {}, "#, cell.name, stats.shards);
    line += &format!(r#""gets": {gets}, "hits": {hits}, "bytes": {bytes}, "#);
    line += &format!(r#""hit_bytes": {hit_bytes}, "refused": {refused}, "#);
    line += &format!(r#""entries": {}, "file_bytes": {}, "#, stats.entries, stats.file_bytes);
    line += &format!(r#""entry_bytes": {}, "#, stats.entry_bytes);
    let value_bytes = value_bytes_of(&cache, key_bytes, requests)?;
    line += &format!(r#""value_bytes": {value_bytes}, "#);
    line += &format!(r#""index_bytes": {}, "#, stats.segments_index * stats.segment_bytes);
    println!(r#"{line}"request_ns": {request_ns:.0}}}"#);
    Ok(())
}

fn main() -> Anything<()> {
    let asked: Vec<Asked> =
        std::env::args().skip(1).map(|arg| parse_asked(&arg)).collect::<Result<_, _>>()?;
    let lines = std::io::stdin().lock().lines().skip(1);
    let requests: Vec<Request> =
        lines.map(|line| parse_request(&line?)).collect::<Result<_, _>>()?;
    let longest = requests.iter().map(|request| request.size).max().unwrap_or(0);
    let filler = vec![7u8; (longest as usize).max(VALUE_BYTES)];
    asked.into_iter().try_for_each(|asked| match asked {
        Asked::One(cell) => replay(cell, &requests, &filler),
        Asked::Fleet(fleet) => replay_fleet(&fleet, &requests),
    })
}
