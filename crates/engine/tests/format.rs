//! Compares the offsets in `docs/explanation/format.md` with the code. A row without a constant
//! fails, and so does a constant without a row.

use std::collections::BTreeMap;

use tuckbox_arena::layout::{header, process, segment, signature};
use tuckbox_engine::format::layout::{
    flag, log, namespace_row, note, policy_selection, shadow, shard, table, tag_row,
};
use tuckbox_engine::format::leases::maker;

/// Modules of constants, by the headings of their tables.
const TABLES: [&str; 13] = [
    "header",
    "process",
    "segment",
    "note",
    "shard",
    "policy_selection",
    "shadow",
    "maker",
    "log",
    "flag",
    "table",
    "tag_row",
    "namespace_row",
];

macro_rules! constants {
    ($map:ident, $module:ident: $($name:ident)*) => {
        $($map.insert((stringify!($module), stringify!($name)), $module::$name);)*
    };
}

fn constants() -> BTreeMap<(&'static str, &'static str), u64> {
    let mut map = BTreeMap::new();
    constants!(map, header: MAGIC FORMAT_VERSION BYTE_ORDER LAYOUT_SIGNATURE CACHE_ID HASH_KEY
        FEATURES_REQUIRED FEATURES_OPTIONAL SIZE_BYTES MAX_ENTRIES SEGMENT_BYTES SEGMENT_COUNT
        SHARD_COUNT SHARD_BYTES TABLE_BYTES PROCESS_COUNT CREATED_US CHECKSUM USE_MARK DISCARDS HEADER_LOCK
        LAST_SEEN_US CLOCK_NEXT CLOCK_ROWS);
    constants!(map, process: STATE PID START_TICKS PID_NAMESPACE STACK_START WISHES COUNTERS);
    constants!(map, segment: GENERATION OWNER NOTES);
    constants!(map, note: NEXT EXTENT OPENED LIVE);
    constants!(map, shard: LOCK BOOT SOONEST SEARCHED SEARCH CHANGES STATE EPOCH SAMPLED_BELOW SEQUENCE EVICTIONS EXPIRATIONS LOST
        INDEX_SEGMENTS BODY_SEGMENTS SETS DELETES INTENT SPARES INTENT_SUM SMALL MAIN CLOCK INCREMENTS HALVINGS
        WINS SETTING SWITCHES FORMER_EPOCH PINNED PINNED_MOST DIRECTORY);
    constants!(map, log: HEAD TAIL ENTRIES BYTES BODY_BYTES SEGMENTS);
    constants!(map, policy_selection: NOTED_COUNT REPLAYED_COUNT SHADOW_CAPACITY MEAN_BYTES REGRETS
        SURPLUS SHORTENED NOTED SHADOWS);
    constants!(map, shadow: APPENDS CLOCK INCREMENTS HALVINGS WINS ENTRIES);
    constants!(map, maker: HASH CLAIM);
    constants!(map, flag: EXPIRY NUMBER LONG);
    constants!(map, table: STAMP_CLOCK CLOCK_BOOT BASE_ERA LAST_POSITION GATE LAST_NUMBER WEIGHT
        TAG_ROWS);
    constants!(map, tag_row: TAG INVALIDATED STALED);
    constants!(map, namespace_row: NAMESPACE ERA);
    map
}

#[test]
fn the_document_and_the_code_agree() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation/format.md");
    let document = std::fs::read_to_string(path).expect("docs/explanation/format.md");
    let mut expected = constants();
    let mut table = "";
    for line in document.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if cells[0].starts_with(':') {
            continue;
        }
        if let Some(name) = TABLES.into_iter().find(|name| *name == cells[0]) {
            table = name;
            continue;
        }
        let offset: u64 = cells[1].parse().expect("an offset");
        let constant = expected
            .remove(&(table, cells[0]))
            .unwrap_or_else(|| panic!("{table} {} is in the document only", cells[0]));
        assert_eq!(offset, constant, "{table} {}", cells[0]);
    }
    assert!(expected.is_empty(), "only in the code: {expected:?}");
    let signature = signature(tuckbox_engine::format::plan::layer().signature);
    let row = format!("| LAYOUT_SIGNATURE | 24 | {signature:#x} |");
    assert!(document.contains(&row), "the document lacks {row}");
}

#[test]
fn adjacent_words_do_not_overlap() {
    // Each word with its length up to the next one.
    let shard_words = [
        (shard::LOCK, 8),
        (shard::BOOT, 8),
        (shard::SOONEST, 8),
        (shard::SEARCHED, 8),
        (shard::SEARCH, 8),
        (shard::CHANGES, 8),
        (shard::STATE, 8),
        (shard::EPOCH, 8),
        (shard::SAMPLED_BELOW, 8),
        (shard::SEQUENCE, 8),
        (shard::EVICTIONS, 8),
        (shard::EXPIRATIONS, 8),
        (shard::LOST, 8),
        (shard::INDEX_SEGMENTS, 8),
        (shard::BODY_SEGMENTS, 8),
        (shard::SETS, 8),
        (shard::DELETES, 8),
        (shard::INTENT, 8),
        (shard::SPARES, shard::SPARE_COUNT * 8),
        (shard::INTENT_SUM, 8),
        (shard::SMALL, log::SEGMENTS + 8),
        (shard::MAIN, log::SEGMENTS + 8),
        (shard::PINNED, log::SEGMENTS + 8),
        (shard::PINNED_MOST, 8),
        (shard::CLOCK, 8),
        (shard::INCREMENTS, 8),
        (shard::HALVINGS, 8),
        (shard::WINS, 8),
        (shard::SETTING, 8),
        (shard::SWITCHES, 8),
        (shard::FORMER_EPOCH, 8),
        (shard::DIRECTORY, 8),
    ];
    let policy_selection_words = [
        (policy_selection::NOTED_COUNT, 64),
        (policy_selection::REPLAYED_COUNT, 8),
        (policy_selection::SHADOW_CAPACITY, 8),
        (policy_selection::MEAN_BYTES, 8),
        (policy_selection::REGRETS, policy_selection::SETTING_COUNT * 8),
        (policy_selection::SURPLUS, 8),
        (policy_selection::SHORTENED, 8),
        (policy_selection::NOTED, policy_selection::NOTED_LEN * 8),
        (policy_selection::SHADOWS, 8),
    ];
    let shadow_words = [
        (shadow::APPENDS, 8),
        (shadow::CLOCK, 8),
        (shadow::INCREMENTS, 8),
        (shadow::HALVINGS, 8),
        (shadow::WINS, 8),
        (shadow::ENTRIES, 8),
    ];
    for words in [&shard_words[..], &policy_selection_words, &shadow_words] {
        for pair in words.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?}");
        }
    }
}
