//! Keys that look alike before their records are read: same tag, and at first the same buckets. A
//! reader that met the other key tries further slots, and must not skip the wanted one.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tuckbox_arena::hooks::{self, Point};
use tuckbox_engine::format::hash::{Hasher, KeyHash};
use tuckbox_engine::{Buffer, Cache, Ttl, Value};
use tuckbox_testkit::watchdog::Watchdog;

use super::{assert_sound, twins};

const SIZE_BYTES: u64 = 64 << 10;
/// The bits that select the first bucket in an index as small as this file's.
const BUCKET_BITS: u32 = 0x3ff;

/// Keys with the same tag and first bucket in a twin, whose hash key is known.
fn alike(count: usize) -> Vec<[u8; 8]> {
    let hasher = Hasher::new([3, 4]);
    let place = |hash: KeyHash| (hash.tag(), hash.first() & BUCKET_BITS);
    let wanted = place(hasher.key(&1u64.to_le_bytes()));
    let keys = (1u64..).map(u64::to_le_bytes);
    keys.filter(|key| place(hasher.key(key)) == wanted).take(count).collect()
}

fn set(cache: &Cache, key: &[u8], round: usize) {
    // Sometimes longer, so that a new record is written in another one's place.
    let value = [round as u8; 160];
    cache.set(key, Value::bytes(&value[..100 + round % 2 * 60]), Ttl::Never).unwrap();
}

fn byte_of(cache: &Cache, key: &[u8]) -> Option<u8> {
    let mut buffer = Buffer::new();
    let entry = cache.get(key, &mut buffer).unwrap()?;
    let Value::Bytes { bytes, .. } = entry.value else { panic!("a number") };
    Some(bytes[0])
}

#[test]
fn each_of_them_is_found_replaced_and_removed() {
    let keys = alike(3);
    let twins = twins(SIZE_BYTES, 2);
    let met = Rc::new(Cell::new(0));
    let count = Rc::clone(&met);
    hooks::set(move |point| count.set(count.get() + u32::from(point == Point::OtherKeyFound)));
    for round in 0..4 {
        for (index, key) in keys.iter().enumerate() {
            set(&twins[index % 2], key, 10 * round + index);
        }
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(byte_of(&twins[0], key), Some((10 * round + index) as u8));
        }
    }
    for (index, key) in keys.iter().enumerate() {
        assert!(twins[1].delete(key).unwrap());
        let there = keys.iter().filter(|key| byte_of(&twins[0], &key[..]).is_some()).count();
        assert_eq!(there, keys.len() - 1 - index);
    }
    hooks::clear();
    assert!(met.get() > 0, "no reader met another key first");
    assert_eq!(
        twins[0].stats().checksum_mismatches,
        0,
        "another key's record is not a damaged one"
    );
    assert_sound(&twins[0]);
}

/// The result of a read, and whether it met the other key first; then `work` was done meanwhile,
/// once.
fn found_after(
    reader: &Cache,
    wanted: &[u8],
    mut work: impl FnMut() + 'static,
) -> (Option<u8>, bool) {
    let has_met = Rc::new(Cell::new(false));
    let met = Rc::clone(&has_met);
    hooks::set(move |point| {
        if point == Point::OtherKeyFound && !met.replace(true) {
            work();
        }
    });
    let found = byte_of(reader, wanted);
    hooks::clear();
    (found, has_met.get())
}

/// Guards against this bug: after meeting the other key, a reader skipped any slot with the same
/// word. While it was stopped, the other key was deleted and the wanted key's record reused its
/// place, so the wanted slot, elsewhere, held that word.
#[test]
fn a_key_is_found_whose_record_reuses_anothers_place() {
    const WRITES: usize = 53;
    let _watchdog = Watchdog::new("keys of one tag", Duration::from_secs(600));
    let keys = alike(2);
    let (other, wanted) = (keys[0], keys[1]);
    let mut met = 0;
    for writes in 0..1_500 {
        let twins = twins(SIZE_BYTES, 2);
        (0..WRITES).for_each(|round| set(&twins[0], &other, round));
        set(&twins[0], &wanted, 1);
        let writer = Arc::clone(&twins[1]);
        let (found, has_met) = found_after(&twins[0], &wanted, move || {
            assert!(writer.delete(&other).unwrap());
            (0..writes).for_each(|round| set(&writer, &wanted, round));
        });
        met += u32::from(has_met);
        assert!(found.is_some(), "a key that was there all the time, {writes} writes");
    }
    assert!(met > 1_000, "{met} readers met another key first");
}

/// The index grows while the reader is stopped and the wanted entry moves: the reader searches the
/// present index.
#[test]
fn a_key_is_found_that_moves_after_the_other_was_met() {
    let _watchdog = Watchdog::new("keys of one tag that move", Duration::from_secs(600));
    let keys = alike(2);
    let (other, wanted) = (keys[0], keys[1]);
    let mut met = 0;
    for count in (0..600).step_by(7) {
        let twins = twins(1 << 20, 2);
        set(&twins[0], &other, 0);
        set(&twins[0], &wanted, 1);
        let writer = Arc::clone(&twins[1]);
        let (found, has_met) = found_after(&twins[0], &wanted, move || {
            let more = (1u64 << 40..).take(count);
            more.for_each(|number| set(&writer, &number.to_le_bytes(), 0));
        });
        met += u32::from(has_met);
        assert_eq!(found, Some(1), "{count} entries more");
    }
    assert!(met > 50, "{met} readers met another key first");
}

/// Two keys of one hash in a twin: docs/explanation/format.md, "Index". In two pairs, one word
/// is the negative of its word of the secret, so their products are 0. The pairs change places, which
/// does not change their sum.
fn of_one_hash() -> [[u8; 64]; 2] {
    const HASH_KEY: [u64; 2] = [3, 4];
    let mut state = HASH_KEY[0];
    let secret: [u64; 8] = std::array::from_fn(|index| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31 ^ HASH_KEY[1].rotate_left(index as u32)
    });
    // The first pair is in the first step, the other one in the last.
    let negative = |of: u64| (of as u32).wrapping_neg().to_le_bytes();
    let keys = [[1u8, 0], [0, 1]].map(|[first, last]| {
        let mut key = [7; 64];
        key[..4].copy_from_slice(&negative(secret[0]));
        key[48..52].copy_from_slice(&negative(secret[2]));
        (key[4], key[52]) = (first, last);
        key
    });
    let hasher = Hasher::new(HASH_KEY);
    assert_eq!(hasher.key(&keys[0]), hasher.key(&keys[1]));
    keys
}

#[test]
fn keys_of_one_hash_are_separate_entries_also_in_a_walk() {
    let keys = of_one_hash();
    let twins = twins(SIZE_BYTES, 1);
    for (round, key) in keys.iter().enumerate() {
        set(&twins[0], key, round);
    }
    let found: Vec<_> = keys.iter().map(|key| byte_of(&twins[0], key)).collect();
    assert_eq!(found, [Some(0), Some(1)]);
    let (mut scan, mut buffer) = (twins[0].scan(), Buffer::new());
    let mut walked = Vec::new();
    while let Some(item) = scan.next(&mut buffer).unwrap() {
        walked.push(item.key.to_vec());
    }
    walked.sort_unstable();
    let mut expected = keys.map(|key| key.to_vec());
    expected.sort_unstable();
    assert_eq!(walked, expected);
    assert!(twins[0].delete(&keys[0]).unwrap());
    let found: Vec<_> = keys.iter().map(|key| byte_of(&twins[0], key)).collect();
    assert_eq!(found, [None, Some(1)]);
    assert_sound(&twins[0]);
}
