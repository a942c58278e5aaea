//! Chosen interleavings. One party stops at a point, another acts or stops at a point of its own,
//! and then they continue in either order; every pair of points is tried. What a reader returns
//! must have been true at some time during the read, and must stay true once it was returned.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tuckbox_arena::act_as_another_process;
use tuckbox_arena::hooks::Point;
use tuckbox_engine::{
    ArenaError, Buffer, Cache, Config, Error, Interrupted, Place, Ttl, Value, Waiter,
};
use tuckbox_testkit::watchdog::Watchdog;

use super::{assert_sound, look, name, nth, points_of, stamped, store, twins, Seen, Stopped};

/// The key that both parties use.
const KEY: usize = 0;
const LEN: usize = 200;
/// Most stops of a party, spread over what it does.
const STOPS: usize = 40;

/// The announced and acknowledged changes of [`KEY`].
struct Ledger {
    announced: AtomicU64,
    acknowledged: AtomicU64,
}

impl Ledger {
    fn change(&self, change: impl FnOnce(u64)) {
        let sequence = self.announced.fetch_add(1, Ordering::SeqCst) + 1;
        change(sequence);
        self.acknowledged.store(sequence, Ordering::SeqCst);
    }

    fn announced(&self) -> u64 {
        self.announced.load(Ordering::SeqCst)
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }
}

/// How [`KEY`] is stored with a sequence.
#[derive(Clone, Copy)]
enum Form {
    Bytes,
    /// Reads of this form load the slot again.
    Number,
}

impl Form {
    fn store(self, cache: &Cache, sequence: u64) {
        match self {
            Form::Bytes => store(cache, KEY, sequence, LEN),
            Form::Number => {
                let number = Value::Int(sequence as i64);
                cache.set(&name(KEY), number, Ttl::Never).unwrap();
            }
        }
    }
}

/// A cache with [`KEY`] among others.
fn prepared(part: &Part) -> (Vec<Arc<Cache>>, Arc<Ledger>) {
    let (twins, ledger) = prepared_as(Form::Bytes, part.size_bytes);
    fill(&twins[1], part.others, 40);
    (twins, ledger)
}

fn prepared_as(form: Form, size_bytes: u64) -> (Vec<Arc<Cache>>, Arc<Ledger>) {
    let twins = twins(size_bytes, 3);
    for key in 1..20 {
        store(&twins[1], key, 1, LEN);
    }
    form.store(&twins[1], 1);
    let ledger = Ledger { announced: AtomicU64::new(1), acknowledged: AtomicU64::new(1) };
    (twins, Arc::new(ledger))
}

fn put(cache: &Cache, ledger: &Ledger, len: usize) {
    ledger.change(|sequence| store(cache, KEY, sequence, len));
}

fn remove(cache: &Cache, ledger: &Ledger) {
    ledger.change(|_| {
        cache.delete(&name(KEY)).unwrap();
    });
}

/// Other entries, all of one size, in all places.
fn fill(cache: &Cache, count: usize, len: usize) {
    (0..count).for_each(|number| store(cache, 100 + number, 1, len));
}

/// What the other party does.
#[derive(Clone, Copy)]
struct Part {
    what: &'static str,
    play: fn(&Cache, &Ledger),
    /// Whether the key has an entry all the time.
    keeps: bool,
    size_bytes: u64,
    /// How many other small entries there are before.
    others: usize,
}

const SMALL: u64 = 64 << 10;
const ROOMY: u64 = 1 << 20;

const PARTS: &[Part] = &[
    Part {
        what: "rewriter: in place",
        // A reader that meets a stopped rewriter may give up.
        keeps: false,
        size_bytes: ROOMY,
        others: 0,
        play: |cache, ledger| (0..3).for_each(|_| put(cache, ledger, LEN)),
    },
    Part {
        what: "writer: of another size",
        keeps: true,
        size_bytes: ROOMY,
        others: 0,
        play: |cache, ledger| (1..6).for_each(|part| put(cache, ledger, LEN + 16 * part)),
    },
    Part {
        what: "writer: removes and stores again",
        keeps: false,
        size_bytes: ROOMY,
        others: 0,
        play: |cache, ledger| {
            for _ in 0..3 {
                remove(cache, ledger);
                put(cache, ledger, LEN);
            }
        },
    },
    Part {
        what: "writer: touches, and compares and sets",
        keeps: true,
        size_bytes: ROOMY,
        others: 0,
        play: |cache, ledger| {
            assert!(cache.touch(&name(KEY), Ttl::Us(1 << 40)).unwrap());
            let mut buffer = Buffer::new();
            let version = cache.get(&name(KEY), &mut buffer).unwrap().unwrap().version;
            ledger.change(|sequence| {
                let value = stamped(KEY, sequence, LEN);
                let value = Value::bytes(&value);
                assert!(cache.compare_and_set(&name(KEY), value, Ttl::Never, version).unwrap());
            });
            assert!(cache.touch(&name(KEY), Ttl::Us(1 << 40)).unwrap());
        },
    },
    Part {
        what: "splitter and mover",
        keeps: true,
        size_bytes: ROOMY,
        others: 0,
        play: |cache, _| fill(cache, 600, 40),
    },
    Part {
        what: "evictor: makes room",
        keeps: false,
        size_bytes: SMALL,
        others: 0,
        play: |cache, ledger| {
            for round in 0..8 {
                fill(cache, 60, LEN);
                put(cache, ledger, LEN * (1 + round % 2));
            }
        },
    },
    Part {
        what: "evictor: compacts what died",
        keeps: true,
        size_bytes: ROOMY,
        others: 0,
        // The key is always there: dead space is no reason to evict live entries.
        play: |cache, ledger| {
            for round in 0..1200 {
                store(cache, 100 + round % 3, 1, 500 + 700 * (round / 3 % 3));
                if round % 100 == 0 {
                    put(cache, ledger, LEN + round / 100 % 2 * 8);
                }
            }
        },
    },
    Part {
        what: "builder: a value of many segments",
        keeps: true,
        size_bytes: ROOMY,
        others: 0,
        play: |cache, ledger| {
            for len in [40_000, LEN, 100_000, 50_000, 16_384] {
                put(cache, ledger, len);
            }
        },
    },
    Part {
        what: "builder in a crowd",
        keeps: false,
        size_bytes: SMALL,
        others: 0,
        play: |cache, ledger| {
            for _ in 0..4 {
                put(cache, ledger, 9_000);
                fill(cache, 80, LEN);
            }
        },
    },
    Part {
        what: "clearer",
        keeps: false,
        size_bytes: SMALL,
        others: 0,
        play: |cache, ledger| {
            for round in 0..12 {
                ledger.change(|_| {
                    cache.clear().unwrap();
                });
                fill(cache, round, LEN);
                put(cache, ledger, LEN);
            }
        },
    },
    Part {
        what: "shrinker: a value that needs the room of the index",
        keeps: false,
        size_bytes: ROOMY,
        others: 14_000,
        play: |cache, ledger| {
            let segments = cache.stats().segments_index;
            store(cache, 99, 1, cache.value_bytes_max());
            assert!(segments > 8 && cache.stats().segments_index <= 2, "{segments} segments");
            put(cache, ledger, LEN);
        },
    },
    Part {
        what: "repairer",
        keeps: true,
        size_bytes: ROOMY,
        others: 0,
        play: |cache, _| assert_sound(cache),
    },
];

/// What reads of [`KEY`] must satisfy while the other party acts.
struct Judge<'a> {
    part: &'a Part,
    ledger: &'a Ledger,
    form: Form,
    what: &'a dyn Fn() -> String,
}

impl Judge<'_> {
    fn sequence(&self, seen: Option<Seen>) -> Option<u64> {
        match (seen, self.form) {
            (Some(Seen::Value(sequence)), Form::Bytes) => Some(sequence),
            (Some(Seen::Number(sequence)), Form::Number) => Some(sequence as u64),
            (None, _) => None,
            (Some(other), _) => panic!("{}: {other:?}", (self.what)()),
        }
    }

    /// Judges the result of a read that began when `floor` was acknowledged.
    fn judge(&self, seen: Option<Seen>, floor: u64) -> Option<u64> {
        let sequence = self.sequence(seen);
        match sequence {
            None => assert!(!self.part.keeps, "{}: nothing was found", (self.what)()),
            Some(found) => {
                let announced = self.ledger.announced();
                assert!(found >= floor, "{}: {found} after {floor}", (self.what)());
                assert!(found <= announced, "{}: {found} before {announced}", (self.what)());
            }
        }
        sequence
    }

    /// Reads again, with no change since `seen` was returned.
    fn look_again(&self, cache: &Cache, seen: Option<u64>) {
        let acknowledged = self.ledger.acknowledged();
        let again = self.judge(look(cache, KEY), acknowledged.max(seen.unwrap_or(0)));
        if seen.is_some_and(|seen| seen > acknowledged) {
            assert_eq!(again, seen, "{}: what was read was never published", (self.what)());
        }
    }
}

/// The stops of a party: each point with its count, at most `most`.
fn stops(part: &Part, most: usize) -> Vec<(Point, u32)> {
    let (twins, ledger) = prepared(part);
    let mut counts = std::collections::HashMap::new();
    let points = points_of(|| (part.play)(&twins[1], &ledger));
    let stops: Vec<(Point, u32)> = points
        .into_iter()
        .map(|point| {
            let count = counts.entry(point).or_insert(0);
            *count += 1;
            (point, *count)
        })
        .collect();
    let played = stops.len().min(most);
    (0..played).map(|index| stops[index * stops.len() / played]).collect()
}

const READER_POINTS: [Point; 5] = [
    Point::StateLoaded,
    Point::SlotLoaded,
    Point::SlotConfirmed,
    Point::RecordCopied,
    Point::ProbeMissed,
];

type Reader = (Option<Stopped>, std::sync::mpsc::Receiver<Option<Seen>>);

fn start_reader(cache: &Arc<Cache>, stop: (Point, u32)) -> Reader {
    let (answer, answered) = channel();
    let stopped = Stopped::start(cache, nth(stop.0, stop.1), move |cache| {
        answer.send(look(cache, KEY)).expect("whoever asked waits");
    });
    (stopped, answered)
}

/// The reader stops first, the other party acts up to its own stop, the reader finishes.
fn reader_first(part: &Part, point: Point, stop: (Point, u32)) {
    let what = || format!("{}, a reader at {point:?}, then {stop:?}", part.what);
    let (twins, ledger) = prepared(part);
    let judge = Judge { part, ledger: &ledger, form: Form::Bytes, what: &what };
    let (reader, answered) = start_reader(&twins[0], (point, 1));
    let Some(reader) = reader else { return };
    let (its_ledger, play) = (Arc::clone(&ledger), part.play);
    let other = Stopped::start(&twins[1], nth(stop.0, stop.1), move |cache| {
        play(cache, &its_ledger);
    });
    reader.resume();
    let seen = judge.judge(answered.recv().unwrap(), 1);
    judge.look_again(&twins[2], seen);
    if let Some(other) = other {
        other.resume();
    }
    judge.judge(look(&twins[2], KEY), ledger.acknowledged());
    assert_eq!(twins[2].stats().checksum_mismatches, 0, "{}", what());
}

/// The other party stops first, the reader runs up to its own stop, the other finishes, then the
/// reader.
fn reader_last(part: &Part, point: Point, stop: (Point, u32)) {
    let what = || format!("{} at {stop:?}, then a reader at {point:?}", part.what);
    let (twins, ledger) = prepared(part);
    let judge = Judge { part, ledger: &ledger, form: Form::Bytes, what: &what };
    let (its_ledger, play) = (Arc::clone(&ledger), part.play);
    let other = Stopped::start(&twins[1], nth(stop.0, stop.1), move |cache| {
        play(cache, &its_ledger);
    });
    let floor = ledger.acknowledged();
    let (reader, answered) = start_reader(&twins[0], (point, 1));
    if let Some(other) = other {
        other.resume();
    }
    if let Some(reader) = reader {
        reader.resume();
    }
    let seen = judge.judge(answered.recv().unwrap(), floor);
    judge.look_again(&twins[2], seen);
    assert_eq!(twins[2].stats().checksum_mismatches, 0, "{}", what());
    assert_sound(&twins[2]);
}

#[test]
fn a_reader_and_any_other_party_in_any_order() {
    let _watchdog = Watchdog::new("readers and others", Duration::from_secs(600));
    let next = std::sync::atomic::AtomicUsize::new(0);
    let cells: Vec<_> = PARTS
        .iter()
        .flat_map(|part| stops(part, STOPS).into_iter().map(move |stop| (part, stop)))
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((part, stop)) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for point in READER_POINTS {
                        reader_first(part, point, *stop);
                        reader_last(part, point, *stop);
                    }
                }
            });
        }
    });
}

/// Guards against this bug: a reader loads a slot. Its record is deleted, and the segment is freed
/// and reused, until a writer has written a record of the same key to the same place but not
/// published it. That record is valid, checksum included. A reader that accepts it returns a value
/// that is not there for anybody else, nor for itself the next time.
fn unpublished_record_is_not_read(stop: (Point, u32), form: Form, free: fn(&Cache, &Ledger)) {
    let _watchdog = Watchdog::new("unpublished records", Duration::from_secs(600));
    let mut met_a_change = 0;
    // Each additional entry before the new record moves it on, through all segments and all places,
    // including the old one.
    for count in 0..420 {
        let (twins, ledger) = prepared_as(form, SMALL);
        let part = Part { what: "", play: |_, _| (), keeps: false, size_bytes: SMALL, others: 0 };
        let what = || format!("a reader at {stop:?}, {count} others, then an unpublished record");
        let judge = Judge { part: &part, ledger: &ledger, form, what: &what };
        let (reader, answered) = start_reader(&twins[0], stop);
        free(&twins[1], &ledger);
        fill(&twins[1], count, LEN);
        let its_ledger = Arc::clone(&ledger);
        let unpublished = if count % 2 == 0 { Point::RecordWritten } else { Point::CursorMoved };
        let writer = Stopped::start(&twins[1], nth(unpublished, 1), move |cache| {
            its_ledger.change(|sequence| form.store(cache, sequence));
        });
        reader.expect("a reader passes its points").resume();
        let seen = judge.judge(answered.recv().unwrap(), 1);
        judge.look_again(&twins[2], seen);
        assert_ne!(seen, Some(3), "{}", what());
        met_a_change += u32::from(seen.is_none());
        writer.expect("a new entry is appended").resume();
        assert_eq!(judge.sequence(look(&twins[2], KEY)), Some(3), "{}", what());
    }
    assert!(met_a_change > 0, "no reader met a change");
}

/// So that the segments of both logs are reused, not only the small log's.
fn by_deleting(cache: &Cache, ledger: &Ledger) {
    remove(cache, ledger);
    for _ in 0..3 {
        fill(cache, 150, LEN);
        for number in 0..150 {
            cache.delete(&name(100 + number)).unwrap();
        }
    }
}

fn by_clearing(cache: &Cache, ledger: &Ledger) {
    ledger.change(|_| {
        cache.clear().unwrap();
    });
}

#[test]
fn an_unpublished_record_is_not_read_by_a_reader_with_an_old_slot() {
    for free in [by_deleting, by_clearing] {
        unpublished_record_is_not_read((Point::SlotLoaded, 1), Form::Bytes, free);
        // A number's slot is loaded twice, and what was true of the first load need not be of the
        // second.
        unpublished_record_is_not_read((Point::RareRecordFound, 1), Form::Number, free);
        unpublished_record_is_not_read((Point::SlotLoaded, 2), Form::Number, free);
    }
}

#[test]
fn an_unpublished_record_is_not_read_by_a_reader_with_an_old_generation() {
    for free in [by_deleting, by_clearing] {
        unpublished_record_is_not_read((Point::SlotConfirmed, 1), Form::Bytes, free);
        unpublished_record_is_not_read((Point::SlotConfirmed, 2), Form::Number, free);
    }
}

/// A reader between the steps of a split, a move or a publication finds every entry.
#[test]
fn a_reader_between_the_steps_of_a_writer_finds_everything() {
    let twins = twins(ROOMY, 2);
    for key in 0..700 {
        let (reader, lens) = (Arc::clone(&twins[1]), [60usize, 100]);
        for (sequence, len) in lens.into_iter().enumerate() {
            let (reader, before) = (Arc::clone(&reader), sequence as u64);
            tuckbox_arena::hooks::set(move |point| {
                for other in (0..key).filter(|other| other % 8 == key % 8 || other + 8 > key) {
                    assert_eq!(look(&reader, other), Some(Seen::Value(2)), "{other} at {point:?}");
                }
                let seen = look(&reader, key);
                let was = (before > 0).then_some(Seen::Value(before));
                let is = Some(Seen::Value(before + 1));
                assert!(seen == was || seen == is, "{key} is {seen:?} at {point:?}");
                if matches!(point, Point::RecordWritten | Point::CursorMoved) {
                    assert_eq!(seen, was, "{key} at {point:?}");
                }
            });
            store(&twins[0], key, sequence as u64 + 1, len);
            tuckbox_arena::hooks::clear();
        }
    }
    assert_eq!(twins[1].stats().checksum_mismatches, 0);
    assert_sound(&twins[1]);
}

/// A check corrects words that readers use; meanwhile they must miss nothing.
#[test]
fn a_check_hides_no_entry_from_readers() {
    let twins = twins(ROOMY, 2);
    (0..1500).for_each(|key| store(&twins[0], key, 1, 60));
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..40).for_each(|_| assert_sound(&twins[0]));
            is_done.store(true, Ordering::SeqCst);
        });
        while !is_done.load(Ordering::SeqCst) {
            for key in 0..1500 {
                assert_eq!(look(&twins[1], key), Some(Seen::Value(1)), "{key}");
            }
        }
    });
}

/// A builder holds no lock while it builds: whatever others do meanwhile, its value arrives.
#[test]
fn a_builder_and_any_other_party() {
    let _watchdog = Watchdog::new("builders", Duration::from_secs(600));
    // Not the one that needs nearly the whole cache.
    for part in PARTS.iter().filter(|part| part.others == 0) {
        for len in [9_000, 12_000] {
            let (twins, ledger) = prepared(part);
            let len = if part.size_bytes == ROOMY { len * 10 } else { len };
            let builder = Stopped::start(&twins[0], nth(Point::BodyBuilt, 1), move |cache| {
                store(cache, KEY, 1000, len);
            });
            (part.play)(&twins[1], &ledger);
            assert_sound(&twins[1]);
            let segments_free = twins[1].stats().segments_free;
            builder.expect("a large value is built").resume();
            let seen = look(&twins[2], KEY);
            let is_there = seen == Some(Seen::Value(1000));
            // In a crowded cache the policy may prefer other entries to a large new one.
            assert!(is_there || (part.size_bytes == SMALL && seen.is_none()), "{}", part.what);
            assert_sound(&twins[2]);
            // Its segments belong to a shard now, and are free when the entry is deleted.
            assert_eq!(twins[2].delete(&name(KEY)).unwrap(), is_there);
            assert!(twins[2].stats().segments_free >= segments_free, "{}", part.what);
            assert_sound(&twins[2]);
        }
    }
}

/// Two builders: the second one finds the pool empty, or dies.
#[test]
fn segments_of_a_dead_builder_are_freed() {
    let twins = twins(SMALL, 8);
    let most = twins[0].value_bytes_max();
    for victim in 0..6 {
        let dead = Stopped::start(&twins[victim], nth(Point::BodyBuilt, 1), move |cache| {
            store(cache, KEY, 1, most);
        });
        assert!(dead.is_some());
        twins[7].declare_dead(victim as u32);
        for sequence in 0..4 {
            store(&twins[7], victim + 1, sequence, most);
            let seen = look(&twins[7], victim + 1);
            assert!(seen.is_none() || seen == Some(Seen::Value(sequence)), "{seen:?}");
        }
        assert_eq!(look(&twins[7], KEY), None);
        assert_sound(&twins[7]);
        // The dead thread ends without touching what is no longer its own.
        std::mem::forget(dead);
    }
}

/// Guards against this bug: a handle was closed while another thread filled segments in its name.
/// They were taken for a dead owner's and given to others, and the thread continued to write.
#[test]
fn a_handle_is_not_closed_under_its_builder() {
    let config = Config { size_bytes: ROOMY, ..Config::default() };
    let other = Cache::open(&Place::Private, &config).unwrap();
    act_as_another_process();
    store(&other, KEY, 1, 40_000);
    for (sequence, point) in [(2, Point::SegmentTaken), (3, Point::BodyBuilt)] {
        let place = Place::Shown(other.shown_path().unwrap());
        let cache = Arc::new(Cache::open(&place, &config).unwrap());
        let free_before = other.stats().segments_free;
        let builder = Stopped::start(&cache, nth(point, 1), move |cache| {
            let value = stamped(KEY, sequence, 40_000);
            let result = cache.set(&name(KEY), Value::bytes(&value), Ttl::Never);
            assert!(matches!(result, Err(Error::Arena(ArenaError::Closed))), "{result:?}");
        });
        let builder = builder.expect("a large value is built");
        let closer = std::thread::spawn(move || cache.close());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!closer.is_finished(), "it was closed at {point:?}");
        let free = other.stats().segments_free;
        assert_sound(&other);
        assert_eq!(other.stats().segments_free, free, "a living builder's segments were taken");
        builder.resume();
        closer.join().unwrap();
        // It has freed what it held; only the file may have grown.
        assert!(other.stats().segments_free >= free_before);
        assert_sound(&other);
        assert_eq!(look(&other, KEY), Some(Seen::Value(1)));
    }
}

/// A host whose signal handler closes the handle that its thread is using.
struct ClosingHost(Arc<OnceLock<Weak<Cache>>>);

impl Waiter for ClosingHost {
    fn run(&self, work: &mut (dyn FnMut() + Send)) -> Result<(), Interrupted> {
        work();
        if let Some(cache) = self.0.get().and_then(Weak::upgrade) {
            cache.close();
        }
        Ok(())
    }
}

/// During a copy and during a wait: the operation is refused, and others can continue, be they of
/// another process or of this one.
#[test]
fn a_handle_closed_by_its_own_waiter_refuses_and_leaves_nothing() {
    closes_itself(true);
    closes_itself(false);
}

fn closes_itself(beside_another_process: bool) {
    let _watchdog = Watchdog::new("a handle that closes itself", Duration::from_secs(600));
    let config = Config { size_bytes: ROOMY, ..Config::default() };
    let other = Arc::new(Cache::open(&Place::Private, &config).unwrap());
    if beside_another_process {
        act_as_another_process();
    }
    store(&other, KEY, 1, LEN);
    let open = || {
        let closed = Arc::new(OnceLock::new());
        let waiter = Arc::new(ClosingHost(Arc::clone(&closed)));
        let place = Place::Shown(other.shown_path().unwrap());
        let cache = Cache::open(&place, &Config { waiter, ..config.clone() }).unwrap();
        let cache = Arc::new(cache);
        closed.set(Arc::downgrade(&cache)).expect("set once");
        cache
    };
    let is_closed = |result| matches!(result, Err(Error::Arena(ArenaError::Closed)));
    let free_or_unborn = || {
        let stats = other.stats();
        let most = stats.size_bytes / stats.segment_bytes;
        most - stats.segments + stats.segments_free
    };
    let before = free_or_unborn();
    let value = stamped(KEY, 2, 60_000);
    let closed = open();
    assert!(is_closed(closed.set(&name(KEY), Value::bytes(&value), Ttl::Never)));
    // The operation has freed its segments and, if no other handle uses it, the process slot.
    assert_eq!((free_or_unborn(), other.stats().processes), (before, 1));
    assert_sound(&other);

    let writer = Stopped::start(&other, nth(Point::RewriteBegun, 1), |cache| {
        store(cache, KEY, 3, LEN);
    });
    let value = stamped(KEY, 4, LEN);
    assert!(is_closed(open().set(&name(KEY), Value::bytes(&value), Ttl::Never)));
    writer.expect("it rewrites").resume();
    assert_eq!(look(&other, KEY), Some(Seen::Value(3)));
    assert_sound(&other);
}

/// A stopped process is not dead: others wait for its lock and do not take it over.
#[test]
fn a_stopped_writer_keeps_its_lock_and_readers_go_on() {
    let config =
        Config { size_bytes: ROOMY, lock_limit: Duration::from_millis(30), ..Config::default() };
    let twins: Vec<_> = Cache::twins(&config, 3).unwrap().into_iter().map(Arc::new).collect();
    (0..100).for_each(|key| store(&twins[0], key, 1, LEN));
    for point in [Point::RecordWritten, Point::CursorMoved, Point::RewriteBegun, Point::RewriteHalf]
    {
        let len = if matches!(point, Point::RewriteBegun | Point::RewriteHalf) { LEN } else { 300 };
        let before = look(&twins[2], KEY);
        let writer = Stopped::start(&twins[0], nth(point, 1), move |cache| {
            store(cache, KEY, 2, len);
            store(cache, KEY, 1, LEN);
        });
        let writer = writer.expect("it writes");
        for result in [
            twins[1].set(&name(5), Value::bytes(b"value"), Ttl::Never).map(|()| true),
            twins[1].delete(&name(KEY)),
            twins[1].incr(b"number", 1, Some(0), Ttl::Never).map(|_| true),
            twins[1].touch(&name(KEY), Ttl::Us(5)),
            twins[1].clear().map(|_| true),
            twins[1].check().map(|_| true),
        ] {
            let refused = matches!(result, Err(Error::Arena(ArenaError::LockTimeout { .. })));
            assert!(refused, "at {point:?}: {result:?}");
        }
        (1..100).for_each(|key| assert_eq!(look(&twins[2], key), Some(Seen::Value(1)), "{key}"));
        let seen = look(&twins[2], KEY);
        let is_rewriting = len == LEN;
        assert!(seen == before || (is_rewriting && seen.is_none()), "{seen:?} at {point:?}");
        writer.resume();
        assert_eq!(look(&twins[2], KEY), Some(Seen::Value(1)));
        assert_eq!(twins[2].stats().takeovers, 0);
        assert_sound(&twins[2]);
    }
}

/// Guards against this bug: a failed attempt to lock a second shard released that lock while its
/// owner was still writing.
#[test]
fn a_failed_try_lock_leaves_the_lock_to_its_owner() {
    let config =
        Config { size_bytes: 32 << 20, lock_limit: Duration::from_millis(5), ..Config::default() };
    let twins: Vec<_> = Cache::twins(&config, 3).unwrap().into_iter().map(Arc::new).collect();
    assert_eq!(twins[0].stats().shards, 2);
    let is_held = |key: usize| {
        let result = twins[2].delete(&name(key));
        matches!(result, Err(Error::Arena(ArenaError::LockTimeout { .. })))
    };
    let stop_writer = |sequence| {
        let work = move |cache: &Cache| store(cache, 0, sequence, LEN + 8 * sequence as usize);
        Stopped::start(&twins[0], nth(Point::CursorMoved, 1), work).expect("it writes")
    };
    let writer = stop_writer(1);
    let (held, free): (Vec<usize>, Vec<usize>) = (1..80).partition(|key| is_held(*key));
    writer.resume();
    assert!(held.len() > 20 && !free.is_empty(), "keys go to both shards");
    // One shard gets everything, so that the other one has nothing to evict.
    for key in held.iter().take(20) {
        store(&twins[1], *key, 1, 3 << 20);
    }
    assert!(twins[1].stats().evictions > 0);
    let writer = stop_writer(2);
    let value = stamped(free[0], 1, 3 << 20);
    let result = twins[1].set(&name(free[0]), Value::bytes(&value), Ttl::Never);
    assert!(matches!(result, Err(Error::Full { .. })), "{result:?}");
    assert!(is_held(held[0]), "the lock was let go of");
    writer.resume();
    assert!(!is_held(held[0]));
    assert_eq!(look(&twins[2], 0), Some(Seen::Value(2)));
    assert_sound(&twins[2]);
}
