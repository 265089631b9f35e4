// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic conditioners in both directions are installed, changed in place, counted and removed.

use crate::harness::{in_namespace, name, observe, only, run};
use std::net::UdpSocket;
use weirgate_kernel::Fault;
use weirgate_plan::{plan, verify};
use weirgate_state::{ColourAction, ColourMeter, Conditioner, Conditioning, HookPrograms, State};
use weirgate_units::{Dscp, Rate, Size};

pub fn bucket(name: &str, codes: u64, rate: u64) -> Conditioner {
    Conditioner {
        name: name.to_owned(),
        classes: Vec::new(),
        source: vec![("10.9.0.0".parse().unwrap(), 24)],
        destination: Vec::new(),
        protocols: vec![17],
        source_ports: Vec::new(),
        destination_ports: vec![(9, 9), (5_060, 5_061)],
        smallest: 1_000,
        codes,
        meter: Some(ColourMeter::Bucket {
            rate: Rate::kbit(rate),
            burst: Size::bytes(2_000),
        }),
        aware: false,
        brings: [0, 0],
        actions: [
            ColourAction::Mark(Dscp::new(10).unwrap()),
            ColourAction::Pass,
            ColourAction::Drop,
        ],
    }
}

pub fn state(entering: Vec<Conditioner>, leaving: Vec<Conditioner>) -> State {
    let own = |conditioners: Vec<Conditioner>| {
        (!conditioners.is_empty()).then(|| Box::new(Conditioning { conditioners }))
    };
    let place = HookPrograms {
        entering: own(entering),
        leaving: own(leaving),
        ..HookPrograms::default()
    };
    State {
        hooks: [(name("wan"), place)].into(),
        ..only(None)
    }
}

/// Packets of 1,000 bytes of IP.
fn send(packets: usize) {
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    for _ in 0..packets {
        // The kernel reports a drop by the conditioner as ENOBUFS.
        let _ = socket.send_to(&[0; 972], "10.9.0.2:9");
    }
}

#[test]
fn they_come_are_told_count_and_go() {
    in_namespace(|kernel| async move {
        let voice = bucket("voice", 1 << 46, 64);
        let desired = state(
            vec![voice.clone()],
            vec![voice.clone(), bucket("rest", 1, 8)],
        );
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        assert_eq!(forward.steps.len(), 1, "{forward:?}");
        let applied = kernel.apply(&forward).await.unwrap();
        assert_eq!(verify(&applied.after, &desired), []);
        let shown = run("tc filter show dev wan egress");
        assert!(shown.contains("weirgate-condition-out-"), "{shown}");
        // Two packets fit in the bucket, which refills at a packet a second.
        send(5);
        let counted = kernel.conditioned(&name("wan")).await.unwrap();
        let names: Vec<&str> = counted.leaving.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["voice", "rest"]);
        let rest = &counted.leaving[1];
        assert!((2..=4).contains(&rest.packets[0]), "{rest:?}");
        assert_eq!(rest.packets[0] + rest.packets[2], 5);
        assert_eq!(rest.bytes.iter().sum::<u64>(), 5_000);
        assert_eq!(rest.unmarked, 0);
        // An unchanged state plans nothing.
        let now = observe(&kernel, &[&desired]).await;
        assert_eq!(plan(&now, &desired).unwrap().steps, []);
        // The rate of the first changes, and the other keeps its counters.
        let other = state(
            vec![voice.clone()],
            vec![bucket("voice", 1 << 46, 128), bucket("rest", 1, 8)],
        );
        let number = |shown: &str| {
            let at = shown.split(" id ").nth(1).unwrap_or_default();
            at.split_whitespace().next().unwrap_or_default().to_owned()
        };
        let applied = kernel.apply(&plan(&now, &other).unwrap()).await.unwrap();
        assert_eq!(verify(&applied.after, &other), []);
        let after = run("tc filter show dev wan egress");
        assert_eq!(number(&shown), number(&after), "the same program");
        let kept = kernel.conditioned(&name("wan")).await.unwrap();
        assert_eq!(kept.leaving[1], counted.leaving[1]);
        // One direction is removed, the other stays.
        let one = state(Vec::new(), vec![bucket("rest", 1, 8)]);
        let now = observe(&kernel, &[&other]).await;
        let applied = kernel.apply(&plan(&now, &one).unwrap()).await.unwrap();
        assert_eq!(verify(&applied.after, &one), []);
        assert!(!run("tc filter show dev wan ingress").contains("weirgate"));
        // Then all of it.
        let now = observe(&kernel, &[&one]).await;
        kernel.apply(&plan(&now, &before).unwrap()).await.unwrap();
        assert!(!run("tc qdisc show dev wan").contains("clsact"));
        let counted = kernel.conditioned(&name("wan")).await.unwrap();
        assert!(counted.leaving.is_empty() && counted.entering.is_empty());
    });
}

#[test]
fn every_refusal_leaves_what_was_there() {
    in_namespace(|kernel| async move {
        let voice = bucket("voice", 1 << 46, 64);
        let desired = state(vec![voice.clone()], vec![voice]);
        let before = observe(&kernel, &[&desired]).await;
        let forward = plan(&before, &desired).unwrap();
        for number in 0..3 {
            kernel.inject(Some(Fault::Refused(number)));
            kernel.apply(&forward).await.unwrap_err();
            kernel.inject(None);
            assert_eq!(observe(&kernel, &[&desired]).await, before, "{number}");
            assert!(!run("tc qdisc show dev wan").contains("clsact"));
        }
        // Conditioners that exceed the program's room are refused before anything is applied.
        let crowd: Vec<Conditioner> = (0..33)
            .map(|number| bucket(&format!("n{number}"), 1, 8))
            .collect();
        let wrong = state(Vec::new(), crowd);
        let error = kernel.apply(&plan(&before, &wrong).unwrap()).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("33 conditioners"), "{error}");
        assert_eq!(observe(&kernel, &[&desired]).await, before);
    });
}

/// Egress is conditioned as before beside a foreign `ingress` qdisc.
#[test]
fn beside_an_ingress_qdisc_they_count_what_leaves() {
    in_namespace(|kernel| async move {
        run("tc qdisc add dev wan ingress");
        let voice = bucket("voice", 1, 8);
        let desired = state(vec![voice.clone()], vec![voice]);
        let before = observe(&kernel, &[&desired]).await;
        let applied = kernel.apply(&plan(&before, &desired).unwrap()).await;
        assert_eq!(verify(&applied.unwrap().after, &desired), []);
        send(5);
        let counted = kernel.conditioned(&name("wan")).await.unwrap();
        assert_eq!(counted.leaving[0].bytes.iter().sum::<u64>(), 5_000);
        assert!(counted.leaving[0].packets[2] > 0, "it drops: {counted:?}");
        assert_eq!(counted.entering[0].packets, [0; 3], "and not as arriving");
        let now = observe(&kernel, &[&desired]).await;
        kernel.apply(&plan(&now, &before).unwrap()).await.unwrap();
        send(5);
        let counted = kernel.conditioned(&name("wan")).await.unwrap();
        assert!(counted.leaving.is_empty() && counted.entering.is_empty());
    });
}
