// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device that has just appeared gets its tree at once, and objects of other programs are not
//! touched.

use crate::harness::{
    class, htb, in_namespace, name, observe, only, origin, pfifo, qdisc, run, tree,
};
use libc::ENODEV;
use std::time::Duration;
use tokio::time::timeout;
use weirgate_kernel::{ApplyError, Cause, Fault, KernelError};
use weirgate_plan::{plan, verify};
use weirgate_state::{
    CakeAckFilter, CakeFraming, KitWire, Qdisc, QdiscKind, Red, Rows, RowsNode, RowsRole,
};
use weirgate_units::{Handle, Rate, Size, Span};

#[test]
fn a_bare_device_gets_its_tree() {
    in_namespace(|kernel| async move {
        let (wan, desired) = (name("wan"), only(Some(tree())));
        let index = kernel.device(&wan).await.unwrap();
        assert!(kernel.put_tree(&wan, index, &tree()).await.unwrap());
        let observed = observe(&kernel, &[&desired]).await;
        assert_eq!(verify(&observed, &desired), []);
        // The tree exists, and is not changed.
        assert!(!kernel.put_tree(&wan, index, &tree()).await.unwrap());
    });
}

#[test]
fn what_somebody_else_put_there_stays() {
    in_namespace(|kernel| async move {
        run("tc qdisc add dev wan root handle 1: htb default 7");
        // HTB's options include its counter of passed packets, and the device's own IPv6
        // announcements may pass at any time.
        let shown = || {
            let text = run("tc qdisc show dev wan");
            text.split(" direct_packets_stat ")
                .next()
                .unwrap()
                .to_owned()
        };
        let before = shown();
        let wan = name("wan");
        let index = kernel.device(&wan).await.unwrap();
        assert!(!kernel.put_tree(&wan, index, &tree()).await.unwrap());
        assert_eq!(shown(), before);
        assert_eq!(run("tc class show dev wan"), "");
    });
}

/// A program is not loaded here.
#[test]
fn an_engine_of_rows_is_left_to_the_repair() {
    in_namespace(|kernel| async move {
        let leaf = RowsNode {
            id: Handle::new(1, 16),
            role: RowsRole::Leaf,
            parent: None,
            guarantee: Rate::default(),
            ceiling: None,
            cap: None,
            prio: 0,
            burst: 0,
            quantum: 1_514,
            target: Span::ZERO,
            limit: 0,
            hosts: false,
            origin: origin(3),
        };
        let rows = Rows {
            gate: Rate::kbit(511),
            wire: KitWire {
                overhead: 14,
                mpu: 0,
                framing: CakeFraming::Atm,
            },
            mtu: 1_514,
            other: leaf.id,
            interval: Span::from_millis(100),
            marks: true,
            acks: CakeAckFilter::Aggressive,
            hosts: None,
            nodes: vec![leaf],
        };
        let (wan, engine) = (name("wan"), qdisc(1, QdiscKind::Rows(rows)));
        plan(&only(None), &only(Some(engine.clone()))).unwrap();
        let index = kernel.device(&wan).await.unwrap();
        assert!(!kernel.put_tree(&wan, index, &engine).await.unwrap());
    });
}

#[test]
fn a_tree_that_is_refused_leaves_nothing() {
    in_namespace(|kernel| async move {
        let before = run("tc qdisc show dev wan");
        let wan = name("wan");
        let index = kernel.device(&wan).await.unwrap();
        // RED refuses a larger threshold that is below the smaller one; a kernel without RED
        // refuses too. The gate exists by then.
        let red = Red {
            limit: Size::bytes(60_000),
            min: Size::bytes(30_000),
            max: Size::bytes(10_000),
            probability_millionths: 20_000,
            wlog: 9,
            plog: 20,
            scell_log: 10,
            ecn: false,
            adaptive: false,
            bandwidth: Rate::kbit(1_000),
            avpkt: 1_000,
        };
        let leaf = qdisc(0x10, QdiscKind::Red(red));
        let refused = htb(1, 1, vec![class(1, 1, 0, Some(leaf))]);
        let error = kernel.put_tree(&wan, index, &refused).await.unwrap_err();
        assert!(matches!(error, KernelError::Refused(_)), "{error}");
        assert_eq!(run("tc qdisc show dev wan"), before);
    });
}

/// Returns a tree whose requests have more refusals than the socket's receive buffer holds.
fn large() -> Qdisc {
    let leaf = |minor| class(1, minor, 0, Some(pfifo(0x100 + minor, 50)));
    htb(1, 1, (1..=300).map(leaf).collect())
}

#[test]
fn a_device_that_disappears_under_a_large_tree_is_an_error() {
    in_namespace(|kernel| async move {
        let wan = name("wan");
        let index = kernel.device(&wan).await.unwrap();
        let tree = large();
        run("ip link del wan");
        for _ in 0..2 {
            let put = timeout(Duration::from_secs(5), kernel.put_tree(&wan, index, &tree));
            let error = put.await.unwrap().unwrap_err();
            let gone = matches!(&error, KernelError::Refused(refusal) if refusal.errno == ENODEV);
            assert!(gone, "{error}");
        }
    });
}

#[test]
fn the_first_of_many_refusals_is_the_cause() {
    in_namespace(|kernel| async move {
        let before = observe(&kernel, &[&only(None)]).await;
        let plan = plan(&before, &only(Some(large()))).unwrap();
        kernel.inject(Some(Fault::Refused(0)));
        let error = kernel.apply(&plan).await.unwrap_err();
        assert!(
            matches!(
                &error,
                ApplyError::Restored {
                    cause: Cause::Kernel(KernelError::Refused(_))
                }
            ),
            "{error}"
        );
        kernel.apply(&plan).await.unwrap();
    });
}
