// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An apply that is interrupted at any of its requests: by a refusal, by a kind of
//! qdisc that the kernel lacks, by a device that vanishes, by a kill.
//!
//! `long` interrupts the applies of all ten policies of `tests/cli/safe`. The tests
//! outside of it take one or two: 03 has classes and rules, 08 has programs.

use crate::apply::safe::{requests, task, unguarded, within};
use crate::namespace::{Namespace, same};
use crate::stream::Far;
use std::time::Duration;

#[test]
fn a_refusal_of_any_request_leaves_what_was_there() {
    refusals(["safe/03.toml"]);
}

#[test]
fn a_kind_that_is_missing_at_any_request_leaves_what_was_there() {
    assert!(missing_kinds(["safe/03.toml"]) > 2);
}

#[test]
fn a_kill_at_any_request_leaves_the_old_state_or_the_new() {
    kills(["safe/03.toml"]);
}

mod long {
    use super::{kills, missing_kinds, refusals, vanishings};
    use crate::apply::safe::policies;

    #[test]
    fn a_refusal_of_any_request_leaves_what_was_there() {
        assert!(refusals(policies()) > 100);
    }

    #[test]
    fn a_kind_that_is_missing_at_any_request_leaves_what_was_there() {
        assert!(missing_kinds(policies()) > 100);
    }

    /// A device that vanishes during an apply leaves nothing of weirgate's behind, and is set up
    /// completely when it returns.
    #[test]
    fn a_device_that_vanishes_at_any_request_leaves_nothing_of_it() {
        let four = [1, 3, 8, 10].map(|number| format!("safe/{number:02}.toml"));
        assert!(vanishings(four) > 30);
    }

    #[test]
    fn a_kill_at_any_request_leaves_the_old_state_or_the_new() {
        assert!(kills(policies()) > 100);
    }
}

/// The fewest requests of a policy: another rate changes the gate, the scheduler and two classes.
const LEAST: usize = 4;

/// Refuses every request of each policy; returns the number of requests.
fn refusals<P: AsRef<str>>(policies: impl IntoIterator<Item = P>) -> usize {
    let namespace = Namespace::new();
    let far = Far::of(&namespace);
    let mut all = 0;
    for policy in policies {
        let policy = policy.as_ref();
        let refused = requests(&task(&namespace, "refuse", policy));
        assert!(refused >= LEAST, "{policy} {refused}");
        assert!(far.reached(), "{policy}");
        all += refused;
    }
    assert!(unguarded(&namespace));
    all
}

/// Makes the kind of every request unavailable; returns the number of requests with a kind. A
/// policy that only changes rates has none.
fn missing_kinds<P: AsRef<str>>(policies: impl IntoIterator<Item = P>) -> usize {
    let namespace = Namespace::new();
    let _far = Far::of(&namespace);
    let mut all = 0;
    for policy in policies {
        let policy = policy.as_ref();
        let missed = requests(&task(&namespace, "miss", policy));
        all += missed;
    }
    assert!(unguarded(&namespace));
    all
}

/// Removes the device at every request of each policy; returns the number of removals.
fn vanishings<P: AsRef<str>>(policies: impl IntoIterator<Item = P>) -> usize {
    let mut all = 0;
    for policy in policies {
        let policy = policy.as_ref();
        let namespace = Namespace::new();
        let back = || {
            namespace.run("ip link add wan type veth peer name far");
            namespace.run("ip link set wan up");
            namespace.run("ip link set far up");
        };
        namespace.weirgate(&format!("apply {policy}")).says(0, &[]);
        let whole = namespace.snapshot();
        namespace.weirgate("remove").says(0, &[]);
        let bare = namespace.snapshot();
        let mut vanished = 0;
        loop {
            let ended = task(&namespace, &format!("vanish {vanished}"), policy);
            assert_eq!(ended.status, 0, "{policy} {vanished}: {ended:?}");
            within(Duration::from_secs(30), "end of the guard", || {
                unguarded(&namespace)
            });
            if !ended.out.contains("vanished") {
                break;
            }
            assert!(ended.out.contains("made false"), "{policy} {vanished}");
            back();
            same(&bare, &namespace.snapshot());
            namespace.weirgate(&format!("apply {policy}")).says(0, &[]);
            same(&whole, &namespace.snapshot());
            namespace.weirgate("remove").says(0, &[]);
            vanished += 1;
        }
        assert!(vanished > 2, "{policy}");
        all += vanished;
    }
    all
}

/// Kills the apply at every request of each policy; returns the number of kills.
fn kills<P: AsRef<str>>(policies: impl IntoIterator<Item = P>) -> usize {
    let namespace = Namespace::new();
    let far = Far::of(&namespace);
    let mut all = 0;
    for policy in policies {
        let policy = policy.as_ref();
        let before = namespace.snapshot();
        let mut killed = 0;
        loop {
            let ended = task(&namespace, &format!("kill {killed}"), policy);
            within(Duration::from_secs(30), "end of the guard", || {
                unguarded(&namespace)
            });
            if ended.out.contains("not killed") {
                break;
            }
            killed += 1;
            same(&before, &namespace.snapshot());
            assert!(far.reached(), "{policy} {killed}");
        }
        assert!(killed >= LEAST, "{policy} {killed}");
        assert!(far.reached(), "{policy}");
        assert_eq!(namespace.weirgate("show").status, 0);
        all += killed;
    }
    all
}
