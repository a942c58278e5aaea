//! Entries so small that the index takes as much as the records: the index grows until nothing is
//! left for it, and the cache still works.

use tuckbox_engine::{Buffer, Cache, Config, Place, Ttl, Value};

#[test]
fn an_index_that_cannot_grow_displaces() {
    for size_bytes in [64 << 10, 256 << 10, 2 << 20] {
        let config = Config { size_bytes, ..Config::default() };
        let cache = Cache::open(&Place::Private, &config).unwrap();
        let count = size_bytes / 4;
        let mut buffer = Buffer::new();
        for number in 0..count as u32 {
            let key = number.to_le_bytes();
            cache.set(&key, Value::bytes(b""), Ttl::Never).unwrap();
            let entry = cache.get(&key, &mut buffer).unwrap().expect("it was just stored");
            assert_eq!(entry.value, Value::bytes(b""));
        }
        let report = cache.check().unwrap();
        assert!(report.is_sound(), "{report:?}");
        // Sixteen bytes each, and ten of index: a third of the file is overhead.
        assert!(report.entries > size_bytes / 80, "{} in {size_bytes}", report.entries);
    }
}
