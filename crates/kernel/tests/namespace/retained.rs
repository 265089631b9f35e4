// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device that replaces a removed one gets the programs of that one.

use crate::condition::{bucket, state};
use crate::harness::{in_namespace, name, numbers, observe, run};
use crate::receive::windows;
use weirgate_plan::{plan, verify};
use weirgate_state::{Datagrams, HookPrograms};

#[test]
fn a_device_that_comes_back_has_the_same_programs() {
    in_namespace(|kernel| async move {
        let wan = name("wan");
        // Conditioners get the index of their device, and windows have two programs.
        let mut desired = state(vec![bucket("in", 1, 64)], vec![bucket("out", 1, 64)]);
        let hooks = desired.hooks.get_mut(&wan).unwrap();
        hooks.windows = Some(Box::new(windows(4_000)));
        let hooks = hooks.clone();
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        kernel.apply(&forward).await.unwrap();
        let first = kernel.device(&wan).await.unwrap();
        let mut retained = kernel.retain_programs(first).await.unwrap();
        let programs = ["ingress", "egress"].map(numbers).concat();
        assert_eq!(programs.len(), 4);
        let mut last = first;
        for _ in 0..2 {
            run("ip link del wan");
            run("ip link add wan type veth peer name far");
            run("ip link set wan up");
            let index = kernel.device(&wan).await.unwrap();
            assert_ne!(index, last);
            let put = kernel.put_programs(&wan, index, &hooks, &mut retained);
            assert!(put.await.unwrap());
            assert_eq!(
                ["ingress", "egress"].map(numbers).concat(),
                programs,
                "the same, in the same places"
            );
            let observed = observe(&kernel, &[&desired]).await;
            assert_eq!(verify(&observed, &desired), []);
            last = index;
        }
    });
}

#[test]
fn a_program_that_is_not_held_is_left_to_be_loaded() {
    in_namespace(|kernel| async move {
        let wan = name("wan");
        let index = kernel.device(&wan).await.unwrap();
        let mut retained = kernel.retain_programs(index).await.unwrap();
        let hooks = HookPrograms {
            datagrams: Some(Box::new(Datagrams::default())),
            ..HookPrograms::default()
        };
        let put = kernel.put_programs(&wan, index, &hooks, &mut retained);
        assert!(!put.await.unwrap());
        assert!(!run("tc qdisc show dev wan").contains("clsact"));
    });
}
