//! Measures single operations natively: 20,000 entries of 36 + 160 bytes on tmpfs, one thread.
//!
//! Prints median, least and most of several interleaved rounds, in nanoseconds, together with those
//! of a `HashMap` in the same run: quote the ratio, not the time. `cargo bench -p tuckbox-engine`.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use tuckbox_engine::{Buffer, Cache, Config, Place, Ttl, Value};

const ENTRIES: usize = 20_000;
const ROUNDS: usize = 11;

fn key(number: usize) -> String {
    let n = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        n >> 32,
        n >> 16 & 0xffff,
        n & 0xfff,
        n >> 52,
        n >> 8 & 0xffff_ffff_ffff
    )
}

fn time(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_nanos() as f64 / ENTRIES as f64
}

fn main() {
    let folder = if PathBuf::from("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
    let path = PathBuf::from(folder).join(format!("tuckbox-bench-{}.tuck", std::process::id()));
    let cache = Cache::open(&Place::Path(path.clone()), &Config::default()).expect("a cache");
    let keys: Vec<String> = (0..ENTRIES).map(key).collect();
    let absent: Vec<String> = (ENTRIES..2 * ENTRIES).map(key).collect();
    let value = [7u8; 160];
    let mut map: HashMap<String, Vec<u8>> = HashMap::new();
    for key in &keys {
        cache.set(key.as_bytes(), Value::bytes(&value), Ttl::Never).expect("a set");
        cache
            .set(format!("ttl {key}").as_bytes(), Value::bytes(&value), Ttl::Us(1 << 40))
            .expect("a set");
        map.insert(key.clone(), value.to_vec());
    }
    let with_ttl: Vec<String> = keys.iter().map(|key| format!("ttl {key}")).collect();
    let mut buffer = Buffer::new();
    let names = [
        "HashMap get, copied",
        "get hit",
        "get hit, with ttl",
        "get miss",
        "HashMap insert",
        "set over",
        "delete + set",
    ];
    let mut times = vec![Vec::new(); names.len()];
    for _ in 0..ROUNDS {
        times[0].push(time(|| {
            keys.iter().for_each(|key| {
                black_box(map.get(key).cloned());
            })
        }));
        for (place, keys) in [(1, &keys), (2, &with_ttl), (3, &absent)] {
            let buffer = &mut buffer;
            let cache = &cache;
            times[place].push(time(|| {
                keys.iter().for_each(|key| {
                    black_box(
                        cache
                            .get(key.as_bytes(), buffer)
                            .expect("a get")
                            .map(|entry| entry.version),
                    );
                })
            }));
        }
        times[4].push(time(|| {
            keys.iter().for_each(|key| {
                map.insert(key.clone(), value.to_vec());
            })
        }));
        times[5].push(time(|| {
            keys.iter().for_each(|key| {
                cache.set(key.as_bytes(), Value::bytes(&value), Ttl::Never).expect("a set");
            })
        }));
        times[6].push(time(|| {
            keys.iter().for_each(|key| {
                cache.delete(key.as_bytes()).expect("a delete");
                cache.set(key.as_bytes(), Value::bytes(&value), Ttl::Never).expect("a set");
            })
        }));
    }
    println!("{:22} {:>9} {:>9} {:>9}  ns per operation", "", "median", "least", "most");
    for (name, times) in names.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("{name:22} {:9.1} {:9.1} {:9.1}", times[ROUNDS / 2], times[0], times[ROUNDS - 1]);
    }
    drop(cache);
    let _ = std::fs::remove_file(path);
}
