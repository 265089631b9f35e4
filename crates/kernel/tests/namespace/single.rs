// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading one device gives the same result as reading all, and applying to it is atomic.

use crate::harness::{in_namespace, name, observe, only, pfifo, run, tree};
use weirgate_kernel::{ApplyError, Fault};
use weirgate_plan::plan;
use weirgate_state::State;

/// Returns a tree without a size table, which the kernel does not list.
fn wanted() -> State {
    let mut root = tree();
    root.stab = None;
    only(Some(root))
}

#[test]
fn one_device_is_as_among_all() {
    in_namespace(|kernel| async move {
        let wan = name("wan");
        let bare = kernel.observe_one(&wan).await.unwrap().unwrap();
        assert_eq!(bare.root, None);
        let lead = plan(&only(None), &wanted()).unwrap();
        kernel.apply_to_one(&wan, &lead).await.unwrap();
        let all = observe(&kernel, &[&wanted()]).await;
        let one = kernel.observe_one(&wan).await.unwrap().unwrap();
        assert!(one.root.is_some());
        assert_eq!(one.root, all.devices[&wan].root);
        let gone = kernel.observe_one(&name("nowhere")).await.unwrap();
        assert_eq!(gone, None);
        // An alternative name does not identify it.
        run("ip link property add dev wan altname outside");
        assert_eq!(kernel.observe_one(&name("outside")).await.unwrap(), None);
        kernel.device(&name("outside")).await.unwrap_err();
    });
}

#[test]
fn a_change_of_one_device_is_made_or_not_at_all() {
    in_namespace(|kernel| async move {
        let wan = name("wan");
        let mut first = only(Some(pfifo(7, 9)));
        kernel
            .apply_to_one(&wan, &plan(&only(None), &first).unwrap())
            .await
            .unwrap();
        let before = kernel.observe_one(&wan).await.unwrap().unwrap();
        first.devices.insert(wan.clone(), before.clone());
        let options = weirgate_plan::Options {
            previous: Some(&first),
            replace_foreign: false,
        };
        let lead = weirgate_plan::plan_with(&first, &wanted(), &options).unwrap();
        kernel.inject(None);
        kernel.apply_to_one(&wan, &lead).await.unwrap();
        let requests = kernel.requests();
        assert!(requests > 3, "{requests}");
        let after = kernel.observe_one(&wan).await.unwrap().unwrap();
        let mut second = wanted();
        second.devices.insert(wan.clone(), after);
        let options = weirgate_plan::Options {
            previous: Some(&second),
            replace_foreign: false,
        };
        let back = weirgate_plan::plan_with(&second, &first, &options).unwrap();
        kernel.apply_to_one(&wan, &back).await.unwrap();
        for number in 0..requests {
            kernel.inject(Some(Fault::Refused(number)));
            let refused = kernel.apply_to_one(&wan, &lead).await;
            kernel.inject(None);
            assert!(
                matches!(refused, Err(ApplyError::Restored { .. })),
                "{number}: {refused:?}"
            );
            assert_eq!(
                kernel.observe_one(&wan).await.unwrap(),
                Some(before.clone())
            );
        }
    });
}
