// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that keep connections in order when they change class: both are applied, or nothing
//! changes.

use crate::harness::{in_namespace, name, observe, only, run};
use weirgate_kernel::Fault;
use weirgate_plan::{plan, verify};
use weirgate_state::{HookPrograms, Order, State};

fn ordering() -> State {
    let place = HookPrograms {
        order: Some(Order {}),
        ..HookPrograms::default()
    };
    State {
        hooks: [(name("wan"), place)].into(),
        ..only(None)
    }
}

/// Returns the names and numbers of the programs at both hooks.
fn programs() -> Vec<String> {
    let shown = ["ingress", "egress"].map(|hook| run(&format!("tc filter show dev wan {hook}")));
    let words = shown.iter().flat_map(|text| text.split_whitespace());
    let mut words = words.skip_while(|word| !word.starts_with("weirgate-order"));
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        if word.starts_with("weirgate-order") {
            found.push(word.to_owned());
        } else if word == "id" {
            found.extend(words.next().map(str::to_owned));
        }
    }
    found
}

#[test]
fn they_come_are_mended_and_go() {
    in_namespace(|kernel| async move {
        let desired = ordering();
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        assert_eq!(forward.steps.len(), 1, "{forward:?}");
        let applied = kernel.apply(&forward).await.unwrap();
        assert_eq!(verify(&applied.after, &desired), []);
        let made = programs();
        assert_eq!(made.len(), 4, "{made:?}");
        assert!(made[0].starts_with("weirgate-order-in-"), "{made:?}");
        assert!(made[2].starts_with("weirgate-order-out-"), "{made:?}");
        // Existing programs are not written again.
        let now = observe(&kernel, &[&desired]).await;
        assert_eq!(plan(&now, &desired).unwrap().steps, []);
        // A removed program is restored, with its counterpart.
        run("tc filter del dev wan egress");
        let now = observe(&kernel, &[&desired]).await;
        let mended = kernel.apply(&plan(&now, &desired).unwrap()).await.unwrap();
        assert_eq!(verify(&mended.after, &desired), []);
        let again = programs();
        assert!(again.len() == 4 && again[1] != made[1], "{again:?}");
        let now = observe(&kernel, &[&desired]).await;
        kernel.apply(&plan(&now, &before).unwrap()).await.unwrap();
        assert!(!run("tc qdisc show dev wan").contains("clsact"));
    });
}

#[test]
fn every_refusal_leaves_what_was_there() {
    in_namespace(|kernel| async move {
        let desired = ordering();
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        for number in 0..3 {
            kernel.inject(Some(Fault::Refused(number)));
            kernel.apply(&forward).await.unwrap_err();
            kernel.inject(None);
            assert_eq!(observe(&kernel, &[&desired]).await, before, "{number}");
            assert!(!run("tc qdisc show dev wan").contains("clsact"));
        }
    });
}
