// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables that are not read again: nobody else's change may be overlooked.

use crate::harness::{apply, in_namespace, name, observe, rule, run, whole};
use weirgate_kernel::{ApplyError, Kernel, Scope};
use weirgate_plan::{plan, verify};
use weirgate_state::{Field, Match, State};
use weirgate_units::Handle;

/// A state whose outgoing and arriving tables look at these ports.
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
        let made = kernel.apply_since(&change, Some(generation)).await.unwrap();
        assert_eq!(made.generation, Some(generation + 1));
        let whole = observe(&kernel, &[&two]).await;
        assert_eq!(verify(&whole, &two), vec![]);
        assert_eq!(made.after.tables, whole.tables);
        // What is known of this generation is taken as it is.
        let known = Some((generation + 1, &two.tables[..]));
        let again = kernel.observe_knowing(&scope, known).await.unwrap();
        assert_eq!(verify(&again.state, &two), vec![]);
        assert_eq!(again.generation, Some(generation + 1));
    });
}

#[test]
fn a_change_by_another_is_never_overlooked() {
    in_namespace(|kernel| async move {
        let (one, two, both) = (state(1, 2), state(1, 4), state(3, 2));
        apply(&kernel, &one, None).await;
        let scope = Scope::of([&one]);
        let stamp = kernel.stamp(&scope).await.unwrap();
        assert_eq!(kernel.stamp(&scope).await.unwrap(), stamp);
        let before = observe(&kernel, &[&one]).await;
        let change = plan(&before, &both).unwrap();
        // Another program changes the table that this plan leaves alone.
        let other = Kernel::open().unwrap();
        apply(&other, &two, None).await;
        assert_ne!(kernel.stamp(&scope).await.unwrap(), stamp);
        let known = Some((stamp.generation, &one.tables[..]));
        let seen = kernel.observe_knowing(&scope, known).await.unwrap();
        assert_eq!(verify(&seen.state, &two), vec![], "it was read anew");
        let outcome = kernel.apply_since(&change, Some(stamp.generation)).await;
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
        let stamp = kernel.stamp(&scope).await.unwrap();
        // Another device is of no account.
        run("ip link add spare type veth peer name other");
        assert_eq!(kernel.stamp(&scope).await.unwrap(), stamp);
        run(&format!("ip link del {}", name("wan")));
        assert_ne!(kernel.stamp(&scope).await.unwrap().heads, stamp.heads);
    });
}
