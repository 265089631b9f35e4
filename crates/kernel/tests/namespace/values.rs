// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that every setting is read back as written, and tests counters.

use crate::harness::{
    apply, bfifo, class, htb, in_namespace, name, observe, only, pfifo, run, stab, tree,
};
use weirgate_plan::{Action, Step, verify};
use weirgate_state::{
    Cake, CakeAckFilter, CakeFlowMode, FqCodel, HtbClass, Qdisc, QdiscKind, Red, Sfq,
};
use weirgate_units::{Rate, Size, Span};

#[test]
fn exact_values_survive_the_kernel() {
    in_namespace(|kernel| async move {
        let wide = HtbClass {
            rate: Rate::bits_per_second(40_000_000_000),
            ceil: Rate::bits_per_second(100_000_000_008),
            buffer: Span::from_nanos(64),
            cbuffer: Span::from_nanos(64 * 4_000_000_000),
            quantum: 1,
            prio: 7,
            ..class(1, 0xfffe, 0, Some(bfifo(0xfffe, 4_294_967_295)))
        };
        let desired = only(Some(Qdisc {
            stab: Some(stab()),
            ..htb(1, 0xfffe, vec![wide.clone()])
        }));
        apply(&kernel, &desired, None).await;
        let after = observe(&kernel, &[&desired]).await;
        let root = after.devices[&name("wan")].root.clone();
        assert_eq!(root, desired.devices[&name("wan")].root);
    });
}

#[test]
fn a_size_table_that_nobody_remembers_has_no_slots() {
    in_namespace(|kernel| async move {
        let desired = only(Some(tree()));
        apply(&kernel, &desired, None).await;
        let bare = only(None);
        let forgotten = observe(&kernel, &[&bare]).await;
        let root = forgotten.devices[&name("wan")].root.clone().unwrap();
        let seen = root.stab.unwrap();
        assert_eq!((seen.overhead, seen.data.len()), (-4, 0));
        assert!(!verify(&forgotten, &desired).is_empty());
    });
}

/// Returns every kind of leaf that a policy can request, each with two settings.
fn leaves() -> [[QdiscKind; 2]; 7] {
    let fq_codel = |target, threshold: Option<u64>| {
        QdiscKind::FqCodel(FqCodel {
            limit: 600,
            flows: 1_024,
            target: Span::from_millis(target),
            interval: Span::from_millis(100),
            quantum: 300,
            ecn: true,
            memory_limit: 4 << 20,
            ce_threshold: threshold.map(Span::from_millis),
        })
    };
    let sfq = |limit, quantum| {
        QdiscKind::Sfq(Sfq {
            limit,
            perturb: 10,
            quantum,
        })
    };
    let red = |adaptive: bool, wlog| {
        QdiscKind::Red(Red {
            limit: Size::bytes(90_000),
            min: Size::bytes(9_000),
            max: Size::bytes(27_001),
            probability_millionths: 20_000,
            wlog,
            plog: 20,
            scell_log: 11,
            ecn: !adaptive,
            adaptive,
            bandwidth: Rate::kbit(512),
            avpkt: 500,
        })
    };
    let cake = |flow_mode, bandwidth, ack_filter| {
        QdiscKind::Cake(Cake {
            bandwidth,
            rtt: Span::from_millis(85),
            flow_mode,
            nat: true,
            ack_filter,
            ingress: bandwidth.is_some(),
            split_gso: bandwidth.is_none(),
            memory_limit: 0,
            tins: weirgate_state::CakeTins::Diffserv4,
            wire: None,
        })
    };
    let rate = Some(Rate::kbit(1_999));
    [
        [pfifo(1, 7).kind, pfifo(1, 8).kind],
        [bfifo(1, 7_000).kind, bfifo(1, 8_000).kind],
        [fq_codel(5, None), fq_codel(17, Some(2))],
        [fq_codel(5, Some(1)), fq_codel(5, None)],
        [sfq(127, 0), sfq(40, 2_000)],
        [red(false, 9), red(true, 5)],
        [
            cake(CakeFlowMode::Triple, None, CakeAckFilter::Filter),
            cake(CakeFlowMode::DualDstHost, rate, CakeAckFilter::Aggressive),
        ],
    ]
}

#[test]
fn leaves_are_read_back_and_changed_in_place() {
    in_namespace(|kernel| async move {
        let capabilities = kernel.capabilities().await.unwrap();
        for [first, second] in leaves() {
            if !capabilities.has_qdisc(first.name()) {
                println!("{} is not in {}", first.name(), capabilities.release);
                continue;
            }
            let with = |kind: &QdiscKind| {
                let leaf = Qdisc {
                    kind: kind.clone(),
                    ..pfifo(0x10, 1)
                };
                only(Some(htb(1, 1, vec![class(1, 1, 0, Some(leaf))])))
            };
            let changeable = first.name() != "sfq";
            let (first, second) = (with(&first), with(&second));
            apply(&kernel, &first, Some(&second)).await;
            let steps = apply(&kernel, &second, Some(&first)).await;
            let in_place = matches!(
                steps.as_slice(),
                [Step {
                    action: Action::ChangeQdisc { .. },
                    ..
                }]
            );
            assert_eq!(in_place, changeable, "{steps:?}");
            apply(&kernel, &first, Some(&second)).await;
        }
    });
}

#[test]
fn counters_count_what_the_size_table_charges() {
    in_namespace(|kernel| async move {
        // The device's own reports and solicitations would be counted too.
        run("sysctl -qw net.ipv6.conf.wan.disable_ipv6=1");
        let mut slow = tree();
        if let QdiscKind::Htb(outer) = &mut slow.kind {
            outer.classes[0].rate = Rate::kbit(8);
            outer.classes[0].ceil = Rate::kbit(8);
        }
        apply(&kernel, &only(Some(slow)), None).await;
        let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
        for _ in 0..60 {
            socket.send_to(&[0; 1_000], "10.9.0.2:9").unwrap();
        }
        let device = kernel.device(&name("wan")).await.unwrap();
        let counters = kernel.stats(device).await.unwrap();
        let of = |handle: &str| {
            let all = counters.qdiscs.iter().chain(&counters.classes);
            let mut own = all.filter(|c| c.handle == handle.parse().unwrap());
            own.next().unwrap().clone()
        };
        // 2:20 is the default class; its leaf holds 30000 bytes.
        let charge = stab().charge(1_000 + 8 + 20 + 14);
        let held = 30_000 / charge;
        let leaf = of("20:");
        assert_eq!(leaf.kind, "bfifo");
        assert_eq!(leaf.parent, Some("2:20".parse().unwrap()));
        assert_eq!(leaf.backlog_bytes % charge, 0);
        assert_eq!(leaf.queued_packets, held);
        assert_eq!(u64::from(leaf.drops) + leaf.packets + u64::from(held), 60);
        assert_eq!(of("1:").parent, None);
        assert_eq!(of("2:20").queued_packets, held);
        assert_eq!(leaf.marks, None);
    });
}
