//! Replays a trace of requests on the engine itself, once for each cell, and prints a line of JSON
//! for each: `make hit-ratio` reads them.
//!
//! A cell is `entries:LIMIT:SHARDS` (empty values; bytes are no limit) or `bytes:LIMIT` (values as
//! long as the trace says, in a file of that many bytes, everything included). The trace comes on
//! standard input: a heading, then lines `key,size[,op[,ttl_ms]]`. `get` looks a key up and stores
//! it on a miss, `set` stores it, `delete` removes it; without a third column every line is a
//! `get`. A millisecond passes with each request.
//!
//! ```text
//! zstd -dc trace.csv.zst | cargo run --release --example replay -- entries:1024:1 bytes:1048576
//! ```

use std::io::BufRead;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use tuckbox_engine::{Buffer, Cache, Clock, Config, Place, Ttl, Value};

type Anything<T> = Result<T, Box<dyn std::error::Error>>;

/// The plan gives a shard to every so many bytes of a cache of one, four or sixteen shards.
const SHARD_BYTES: u64 = 16 << 20;
const MS: u64 = 1_000;

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
    has_values: bool,
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
    let usage = || format!("{argument}: not entries:LIMIT:SHARDS or bytes:LIMIT");
    let fields: Vec<&str> = argument.split(':').collect();
    let (config, has_values) = match fields.as_slice() {
        ["entries", limit, shards] => {
            let (limit, shards): (u64, u64) = (limit.parse()?, shards.parse()?);
            // So much that bytes are no limit to the greatest cell either.
            let size_bytes = (SHARD_BYTES * shards).max(limit.saturating_mul(128));
            (Config { max_entries: Some(limit), size_bytes, ..Config::default() }, false)
        }
        ["bytes", limit] => (Config { size_bytes: limit.parse()?, ..Config::default() }, true),
        _ => return Err(usage().into()),
    };
    Ok(Cell { name: argument.to_owned(), config, has_values })
}

fn replay(cell: Cell, requests: &[Request], filler: &[u8]) -> Anything<()> {
    let now = Arc::new(AtomicU64::new(1));
    let cache =
        Cache::open(&Place::Private, &Config { clock: Clock::Manual(now.clone()), ..cell.config })?;
    let mut buffer = Buffer::new();
    let (mut gets, mut hits, mut refused) = (0u64, 0u64, 0u64);
    let (mut bytes, mut hit_bytes) = (0u64, 0u64);
    let began = Instant::now();
    for request in requests {
        now.fetch_add(MS, Ordering::Relaxed);
        let key = request.key.to_le_bytes();
        match request.op {
            Op::Get => {
                gets += 1;
                bytes += u64::from(request.size);
                if cache.get(&key, &mut buffer)?.is_some() {
                    hits += 1;
                    hit_bytes += u64::from(request.size);
                    continue;
                }
            }
            Op::Set => {}
            Op::Delete => {
                cache.delete(&key)?;
                continue;
            }
        }
        let len = if cell.has_values { request.size as usize } else { 0 };
        let ttl = match request.ttl_ms {
            0 => Ttl::Never,
            ttl_ms => Ttl::Us(u64::from(ttl_ms) * MS),
        };
        // Refused: longer than this cache takes.
        refused += u64::from(cache.set(&key, Value::bytes(&filler[..len]), ttl).is_err());
    }
    let request_ns = began.elapsed().as_nanos() as f64 / requests.len().max(1) as f64;
    let stats = cache.stats();
    let mut line = format!(r#"{{"cell": "{}", "shards": {}, "#, cell.name, stats.shards);
    line += &format!(r#""gets": {gets}, "hits": {hits}, "bytes": {bytes}, "#);
    line += &format!(r#""hit_bytes": {hit_bytes}, "refused": {refused}, "#);
    line += &format!(r#""entries": {}, "file_bytes": {}, "#, stats.entries, stats.file_bytes);
    line += &format!(r#""entry_bytes": {}, "#, stats.entry_bytes);
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
    let filler = vec![7u8; longest as usize];
    cells.into_iter().try_for_each(|cell| replay(cell, &requests, &filler))
}
