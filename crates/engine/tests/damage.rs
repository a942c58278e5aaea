//! Damaged files: a short form of `torture damage`, which damages every byte of a closed cache's
//! file. `tuckbox_testkit::specimen` says what a damaged cache must still do.

use tuckbox_engine::format::layout::shard;
use tuckbox_engine::{Buffer, Cache, Clock, Config, Place, Ttl, Value};
use tuckbox_testkit::specimen::{self, Damage, Filling, Left, Part, Scratch, Specimen};

fn play(image: &Specimen, cases: impl Iterator<Item = Damage>, is_used: bool) {
    let scratch = Scratch::new();
    for damage in cases {
        let mut bytes = image.bytes.clone();
        damage.apply(&mut bytes);
        let played = || -> Result<(), String> {
            let Some(cache) = image.open(&bytes, &scratch)? else { return Ok(()) };
            let lost = image.entries() - image.read_all(&cache)?.found;
            if let Damage::Byte { at, .. } | Damage::Word { at, .. } = damage {
                assert!(lost <= image.loss_max(at), "{damage:?}: {lost} entries are gone");
            }
            if is_used {
                specimen::use_it(&cache, image.size_bytes)?;
                specimen::works_after_check(&cache, image.size_bytes)?;
            }
            Ok(())
        };
        played().unwrap_or_else(|what| panic!("{damage:?}: {what}"));
    }
}

#[test]
fn an_undamaged_file_has_everything() {
    for image in [Specimen::small(), Specimen::new(1 << 20, 3_000, 100, 4)] {
        let scratch = Scratch::new();
        let cache = image.open(&image.bytes, &scratch).unwrap().expect("it is whole");
        let left = image.read_all(&cache).unwrap();
        assert_eq!(left, Left { is_open: true, found: image.entries(), ..Left::default() });
        let report = cache.check().unwrap();
        assert!(report.is_sound() && report.entries == image.entries(), "{report:?}");
        specimen::use_it(&cache, image.size_bytes).unwrap();
        specimen::works_after_check(&cache, image.size_bytes).unwrap();
    }
}

#[test]
fn bytes_of_the_tables() {
    let image = Specimen::small();
    let cases = (0..image.pool_at()).step_by(5).map(|at| {
        let old = image.bytes[at as usize];
        Damage::Byte { at, value: old ^ 1 << (at / 5 % 8) }
    });
    play(&image, cases, false);
}

/// Offsets of the words in the tables, except most process slots, which are empty and alike.
fn table_words(image: &Specimen) -> impl Iterator<Item = u64> + '_ {
    (0..image.pool_at()).step_by(8).filter(|at| {
        image.part(*at) != Part::Header && (image.word(*at) != 0 || !(4352..8192).contains(at))
    })
}

#[test]
fn words_of_the_tables() {
    let image = Specimen::small();
    let cases = table_words(&image).flat_map(|at| {
        let segment = at / 8 % 14;
        [1, (segment + 1) << 32 | 0xffff_fff8, segment + 1, 1 << 56 | segment, u64::MAX]
            .map(|value| Damage::Word { at, value })
    });
    play(&image, cases.step_by(3), true);
}

/// A second check finds nothing and drops nothing.
#[test]
fn a_check_leaves_nothing_to_the_next_one() {
    let scratch = Scratch::new();
    // The second specimen has records that cross segments.
    for image in [Specimen::small(), Specimen::new(64 << 10, 22, 1_200, 1)] {
        let words = table_words(&image).flat_map(|at| {
            let segment = at / 8 % 14;
            [0, 8, segment + 1, (segment + 1) << 32 | 8, 1 << 31 | 8, u64::MAX - 100]
                .map(|value| Damage::Word { at, value })
        });
        for damage in words.chain((0..300).map(Damage::Words)) {
            let mut bytes = image.bytes.clone();
            damage.apply(&mut bytes);
            let cache = image.open(&bytes, &scratch).unwrap().expect("its header is whole");
            let first = cache.check().unwrap();
            let second = cache.check().unwrap();
            let is_same = first.entries == second.entries;
            assert!(second.is_sound() && is_same, "{damage:?}: {first:?}, then {second:?}");
        }
    }
}

#[test]
fn sampled_bytes_of_the_pool() {
    let image = Specimen::small();
    let bytes = (image.pool_at()..image.bytes.len() as u64).step_by(7);
    let cases = bytes.map(|at| {
        let old = image.bytes[at as usize];
        Damage::Byte { at, value: old ^ 1 << (at % 8) }
    });
    play(&image, cases, false);
}

#[test]
fn cut_short_and_pages_exchanged() {
    let image = Specimen::small();
    let len = image.bytes.len() as u64;
    let ends = (0..4096).step_by(61).chain((4096..len).step_by(509)).chain([len - 1]);
    let fillings = [Filling::Zeros, Filling::Ones, Filling::Garbage, Filling::Neighbour];
    let pages = (0..len / 4096).flat_map(|page| fillings.map(|with| Damage::Page { page, with }));
    play(&image, ends.map(Damage::Cut).chain(pages), true);
}

#[test]
fn words_strewn_at_random() {
    play(&Specimen::small(), (0..400).map(Damage::Words), true);
}

/// A damaged slot may lead to a record that was overwritten, deleted or moved.
#[test]
fn a_slot_that_leads_to_an_old_record_finds_nothing() {
    let image = Specimen::small();
    // Key 0 was overwritten by a longer value at a later place.
    let pool_at = image.pool_at();
    let slots = (pool_at..pool_at + 4096 * 2 / 3).step_by(8).filter(|at| at % 64 < 56);
    let cases = slots.filter(|at| image.word(*at) != 0).flat_map(|at| {
        let word = image.word(at);
        (1..=64).map(move |back| Damage::Word { at, value: word - (back << 8) })
    });
    play(&image, cases.collect::<Vec<_>>().into_iter(), false);
}

/// `check` reports in which shard entries were lost, how many, and why; `stats` counts them.
#[test]
fn lost_entries_are_reported_and_counted() {
    let image = Specimen::small();
    let scratch = Scratch::new();
    let open = |damage: Damage| {
        let mut bytes = image.bytes.clone();
        damage.apply(&mut bytes);
        image.open(&bytes, &scratch).unwrap().expect("it opens")
    };
    let lost = |cache: &Cache| {
        let report = cache.check().unwrap();
        assert_eq!(report.lost_entries, cache.stats().lost_entries);
        assert_eq!(report.entries + report.lost_entries, image.entries());
        assert!(cache.check().unwrap().is_sound());
        let loss = report.losses.first().expect("something is lost").clone();
        (loss.shard, loss.entries, loss.reason)
    };
    let pool_at = image.pool_at();
    let slot = (pool_at..).step_by(8).find(|at| image.word(*at) != 0).unwrap();
    let reason = "no index slot points to it";
    assert_eq!(lost(&open(Damage::Word { at: slot, value: 0 })), (0, 1, reason));
    // An entry with a long enough value: bits 8 to 20 of its form are its length.
    let record_at = |slot: u64| (image.word(slot) >> 8 & 0xff_ffff_ffff) * 8;
    let is_long = |slot: &u64| {
        let at = record_at(*slot);
        let (first, form) = (image.word(at), image.word(at + 8));
        // Without flags: with an expiry, the second word would not begin with the form.
        image.word(*slot) != 0 && first & 7 == 0 && form >> 8 & 0xfff > 100
    };
    let long = (pool_at..).step_by(8).find(is_long).unwrap();
    let value_at = record_at(long) + 64;
    let value = !image.word(value_at);
    let reason = "its checksum does not match";
    assert_eq!(lost(&open(Damage::Word { at: value_at, value })), (0, 1, reason));
}

/// However damaged a shard's version count is, the next version is one that no entry has. `check`
/// reports an impossible count.
#[test]
fn a_damaged_count_of_versions_gives_no_version_again() {
    const COUNT: u64 = 1 << 28;
    let (image, scratch, mut buffer) = (Specimen::small(), Scratch::new(), Buffer::new());
    let at = image.shards_at() + shard::SEQUENCE;
    let last = image.word(at);
    let end = 1 << 63;
    for (value, cannot_be) in [
        (last, false),
        (0, false),
        (end - COUNT, false),
        (end - 1, true),
        (end, true),
        (u64::MAX - COUNT / 2, true),
        (u64::MAX - last, true),
        (u64::MAX, true),
    ] {
        let mut bytes = image.bytes.clone();
        Damage::Word { at, value }.apply(&mut bytes);
        let cache = image.open(&bytes, &scratch).unwrap().expect("it opens");
        let report = cache.check().unwrap();
        assert_eq!((report.lost_entries, report.entries), (0, image.entries()), "{value}");
        let told = report.findings.iter().any(|finding| finding.contains("version counter"));
        assert_eq!((told, report.wrong_counts > 0), (cannot_be, cannot_be), "{value}: {report:?}");
        assert!(cache.check().unwrap().is_sound(), "{value}");
        assert_eq!(image.read_all(&cache).unwrap().found, image.entries());
        cache.set(b"next", Value::bytes(b"value"), Ttl::Never).unwrap();
        let next = cache.get(b"next", &mut buffer).unwrap().expect("it was just stored").version;
        // The entries have the versions 1 to `last`.
        assert!((last + 1..=COUNT / 2 + last).contains(&(next % COUNT)), "{value}: {next}");
    }
}

/// A damaged number is a miss for reads and for `incr`.
#[test]
fn a_damaged_number_is_not_counted_on() {
    let config = Config { size_bytes: 64 << 10, clock: Clock::System, ..Config::default() };
    let scratch = Scratch::new();
    std::fs::remove_file(match scratch.place() {
        Place::Path(path) => path,
        place => panic!("{place:?}"),
    })
    .unwrap();
    let cache = Cache::open(&scratch.place(), &config).unwrap();
    let marked = 0x1234_5678_9abc_def0;
    cache.set(b"number", Value::Int(marked), Ttl::Never).unwrap();
    cache.close();
    let mut bytes = scratch.bytes();
    let at = bytes.windows(8).position(|part| part == marked.to_ne_bytes()).expect("it is there");
    bytes[at] ^= 4;
    let again = Scratch::new();
    for reads_first in [true, false] {
        again.fill(&bytes);
        let cache = Cache::open(&again.place(), &config).unwrap();
        if reads_first {
            assert_eq!(cache.get(b"number", &mut Buffer::new()).unwrap(), None);
            assert_eq!(cache.stats().checksum_mismatches, 1);
        }
        assert_eq!(cache.incr(b"number", 1, None, Ttl::Never).unwrap(), None);
        assert_eq!(cache.stats().lost_entries, 1);
        assert_eq!(cache.incr(b"number", 1, Some(0), Ttl::Never).unwrap(), Some(1));
    }
}
