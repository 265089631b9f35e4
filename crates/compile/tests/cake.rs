// SPDX-License-Identifier: Apache-2.0 OR MIT
//! cake as the queue of a class: fairness, memory limit, and link layer downstream.

use weirgate_compile::{compile, scheduler};
use weirgate_policy::{Direction, Policy, parse};
use weirgate_state::{Cake, CakeFlowMode, Capabilities, DeviceName, Qdisc, QdiscKind};
use weirgate_units::Rate;

const POLICY: &str = "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"768kbit\"\n\
    down = \"8mbit\"\nlayer = \"adsl:pppoa-vc\"\ninbound = \"lan\"\nfair = \"hosts\"\n\
    [[class]]\nname = \"most\"\nshare = \"80%\"\nceiling = \"95%\"\ndefault = true\n\
    [[class]]\nname = \"flood\"\nshare = \"15%\"\nfair = \"hosts-only\"\n\
    [[class]]\nname = \"small\"\nshare = \"5%\"\nceiling = \"5%\"\n\
    queue = { kind = \"cake\", memory = \"64KiB\" }\n\
    [[rule]]\nclass = \"flood\"\ndscp = \"CS1\"\n[[rule]]\nclass = \"small\"\ndscp = \"EF\"\n";

fn policy() -> Policy {
    let (policy, problems) = parse(POLICY);
    policy.unwrap_or_else(|| panic!("{problems:#?}"))
}

/// Returns the cake of a class, found in a device's whole tree.
fn cake(direction: Direction, class: &str) -> (Cake, Rate) {
    let policy = policy();
    let (state, problems) = compile(&policy, &Capabilities::all());
    let state = state.unwrap_or_else(|| panic!("{problems:#?}"));
    let scheduler = scheduler(&policy, direction).expect("shaped");
    let member = scheduler.named(class).expect("a class");
    let device = match direction {
        Direction::Up => "wan",
        Direction::Down => "lan",
    };
    let device = DeviceName::new(device).expect("a name");
    let root = state.devices[&device].root.as_ref().expect("shaped");
    let found = leaf(root, member.id.minor).expect("a leaf");
    (found, member.class.ceiling)
}

fn leaf(qdisc: &Qdisc, minor: u16) -> Option<Cake> {
    match &qdisc.kind {
        QdiscKind::Htb(htb) => htb
            .classes
            .iter()
            .find_map(|class| leaf(class.leaf.as_deref()?, minor)),
        QdiscKind::Cake(cake) if qdisc.handle.major == minor => Some(cake.clone()),
        _ => None,
    }
}

#[test]
fn what_is_dropped_downstream_counts_against_the_ceiling() {
    for class in ["most", "flood", "small"] {
        let (up, _) = cake(Direction::Up, class);
        assert!(up.bandwidth.is_none() && !up.ingress, "{class}: {up:?}");
        let (down, ceiling) = cake(Direction::Down, class);
        assert_eq!((down.bandwidth, down.ingress), (Some(ceiling), true));
        // The root's size table determines sizes.
        assert!(down.wire.is_none(), "{class}: {down:?}");
    }
}

#[test]
fn hosts_alone_have_one_queue_each() {
    let mode = |direction, class| cake(direction, class).0.flow_mode;
    assert_eq!(mode(Direction::Up, "most"), CakeFlowMode::DualSrcHost);
    assert_eq!(mode(Direction::Down, "most"), CakeFlowMode::DualDstHost);
    assert_eq!(mode(Direction::Up, "flood"), CakeFlowMode::SrcHost);
    assert_eq!(mode(Direction::Down, "flood"), CakeFlowMode::DstHost);
}

/// By hand: the gates are 766.464 kbit/s (0.2 % below the line) and 7.76 Mbit/s. A full packet has
/// 1696 bytes on the wire and 2304 in memory. In 3 s, 766.464 kbit/s send 169 packets, and 95 % of
/// that 160. Likewise 7.76 Mbit/s send 1715, and 95 % of that 1630. A stated value is kept.
#[test]
fn a_cake_holds_what_its_class_sends_in_three_seconds() {
    let held = |direction, class| cake(direction, class).0.memory_limit;
    assert_eq!(held(Direction::Up, "most"), 160 * 2_304);
    assert_eq!(held(Direction::Up, "flood"), 169 * 2_304);
    assert_eq!(held(Direction::Down, "most"), 1_630 * 2_304);
    assert_eq!(held(Direction::Down, "flood"), 1_715 * 2_304);
    assert_eq!(held(Direction::Up, "small"), 64 << 10);
}
