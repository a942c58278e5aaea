//! Makers, waiters and deleters between each other's steps.

use std::sync::Arc;
use std::time::Duration;

use tuckbox_arena::hooks::Point;
use tuckbox_arena::{Interrupted, Waiter};
use tuckbox_engine::{
    ArenaError, Attributes, Begin, Buffer, Cache, Config, Error, Token, Ttl, Value,
};

use super::{assert_sound, look, name, nth, stamped, store, twins, Seen, Stopped};

const LONG: Duration = Duration::from_secs(600);

#[track_caller]
fn lease(cache: &Cache, key: usize) -> Token {
    match cache.begin(&name(key), true, &mut Buffer::new()).unwrap() {
        Begin::Lease(token, _) => token,
        other => panic!("{other:?}"),
    }
}

fn is_busy(cache: &Cache, key: usize) -> bool {
    matches!(cache.begin(&name(key), true, &mut Buffer::new()).unwrap(), Begin::Busy(_))
}

fn finish(cache: &Cache, token: Token, key: usize, sequence: u64) -> bool {
    let value = stamped(key, sequence, 100);
    let attributes = Attributes::default();
    cache.finish(&token, &name(key), Value::bytes(&value), Ttl::Never, &attributes).unwrap()
}

#[test]
fn a_deleter_that_dies_before_it_removes_the_entry_refuses_for_nothing() {
    let twins = twins(64 << 10, 3);
    store(&twins[0], 1, 1, 100);
    let token = lease(&twins[0], 1);
    let deleter = Stopped::start(&twins[1], nth(Point::Invalidated, 1), |cache| {
        cache.delete(&name(1)).unwrap();
    });
    let _deleter = deleter.expect("it deletes");
    twins[1].declare_dead(1);
    assert!(!finish(&twins[0], token, 1, 2));
    assert_eq!(look(&twins[2], 1), Some(Seen::Value(1)), "the entry is not deleted");
    let token = lease(&twins[2], 1);
    assert!(finish(&twins[2], token, 1, 3));
    assert_sound(&twins[2]);
}

/// A host whose operations are all brief.
struct Brief;

impl Waiter for Brief {
    fn brief(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn run(&self, work: &mut (dyn FnMut() + Send)) -> Result<(), Interrupted> {
        work();
        Ok(())
    }
}

fn brief_twins(size_bytes: u64) -> Vec<Arc<Cache>> {
    let config = Config { size_bytes, waiter: Arc::new(Brief), ..Config::default() };
    Cache::twins(&config, 3).unwrap().into_iter().map(Arc::new).collect()
}

#[test]
fn a_brief_finish_that_meets_a_lock_leaves_the_lease_open() {
    let twins = brief_twins(64 << 10);
    let token = lease(&twins[0], 1);
    let writer = Stopped::start(&twins[1], nth(Point::RecordWritten, 1), |cache| {
        store(cache, 2, 1, 100);
    });
    let writer = writer.expect("it stores");
    let (value, attributes) = (stamped(1, 1, 100), Attributes::default());
    let finish =
        || twins[0].finish(&token, &name(1), Value::bytes(&value), Ttl::Never, &attributes);
    assert!(matches!(finish(), Err(Error::Arena(ArenaError::WouldBlock { .. }))));
    assert!(!twins[2].wait_made(&name(1), Duration::ZERO).unwrap(), "it is still being made");
    writer.resume();
    assert!(finish().unwrap());
    assert!(!is_busy(&twins[2], 1));
    assert_eq!(look(&twins[2], 1), Some(Seen::Value(1)));
}

#[test]
fn a_maker_that_dies_while_it_takes_its_row_leaves_it_free() {
    let twins = twins(64 << 10, 3);
    let maker = Stopped::start(&twins[0], nth(Point::MakerNamed, 1), |cache| {
        lease(cache, 1);
    });
    let _maker = maker.expect("it takes a row");
    assert!(twins[1].wait_made(&name(1), Duration::ZERO).unwrap(), "there is no maker yet");
    twins[0].declare_dead(0);
    let tokens = [1, 2, 3, 4].map(|key| lease(&twins[1], key));
    for (key, token) in (1..).zip(tokens) {
        assert!(is_busy(&twins[2], key), "{key}: all four rows can be taken");
        assert!(finish(&twins[1], token, key, 1));
    }
    assert_sound(&twins[2]);
}

/// A waiter that sleeps on a key in a thread of its own.
fn waiter(cache: &Arc<Cache>, key: usize) -> std::thread::JoinHandle<bool> {
    let cache = Arc::clone(cache);
    std::thread::spawn(move || cache.wait_made(&name(key), LONG).unwrap())
}

#[test]
fn a_maker_that_dies_before_it_wakes_anybody_keeps_nobody_waiting() {
    let twins = twins(64 << 10, 3);
    let token = lease(&twins[0], 1);
    let waiters = [waiter(&twins[1], 1), waiter(&twins[2], 1)];
    let maker = Stopped::start(&twins[0], nth(Point::ClaimReleased, 1), |cache| {
        assert!(finish(cache, token, 1, 1));
    });
    let _maker = maker.expect("it releases its row");
    twins[0].declare_dead(0);
    for waiter in waiters {
        assert!(waiter.join().unwrap());
    }
    assert_eq!(look(&twins[1], 1), Some(Seen::Value(1)));
}

#[test]
fn a_row_is_released_and_taken_again_before_a_waiter_sleeps() {
    for next_key in [1, 2] {
        let twins = twins(64 << 10, 3);
        let token = lease(&twins[0], 1);
        let waiter = Stopped::start(&twins[1], nth(Point::ClaimAwaited, 1), |cache| {
            assert!(cache.wait_made(&name(1), LONG).unwrap());
        });
        let waiter = waiter.expect("it waits");
        assert!(finish(&twins[0], token, 1, 1));
        let next = lease(&twins[0], next_key);
        // Ends although the row has a maker again: it is another claim.
        waiter.resume();
        assert!(finish(&twins[0], next, next_key, 2));
    }
}

#[test]
fn a_late_release_leaves_the_next_maker_alone() {
    let twins = twins(64 << 10, 3);
    let token = lease(&twins[0], 1);
    twins[0].declare_dead(0);
    // The dead one's row gets another maker. Then it turns out to have been only slow.
    let next = lease(&twins[1], 1);
    twins[0].abandon(&token);
    assert!(is_busy(&twins[2], 1));
    assert!(finish(&twins[1], next, 1, 1));
}

#[test]
fn a_value_whose_tag_is_evicted_while_it_is_stored_is_not_found() {
    for point in [Point::RecordWritten, Point::CursorMoved] {
        let mut evictions = 0;
        for key in 0..8 {
            let twins = brief_twins(64 << 20);
            let token = lease(&twins[0], key);
            let maker = Stopped::start(&twins[0], nth(point, 1), move |cache| {
                let attributes = Attributes { tags: &["users"], ..Attributes::default() };
                let (name, value) = (name(key), stamped(key, 1, 100));
                let stored =
                    cache.finish(&token, &name, Value::bytes(&value), Ttl::Never, &attributes);
                assert!(stored.unwrap(), "it looked at the tag before");
            });
            let maker = maker.expect("it stores");
            // Blocked if the tag's row and the key have the same lock.
            let is_evicted = twins[1].evict("users", false).is_ok();
            maker.resume();
            assert_eq!(look(&twins[2], key), (!is_evicted).then_some(Seen::Value(1)), "{point:?}");
            evictions += u32::from(is_evicted);
        }
        assert!(evictions > 0, "{point:?}");
    }
}
