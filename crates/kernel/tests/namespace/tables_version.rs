// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables that are not read again: another program's change must be detected.

use crate::harness::{apply, in_namespace, name, observe, rule, run, whole};
use weirgate_kernel::{ApplyError, Handles, Kernel, KnownTables, Scope, Since};
use weirgate_plan::{plan, verify};
use weirgate_state::{Field, Match, State};
use weirgate_units::Handle;

/// Returns a state whose outgoing and arriving tables match these ports.
fn state(up: u128, down: u128) -> State {
    let rules = |port| {
        let test = |port| vec![Match::one(Field::SourcePort, port)];
        [
            rule(test(9), Handle::new(1, 1)),
            rule(test(port), Handle::new(1, 1)),
        ]
    };
    let mut state = whole(&rules(up));
    for table in whole(&rules(down)).tables {
        if table.netdev {
            state.tables.retain(|own| !own.netdev);
            state.tables.push(table);
        }
    }
    state
}

#[test]
fn after_a_change_in_place_only_what_it_wrote_is_read() {
    in_namespace(|kernel| async move {
        let (one, two) = (state(1, 2), state(3, 2));
        apply(&kernel, &one, None).await;
        let scope = Scope::of([&one, &two]);
        let observed = kernel.observe_knowing(&scope, None).await.unwrap();
        let generation = observed.generation.unwrap();
        let change = plan(&observed.state, &two).unwrap();
        assert_eq!(change.steps.len(), 1, "one table is changed");
        let since = Since {
            generation: Some(generation),
            handles: observed.handles,
        };
        let made = kernel.apply_since(&change, &since).await.unwrap();
        assert_eq!(made.generation, Some(generation + 1));
        let whole = observe(&kernel, &[&two]).await;
        assert_eq!(verify(&whole, &two), vec![]);
        assert_eq!(made.after.tables, whole.tables);
        // Tables of a known generation are not read again.
        let known = Some(KnownTables {
            generation: generation + 1,
            tables: &two.tables,
            handles: &made.handles,
        });
        let again = kernel.observe_knowing(&scope, known).await.unwrap();
        assert_eq!(verify(&again.state, &two), vec![]);
        assert_eq!(again.generation, Some(generation + 1));
        // The handles of rules are those of a complete read.
        let anew = kernel.observe_knowing(&scope, None).await.unwrap();
        assert!(!anew.handles.is_empty());
        assert_eq!(made.handles, anew.handles);
        assert_eq!(again.handles, anew.handles);
    });
}

/// Returns a state whose two tables match these ports, in this order.
fn ports(list: impl IntoIterator<Item = u128>) -> State {
    let test = |port| vec![Match::one(Field::SourcePort, port)];
    let rules: Vec<_> = list
        .into_iter()
        .map(|port| rule(test(port), Handle::new(1, 1)))
        .collect();
    whole(&rules)
}

/// Rules are inserted first, last or in between, are removed, or are too many to be read one by
/// one. The result and the handles always equal those of a complete read.
#[test]
fn every_change_is_read_back_as_it_is() {
    in_namespace(|kernel| async move {
        let steps = [
            ports([1, 2, 3, 4]),
            ports([1, 2, 9, 4]),
            ports([7, 1, 2, 9, 4]),
            ports([7, 1, 2, 9, 4, 8]),
            ports([1, 2, 9, 4, 8]),
            ports([1, 2]),
            ports((0..40).chain([1, 2])),
            ports((0..40).chain([1, 3])),
            ports([5]),
            ports([5, 5, 5]),
            ports([5, 5]),
        ];
        apply(&kernel, &steps[0], None).await;
        let scope = Scope::of(&steps);
        let mut now = kernel.observe_knowing(&scope, None).await.unwrap();
        for wanted in &steps[1..] {
            let change = plan(&now.state, wanted).unwrap();
            let since = Since {
                generation: now.generation,
                handles: now.handles,
            };
            let made = kernel.apply_since(&change, &since).await.unwrap();
            now = kernel.observe_knowing(&scope, None).await.unwrap();
            assert_eq!(verify(&now.state, wanted), vec![]);
            assert_eq!(made.after.tables, now.state.tables);
            assert_eq!(made.generation, now.generation);
            assert_eq!(made.handles, now.handles);
        }
    });
}

/// Stale handles lead to a refusal, never to a change of another rule.
#[test]
fn numbers_of_rules_that_went_are_refused() {
    in_namespace(|kernel| async move {
        let (one, two) = (ports([1, 2, 3]), ports([1, 4, 3]));
        apply(&kernel, &one, None).await;
        let scope = Scope::of([&one]);
        let observed = kernel.observe_knowing(&scope, None).await.unwrap();
        let change = plan(&observed.state, &two).unwrap();
        // The same tables, made again under the same names.
        let other = Kernel::open().unwrap();
        apply(&other, &ports([]), None).await;
        apply(&other, &one, None).await;
        let since = Since {
            generation: observed.generation,
            handles: observed.handles,
        };
        let outcome = kernel.apply_since(&change, &since).await;
        assert!(
            matches!(outcome, Err(ApplyError::Restored { .. })),
            "{outcome:?}"
        );
        let after = observe(&kernel, &[&one]).await;
        assert_eq!(verify(&after, &one), vec![]);
    });
}

#[test]
fn a_change_by_another_is_never_overlooked() {
    in_namespace(|kernel| async move {
        let (one, two, both) = (state(1, 2), state(1, 4), state(3, 2));
        apply(&kernel, &one, None).await;
        let scope = Scope::of([&one]);
        let version = kernel.tables_version(&scope).await.unwrap();
        assert_eq!(kernel.tables_version(&scope).await.unwrap(), version);
        let before = observe(&kernel, &[&one]).await;
        let change = plan(&before, &both).unwrap();
        // Another program changes the table that this plan does not touch.
        let other = Kernel::open().unwrap();
        apply(&other, &two, None).await;
        assert_ne!(kernel.tables_version(&scope).await.unwrap(), version);
        let since = Since {
            generation: Some(version.generation),
            handles: Handles::new(),
        };
        let known = Some(KnownTables {
            generation: version.generation,
            tables: &one.tables,
            handles: &since.handles,
        });
        let seen = kernel.observe_knowing(&scope, known).await.unwrap();
        assert_eq!(verify(&seen.state, &two), vec![], "it was read anew");
        let outcome = kernel.apply_since(&change, &since).await;
        assert!(
            matches!(outcome, Err(ApplyError::Restored { .. })),
            "{outcome:?}"
        );
    });
}

#[test]
fn a_device_that_went_changes_the_stamp() {
    in_namespace(|kernel| async move {
        let one = state(1, 2);
        apply(&kernel, &one, None).await;
        let scope = Scope::of([&one]);
        let version = kernel.tables_version(&scope).await.unwrap();
        // Another device does not matter.
        run("ip link add spare type veth peer name other");
        assert_eq!(kernel.tables_version(&scope).await.unwrap(), version);
        run(&format!("ip link del {}", name("wan")));
        assert_ne!(
            kernel.tables_version(&scope).await.unwrap().heads,
            version.heads
        );
    });
}
