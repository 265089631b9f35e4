// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that holds arriving packets to a rate: installed completely or not at all, and
//! changed in place.

use crate::harness::{in_namespace, name, observe, only, run};
use weirgate_kernel::Fault;
use weirgate_plan::{plan, verify};
use weirgate_state::{CakeFraming, HookPrograms, KitSetting, KitWire, State, VirtualQueueFilter};
use weirgate_units::Rate;

fn holding(kbit: u64, min: u64) -> State {
    let filter = VirtualQueueFilter {
        rate: Rate::kbit(kbit),
        wire: KitWire {
            overhead: 14,
            mpu: 0,
            framing: CakeFraming::Atm,
        },
        mtu: 1514,
        parts: 31,
        // One band, as a virtual queue has.
        settings: [("min_bytes", min), ("bands", 1)]
            .map(|(name, value)| KitSetting {
                name: name.to_owned(),
                value,
                usual: false,
            })
            .to_vec(),
    };
    let place = HookPrograms {
        virtual_queue: Some(filter),
        ..HookPrograms::default()
    };
    State {
        hooks: [(name("wan"), place)].into(),
        ..only(None)
    }
}

#[test]
fn it_comes_is_told_and_goes() {
    in_namespace(|kernel| async move {
        let desired = holding(1940, 3392);
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        assert_eq!(forward.steps.len(), 1, "{forward:?}");
        let applied = kernel.apply(&forward).await.unwrap();
        assert_eq!(verify(&applied.after, &desired), []);
        let shown = run("tc filter show dev wan ingress");
        assert!(shown.contains("weirgate-inbound-"), "{shown}");
        let held = kernel.policed(&name("wan")).await.unwrap().unwrap();
        // The kernel at the other end sends ICMPv6 for its own addresses.
        let foreign = held.flows.iter().filter(|flow| flow.protocol != 58);
        assert_eq!(foreign.count(), 0, "{:?}", held.flows);
        // An unchanged state plans nothing.
        let now = observe(&kernel, &[&desired]).await;
        assert_eq!(plan(&now, &desired).unwrap().steps, []);
        // A new rate and threshold change the filter in place.
        let number = |shown: &str| {
            let at = shown.split(" id ").nth(1).unwrap_or_default();
            at.split_whitespace().next().unwrap_or_default().to_owned()
        };
        let id = number(&shown);
        let other = holding(1500, 4000);
        let change = plan(&now, &other).unwrap();
        assert_eq!(change.steps.len(), 1);
        let applied = kernel.apply(&change).await.unwrap();
        assert_eq!(verify(&applied.after, &other), []);
        let shown = run("tc filter show dev wan ingress");
        assert_eq!(number(&shown), id, "the same program");
        // The first settings again.
        let now = observe(&kernel, &[&other]).await;
        kernel.apply(&plan(&now, &before).unwrap()).await.unwrap();
        assert!(!run("tc qdisc show dev wan").contains("clsact"));
        assert!(kernel.policed(&name("wan")).await.unwrap().is_none());
    });
}

#[test]
fn every_refusal_leaves_what_was_there() {
    in_namespace(|kernel| async move {
        let desired = holding(1940, 3392);
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        for number in 0..2 {
            kernel.inject(Some(Fault::Refused(number)));
            kernel.apply(&forward).await.unwrap_err();
            kernel.inject(None);
            assert_eq!(observe(&kernel, &[&desired]).await, before, "{number}");
            assert!(!run("tc qdisc show dev wan").contains("clsact"));
        }
        // Parameters that the discipline refuses are refused before anything is applied.
        let wrong = holding(1940, u64::MAX);
        let error = kernel.apply(&plan(&before, &wrong).unwrap()).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("min_bytes"), "{error}");
        assert_eq!(observe(&kernel, &[&desired]).await, before);
    });
}
