//! Evictions of tags that die or stop between any two steps, and values that are stored meanwhile.

use tuckbox_arena::hooks::Point;
use tuckbox_engine::{Attributes, Buffer, Cache, Terms, Ttl, Value};

use super::{assert_sound, nth, points_of, twins, Stopped};

fn set(cache: &Cache, key: &str) {
    let attributes = Attributes { tags: &["users", "staff"], ..Attributes::default() };
    let terms = Terms { attributes, ..Terms::plain(Ttl::Never) };
    assert!(cache.store(key.as_bytes(), Value::bytes(&[7; 100]), &terms).unwrap());
}

fn is_there(cache: &Cache, key: &str) -> bool {
    cache.get(key.as_bytes(), &mut Buffer::new()).unwrap().is_some()
}

/// Stops an eviction at each point that it reaches: the first and a later one of its tag.
fn each_point(mut act: impl FnMut(Point, &[std::sync::Arc<Cache>], Stopped)) {
    for (is_first, points) in [(true, 2), (false, 1)] {
        let evict = |cache: &Cache| cache.evict("users", false).unwrap();
        let trial = || {
            let twins = twins(1 << 20, 3);
            if !is_first {
                evict(&twins[0]);
            }
            set(&twins[0], "before");
            twins
        };
        let there = trial();
        let points_there = points_of(|| evict(&there[0]));
        assert_eq!(points_there.len(), points, "{points_there:?}");
        for point in points_there {
            let twins = trial();
            let stopped = Stopped::start(&twins[0], nth(point, 1), evict).unwrap();
            act(point, &twins, stopped);
        }
    }
}

#[test]
fn an_eviction_that_dies_between_its_steps_has_happened_or_not() {
    each_point(|point, twins, dead| {
        let survivor = &twins[1];
        twins[1].declare_dead(0);
        assert!(is_there(survivor, "before"), "its value was not stored at {point:?}");
        survivor.evict("users", false).unwrap();
        assert!(!is_there(survivor, "before"), "after a death at {point:?}");
        set(survivor, "after");
        assert!(is_there(&twins[2], "after"), "after a death at {point:?}");
        assert_sound(survivor);
        drop(dead);
    });
}

#[test]
fn what_is_stored_during_an_eviction_is_valid_or_not_but_what_was_there_is_not() {
    each_point(|point, twins, stopped| {
        // Its shard is locked by the eviction; this one is not.
        let is_elsewhere = |key: &String| !is_there(&twins[1], key);
        let key = (0..).map(|number| format!("during {number}")).find(is_elsewhere).unwrap();
        let other = std::sync::Arc::clone(&twins[1]);
        let storing = std::thread::spawn(move || set(&other, &key));
        stopped.resume();
        storing.join().unwrap();
        assert!(!is_there(&twins[2], "before"), "{point:?}");
        set(&twins[1], "after");
        assert!(is_there(&twins[2], "after"), "{point:?}");
    });
}

#[test]
fn a_value_that_is_being_stored_while_its_tag_is_evicted_is_not_found() {
    for point in [Point::RecordWritten, Point::CursorMoved] {
        let twins = twins(64 << 20, 2);
        // A tag whose row has the lock of another shard.
        let tags: Vec<String> = (0..40).map(|number| format!("tag {number}")).collect();
        let names: Vec<&str> = tags.iter().map(String::as_str).take(20).collect();
        let owned: Vec<String> = tags[..20].to_vec();
        let stopped = Stopped::start(&twins[0], nth(point, 1), move |cache| {
            let names: Vec<&str> = owned.iter().map(String::as_str).collect();
            let attributes = Attributes { tags: &names, ..Attributes::default() };
            let terms = Terms { attributes, ..Terms::plain(Ttl::Never) };
            cache.store(b"key", Value::Int(1), &terms).unwrap();
        })
        .unwrap();
        // One whose lock is free, in a thread of its own because most are not known to be.
        let evicting = std::thread::spawn({
            let (other, names) = (std::sync::Arc::clone(&twins[1]), tags.clone());
            move || names[..20].iter().for_each(|name| other.evict(name, false).unwrap())
        });
        stopped.resume();
        evicting.join().unwrap();
        assert!(!is_there(&twins[1], "key"), "{point:?}: {names:?}");
    }
}
