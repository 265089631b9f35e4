// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs for arriving packets, on a kernel that supports them or not: they are applied
//! completely, or nothing changes. The lab tests their effect on packets.

use crate::harness::{in_namespace, name, observe, only, run};
use weirgate_plan::{plan, verify};
use weirgate_state::{HookPrograms, State};

fn restoring() -> State {
    let place = HookPrograms {
        restore: Some(0x00ff_0000),
        ..HookPrograms::default()
    };
    State {
        hooks: [(name("wan"), place)].into(),
        ..only(None)
    }
}

#[test]
fn a_filter_is_there_or_its_place_is_as_before() {
    for place_is_there in [false, true] {
        in_namespace(move |kernel| async move {
            if place_is_there {
                run("tc qdisc add dev wan clsact");
            }
            let desired = restoring();
            let before = observe(&kernel, &[&desired]).await;
            assert_eq!(before.hooks.len(), usize::from(place_is_there));
            let forward = plan(&before, &desired).unwrap();
            assert_eq!(forward.steps.len(), 1);
            let able = kernel.capabilities().await.unwrap().restore_marks;
            match kernel.apply(&forward).await {
                Ok(applied) => {
                    assert!(able, "it says that it cannot");
                    assert_eq!(verify(&applied.after, &desired), []);
                    let back = plan(&applied.after, &before).unwrap();
                    kernel.apply(&back).await.unwrap();
                }
                // A kernel may have `act_ctinfo` but lack `cls_matchall`.
                Err(error) => assert!(error.to_string().contains("K310"), "{error}"),
            }
            assert_eq!(observe(&kernel, &[&desired]).await, before);
            let shown = run("tc qdisc show dev wan");
            assert_eq!(shown.contains("clsact"), place_is_there, "{shown}");
        });
    }
}
