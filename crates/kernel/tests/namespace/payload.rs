// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the classifier of payloads of arriving packets: it is applied completely, or nothing
//! changes.

use crate::harness::{in_namespace, name, observe, only, run};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use weirgate_kernel::Fault;
use weirgate_plan::{plan, verify};
use weirgate_state::{HookPrograms, Payload, State};

fn looking(lowest: u8) -> State {
    let payload = Payload { lowest };
    let place = HookPrograms {
        payload: Some(payload),
        ..HookPrograms::default()
    };
    State {
        hooks: [(name("wan"), place)].into(),
        ..only(None)
    }
}

#[test]
fn the_classifier_comes_is_exchanged_and_goes() {
    in_namespace(|kernel| async move {
        let desired = looking(24);
        assert!(weirgate_kernel::can_look());
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        assert_eq!(forward.steps.len(), 1, "{forward:?}");
        let applied = kernel.apply(&forward).await.unwrap();
        assert_eq!(verify(&applied.after, &desired), []);
        let shown = run("tc filter show dev wan ingress");
        assert!(shown.contains("weirgate-payload-24-"), "{shown}");
        assert!(shown.contains("direct-action"), "{shown}");
        // No plan has steps if the state is unchanged.
        let now = observe(&kernel, &[&desired]).await;
        assert_eq!(plan(&now, &desired).unwrap().steps, []);
        // With other mark bits, the program is replaced, and the hook stays.
        let other = looking(20);
        let exchange = plan(&now, &other).unwrap();
        kernel.inject(None);
        let applied = kernel.apply(&exchange).await.unwrap();
        assert_eq!(kernel.requests(), 1);
        assert_eq!(verify(&applied.after, &other), []);
        let shown = run("tc filter show dev wan ingress");
        assert!(shown.contains("weirgate-payload-20-"), "{shown}");
        assert!(!shown.contains("weirgate-payload-24-"), "{shown}");
        // A filter of another program keeps the hook.
        run("tc filter add dev wan ingress pref 90 protocol all u32 match u32 0 0 flowid 1:1");
        let shared = observe(&kernel, &[&other]).await;
        let back = plan(&shared, &before).unwrap();
        kernel.apply(&back).await.unwrap();
        let left = observe(&kernel, &[&other]).await;
        let place = left.hooks.values().next().unwrap();
        assert!(place.others && place.is_bare());
        run("tc qdisc del dev wan clsact");
        let desired = looking(24);
        let before = observe(&kernel, &[&desired]).await;
        kernel
            .apply(&plan(&before, &desired).unwrap())
            .await
            .unwrap();
        let now = observe(&kernel, &[&desired]).await;
        kernel.apply(&plan(&now, &before).unwrap()).await.unwrap();
        assert!(!run("tc qdisc show dev wan").contains("clsact"));
    });
}

#[test]
fn every_refusal_leaves_what_was_there() {
    in_namespace(|kernel| async move {
        let desired = looking(24);
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        for number in 0..2 {
            kernel.inject(Some(Fault::Refused(number)));
            kernel.apply(&forward).await.unwrap_err();
            kernel.inject(None);
            assert_eq!(observe(&kernel, &[&desired]).await, before, "{number}");
            assert!(!run("tc qdisc show dev wan").contains("clsact"));
        }
        kernel.apply(&forward).await.unwrap();
        let there = observe(&kernel, &[&desired]).await;
        let exchange = plan(&there, &looking(20)).unwrap();
        kernel.inject(Some(Fault::Refused(0)));
        kernel.apply(&exchange).await.unwrap_err();
        kernel.inject(None);
        assert_eq!(observe(&kernel, &[&desired]).await, there);
    });
}

#[test]
fn the_missing_capability_is_named() {
    in_namespace(|kernel| async move {
        let desired = looking(24);
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        let mut own = capabilities(None).unwrap();
        own.effective
            .remove(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN);
        set_capabilities(None, own).unwrap();
        let error = kernel.apply(&forward).await.unwrap_err().to_string();
        assert!(
            error.contains("K316") && error.contains("(this needs CAP_BPF)"),
            "{error}"
        );
        assert!(error.contains("The former state is back"), "{error}");
        assert_eq!(observe(&kernel, &[&desired]).await, before);
    });
}
