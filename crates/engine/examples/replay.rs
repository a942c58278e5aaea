//! Replays a trace of requests on the engine itself and prints the hit ratio: look up, insert on
//! a miss. The trace comes on standard input as lines `key,size` after a heading; sizes are those
//! of the trace when the limit is in bytes, and nothing when it is in entries.
//!
//! ```text
//! zstd -dc trace.csv.zst | cargo run --release --example replay -- entries 1024
//! ```

use std::io::BufRead;

use tuckbox_engine::{Buffer, Cache, Config, Place, Ttl, Value};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let (unit, limit): (&str, u64) = match arguments.as_slice() {
        [_, unit, limit] if unit == "entries" || unit == "bytes" => (unit.as_str(), limit.parse()?),
        _ => return Err("usage: replay entries|bytes LIMIT < trace.csv".into()),
    };
    let config = if unit == "entries" {
        // Room for the records is no limit here: at most 200 bytes each, and dead space.
        let size_bytes = (limit * 400).max(1 << 20);
        Config { max_entries: Some(limit), size_bytes, ..Config::default() }
    } else {
        Config { size_bytes: limit, ..Config::default() }
    };
    let cache = Cache::open(&Place::Private, &config)?;
    let mut buffer = Buffer::new();
    let filler = vec![7u8; 8 << 20];
    let (mut requests, mut hits, mut refused) = (0u64, 0u64, 0u64);
    for line in std::io::stdin().lock().lines().skip(1) {
        let line = line?;
        let mut fields = line.split(',');
        let key: u64 = fields.next().ok_or("a line without a key")?.parse()?;
        let size: usize = fields.next().ok_or("a line without a size")?.parse()?;
        requests += 1;
        if cache.get(&key.to_le_bytes(), &mut buffer)?.is_some() {
            hits += 1;
            continue;
        }
        let len = if unit == "bytes" { size.min(filler.len()) } else { 0 };
        if cache.set(&key.to_le_bytes(), Value::bytes(&filler[..len]), Ttl::Never).is_err() {
            refused += 1;
        }
    }
    let ratio = 100.0 * hits as f64 / requests as f64;
    let stats = cache.stats();
    println!(
        "{ratio:.2} % of {requests} requests; {} entries in {} bytes of {}; {refused} refused; \
         {} segments of {} bytes, {} for the index, {} free; {} shards",
        stats.entries,
        stats.entry_bytes,
        stats.file_bytes,
        stats.segments,
        stats.segment_bytes,
        stats.segments_index,
        stats.segments_free,
        stats.shards,
    );
    Ok(())
}
