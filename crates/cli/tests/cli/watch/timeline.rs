// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of `apply`, `rollback` and `remove` while `watch` runs. They have the numbers of
//! `weirgate history`, and only applied states are reported, not mere attempts.

use crate::watch::{Watch, class};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Returns the texts of the events about applied states, in order.
fn applied(watch: &Watch) -> Vec<String> {
    let read: Value = watch.json("api/events");
    let all = read["events"].as_array().unwrap();
    let own = all.iter().filter(|one| one["kind"] == "apply");
    own.map(|one| one["text"].as_str().unwrap().to_owned())
        .collect()
}

/// Waits until the last of these events has the given text.
#[track_caller]
fn until(watch: &Watch, text: &str) {
    let begin = Instant::now();
    loop {
        let events = applied(watch);
        if events.last().is_some_and(|last| last == text) {
            return;
        }
        assert!(
            begin.elapsed() < Duration::from_mins(1),
            "{text}: {events:?}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_is_applied_is_told_with_its_number() {
    let watch = Watch::start(|_| {});
    watch.look(|now| class(now, "urgent").is_some());
    assert_eq!(applied(&watch), [""; 0]);
    let steps = [
        ("apply kollegiegaarden.toml", "state 2 was applied"),
        ("apply --confirm 600s flows.toml", "state 3 was applied"),
        (
            "rollback",
            "state 3 is taken back, state 2 is applied again",
        ),
        ("rollback", "state 4 was applied"),
        ("remove", "no state is applied any more"),
    ];
    for (line, text) in steps {
        let ended = watch.namespace.weirgate(line);
        assert_eq!(ended.status, 0, "{line}: {ended:?}");
        until(&watch, text);
    }
    assert_eq!(applied(&watch), steps.map(|(_, text)| text));
    // The graphs mark the event.
    let history = watch.browser("#history/0.25", &["--dump-dom"]);
    assert!(history.contains(": state 2 was applied</title>"));
}
