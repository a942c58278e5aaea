//! Writes the header of a new file, and decides whether an existing file may be used. Must not know
//! what lies behind the header. Nothing is written to a file before all of the header was checked.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use twox_hash::XxHash3_64;

use crate::error::{Error, Result};
use crate::layout::{
    self, header, AfterPowerCut, Geometry, Layer, Plan, BYTE_ORDER_MARK, FORMAT_VERSION, MAGIC,
};
use crate::platform::{clock, random};
use crate::region::Region;

/// What the header holds in addition to the geometry.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    /// Random; tells two caches apart.
    pub cache_id: [u64; 2],
    /// Random; keys hashes and checksums.
    pub hash_key: [u64; 2],
}

impl Identity {
    /// A new identity from the system's random numbers.
    pub fn random() -> Identity {
        let random = || getrandom::u64().unwrap_or_else(|_| fallback_random());
        Identity { cache_id: [random(), random()], hash_key: [random(), random()] }
    }
}

/// Used if the system call for random numbers fails: the system's other source, or else values that
/// are hard to guess from outside of this process (nanosecond time, addresses).
fn fallback_random() -> u64 {
    if let Ok(random) = random::other_source() {
        return random;
    }
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let parts = [
        since_1970.as_nanos() as u64,
        clock::boot_time_us(),
        std::ptr::from_ref(&since_1970).addr() as u64,
        std::ptr::from_ref(&COUNT).addr() as u64,
        u64::from(std::process::id()) << 32 | COUNT.fetch_add(1, Ordering::Relaxed),
    ];
    XxHash3_64::oneshot(&parts.map(u64::to_ne_bytes).concat())
}

fn checksum(region: &Region) -> u64 {
    let mut words = [0u64; (header::CHECKSUM / 8) as usize];
    region.copy_out(0, &mut words);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    XxHash3_64::oneshot(&bytes)
}

/// Writes the fixed part. The magic goes last.
pub fn write(region: &Region, geometry: &Geometry, identity: &Identity, above: u64) {
    let plan = &geometry.plan;
    for (offset, value) in [
        (header::FORMAT_VERSION, FORMAT_VERSION),
        (header::BYTE_ORDER, BYTE_ORDER_MARK),
        (header::LAYOUT_SIGNATURE, layout::signature(above)),
        (header::CACHE_ID, identity.cache_id[0]),
        (header::CACHE_ID + 8, identity.cache_id[1]),
        (header::HASH_KEY, identity.hash_key[0]),
        (header::HASH_KEY + 8, identity.hash_key[1]),
        (header::FEATURES_REQUIRED, plan.after_power_cut.features()),
        (header::FEATURES_OPTIONAL, plan.features_optional),
        (header::SIZE_BYTES, plan.size_bytes),
        (header::MAX_ENTRIES, plan.max_entries),
        (header::SEGMENT_BYTES, plan.segment_bytes),
        (header::SEGMENT_COUNT, geometry.segment_count),
        (header::SHARD_COUNT, plan.shard_count),
        (header::SHARD_BYTES, plan.shard_bytes),
        (header::TABLE_BYTES, plan.table_bytes),
        (header::PROCESS_COUNT, geometry.process_count),
        (header::CREATED_US, clock::wall_time_us()),
        (header::MAGIC, MAGIC),
    ] {
        region.set(offset, value);
    }
    region.store(header::CHECKSUM, checksum(region), Ordering::Release);
}

/// Reads the fixed part of a mapped file whose header page is usable. Believes only what it can
/// compute again.
///
/// # Errors
/// [`Error::NotACache`], [`Error::VersionMismatch`] or [`Error::Damaged`].
pub fn read(
    region: &Region,
    path: &Path,
    file_bytes: u64,
    above: Layer,
) -> Result<(Geometry, Identity)> {
    let mismatch = |found, known| Err(Error::VersionMismatch { path: path.into(), found, known });
    let damaged = |what| Err(Error::Damaged { path: path.into(), what });
    if region.get(header::MAGIC) != MAGIC {
        return Err(Error::NotACache { path: path.into(), reason: "its magic bytes are wrong" });
    }
    if region.get(header::BYTE_ORDER) != BYTE_ORDER_MARK {
        let known = format!("{FORMAT_VERSION} (this machine's byte order)");
        return mismatch("unknown (opposite byte order)".into(), known);
    }
    let version = region.get(header::FORMAT_VERSION);
    if version != FORMAT_VERSION {
        return mismatch(version.to_string(), FORMAT_VERSION.to_string());
    }
    if region.get(header::CHECKSUM) != checksum(region) {
        return damaged("the header's checksum does not match");
    }
    let signature = region.get(header::LAYOUT_SIGNATURE);
    let ours = layout::signature(above.signature);
    if signature != ours {
        return mismatch(
            format!("{version} with layout {signature:016x}"),
            format!("{FORMAT_VERSION} with layout {ours:016x}"),
        );
    }
    let required = region.get(header::FEATURES_REQUIRED);
    if required & !AfterPowerCut::KNOWN_FEATURES != 0 {
        return mismatch(
            format!("{version} with features {required:#x}"),
            format!("{FORMAT_VERSION} without them"),
        );
    }
    let word = |offset| region.get(offset);
    let plan = Plan {
        size_bytes: word(header::SIZE_BYTES),
        max_entries: word(header::MAX_ENTRIES),
        features_optional: word(header::FEATURES_OPTIONAL),
        after_power_cut: AfterPowerCut::from_features(required),
        segment_bytes: word(header::SEGMENT_BYTES),
        shard_count: word(header::SHARD_COUNT),
        shard_bytes: word(header::SHARD_BYTES),
        table_bytes: word(header::TABLE_BYTES),
        first_segments: 0,
    };
    let sane = plan.segment_bytes.is_power_of_two()
        && (4096..=1 << 30).contains(&plan.segment_bytes)
        && (1..=4096).contains(&plan.shard_count)
        && plan.shard_bytes % 64 == 0
        && plan.shard_bytes <= 1 << 32
        && plan.table_bytes % 64 == 0
        && plan.table_bytes <= 1 << 32
        && plan.size_bytes <= layout::SIZE_BYTES_MAX
        && (above.makes)(&plan);
    let is_same = |geometry: &Geometry| {
        geometry.segment_count == word(header::SEGMENT_COUNT)
            && geometry.process_count == word(header::PROCESS_COUNT)
    };
    let geometry = if sane { Geometry::new(plan).ok() } else { None };
    let Some(geometry) = geometry.filter(is_same) else {
        return damaged("its header has impossible sizes");
    };
    if file_bytes < geometry.pool_at {
        return damaged("the file was truncated");
    }
    let identity = Identity {
        cache_id: [word(header::CACHE_ID), word(header::CACHE_ID + 8)],
        hash_key: [word(header::HASH_KEY), word(header::HASH_KEY + 8)],
    };
    Ok((geometry, identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::HEADER_BYTES;

    const ABOVE: u64 = 7;

    fn plan() -> Plan {
        Plan {
            size_bytes: 1 << 20,
            max_entries: 0,
            features_optional: 0,
            after_power_cut: AfterPowerCut::Keep,
            segment_bytes: 4096,
            shard_count: 2,
            shard_bytes: 4096,
            table_bytes: 4096,
            first_segments: 2,
        }
    }

    /// The largest cache cannot be created on every machine; its header can.
    #[test]
    fn the_header_of_the_largest_cache_is_accepted() {
        let (size_bytes, segment_bytes) = (layout::SIZE_BYTES_MAX, 1 << 20);
        let geometry = Geometry::new(Plan { size_bytes, segment_bytes, ..plan() }).unwrap();
        let page = Region::heap(HEADER_BYTES);
        let identity = Identity { cache_id: [1, 2], hash_key: [3, 4] };
        write(&page, &geometry, &identity, ABOVE);
        let above = Layer { signature: ABOVE, makes: |_| true };
        let (found, _) = read(&page, Path::new("/a.tuck"), geometry.pool_at, above).unwrap();
        assert_eq!(found.file_bytes_max(), geometry.file_bytes_max());
        page.set(header::SIZE_BYTES, size_bytes + 1);
        page.set(header::CHECKSUM, checksum(&page));
        assert!(read(&page, Path::new("/a.tuck"), geometry.pool_at, above).is_err());
    }

    /// The error for a header with one changed word and a valid checksum.
    fn answer(at: u64, value: u64) -> String {
        let geometry = Geometry::new(plan()).unwrap();
        let page = Region::heap(HEADER_BYTES);
        let identity = Identity { cache_id: [1, 2], hash_key: [3, 4] };
        write(&page, &geometry, &identity, ABOVE);
        page.set(at, value);
        page.set(header::CHECKSUM, checksum(&page));
        let above = Layer { signature: ABOVE, makes: |plan| plan.shard_bytes == 4096 };
        match read(&page, Path::new("/a.tuck"), 1 << 20, above) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn another_build_and_another_future_are_told_exactly() {
        let sound = layout::signature(ABOVE);
        assert_eq!(answer(header::FEATURES_OPTIONAL, 1 << 40), "");
        assert_eq!(
            answer(header::FEATURES_REQUIRED, 0x20),
            "/a.tuck has format 1 with features 0x20, but this version of Tuckbox reads format 1 \
             without them; it was not changed: use another path, or remove the file to start with \
             an empty cache"
        );
        // A build with another word size or layout has another signature.
        assert_eq!(
            answer(header::LAYOUT_SIGNATURE, 0x32),
            format!(
                "/a.tuck has format 1 with layout 0000000000000032, but this version of Tuckbox \
                 reads format 1 with layout {sound:016x}; it was not changed: use another path, or \
                 remove the file to start with an empty cache"
            )
        );
        for (at, value) in [
            (header::SEGMENT_BYTES, 4097),
            (header::SHARD_COUNT, 0),
            (header::SHARD_BYTES, 4096 - 64),
            (header::SEGMENT_COUNT, 1 << 50),
            (header::SIZE_BYTES, u64::MAX),
            (header::PROCESS_COUNT, 1 << 20),
        ] {
            assert_eq!(
                answer(at, value),
                "/a.tuck is damaged (its header has impossible sizes); it was not changed: \
                 remove the file to start with an empty cache"
            );
        }
    }
}
