//! Replays a trace of requests on the engine, once for each cell, and prints one line of JSON for
//! each: `make hit-ratio` reads them.
//!
//! A cell is one of
//!
//! - `entries:LIMIT:SHARDS`: empty values; the byte limit does not bind;
//! - `bytes:LIMIT:FAVOUR`: values of the lengths in the trace, in a file of that many bytes,
//!   everything included; `FAVOUR` is `balanced`, `hits` or `bytes`;
//! - `payload:ENTRIES:PERCENT`: keys of 36 and values of 160 bytes, in a file of this percentage of
//!   the bytes of this many keys and values.
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

/// The length of values.
#[derive(Clone, Copy)]
enum Values {
    AsTheTraceSays,
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

fn parse_cell(argument: &str) -> Anything<Cell> {
    let fields: Vec<&str> = argument.split(':').collect();
    let name = argument.to_owned();
    match fields.as_slice() {
        ["entries", limit, shards] => {
            let (limit, shards): (u64, u64) = (limit.parse()?, shards.parse()?);
            // Large enough that the byte limit never binds.
            let size_bytes = bytes_for(shards).max(limit.saturating_mul(128));
            let config = Config { max_entries: Some(limit), size_bytes, ..Config::default() };
            Ok(Cell { name, config, values: Values::Fixed(0), key_bytes: SHORT_KEY_BYTES })
        }
        ["bytes", limit, favour] => {
            let favour = match *favour {
                "balanced" => Favour::Balanced,
                "hits" => Favour::Hits,
                "bytes" => Favour::Bytes,
                other => return Err(format!("nothing to favour: {other}").into()),
            };
            let config = Config { size_bytes: limit.parse()?, favour, ..Config::default() };
            Ok(Cell { name, config, values: Values::AsTheTraceSays, key_bytes: SHORT_KEY_BYTES })
        }
        ["payload", entries, percent] => {
            let (entries, percent): (u64, u64) = (entries.parse()?, percent.parse()?);
            let entry_bytes = (KEY_BYTES + VALUE_BYTES) as u64;
            let size_bytes = entries.saturating_mul(entry_bytes).saturating_mul(percent) / 100;
            let config = Config { size_bytes, ..Config::default() };
            Ok(Cell { name, config, values: Values::Fixed(VALUE_BYTES), key_bytes: KEY_BYTES })
        }
        _ => Err(format!("{argument}: not a cell; see the head of replay.rs").into()),
    }
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
    let mut sum = 0;
    let mut key = [b'k'; KEY_BYTES];
    for (number, size) in sizes {
        if cache.contains(key_of(number, cell_key_bytes, &mut key))? {
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
            Values::AsTheTraceSays => request.size as usize,
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
    let cells: Vec<Cell> =
        std::env::args().skip(1).map(|arg| parse_cell(&arg)).collect::<Result<_, _>>()?;
    let lines = std::io::stdin().lock().lines().skip(1);
    let requests: Vec<Request> =
        lines.map(|line| parse_request(&line?)).collect::<Result<_, _>>()?;
    let longest = requests.iter().map(|request| request.size).max().unwrap_or(0);
    let filler = vec![7u8; (longest as usize).max(VALUE_BYTES)];
    cells.into_iter().try_for_each(|cell| replay(cell, &requests, &filler))
}
