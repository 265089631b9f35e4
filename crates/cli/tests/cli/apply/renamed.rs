// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices that are renamed while `keep` runs, beside changes of other programs.

use crate::apply::safe::{Keeper, shaped, within};
use crate::namespace::Namespace;
use std::thread::sleep;
use std::time::Duration;

/// Applies a policy and starts `keep`.
fn kept(namespace: &Namespace) -> Keeper {
    namespace.weirgate("apply safe/01.toml").says(0, &[]);
    let keeper = Keeper::new(namespace);
    sleep(Duration::from_millis(500));
    keeper
}

fn rename(namespace: &Namespace) {
    namespace.run("ip link set wan down");
    namespace.run("ip link set wan name uplink");
    namespace.run("ip link set uplink up");
}

/// The service sees the new name, the other program's qdisc and the new device at once.
#[test]
fn a_foreign_root_at_a_renamed_device_does_not_prevent_repairs() {
    let namespace = Namespace::new();
    let keeper = kept(&namespace);
    keeper.signal("-STOP");
    rename(&namespace);
    namespace
        .run("tc qdisc replace dev uplink root handle 6: tbf rate 1mbit burst 2000 limit 3000");
    namespace.run("ip link add wan type veth peer name farther");
    namespace.run("ip link set wan up");
    keeper.signal("-CONT");
    // The tree of a new device is put there before the repair, which switches offloads off.
    let repaired = || {
        let features = namespace.run("ethtool -k wan");
        shaped(&namespace) && features.contains("tx-tcp-segmentation: off")
    };
    within(Duration::from_secs(5), "return", repaired);
    let left = namespace.run("tc qdisc show dev uplink");
    assert!(left.contains("tbf 6: root"), "{left}");
}

/// The kernel finds a device also by an alternative name.
#[test]
fn an_alternative_name_is_not_the_name_of_a_policy() {
    let namespace = Namespace::new();
    let _keeper = kept(&namespace);
    let is_shaped = || {
        let qdiscs = namespace.run("tc qdisc show dev uplink");
        qdiscs.contains("htb")
    };
    rename(&namespace);
    within(Duration::from_secs(5), "freeing", || {
        !is_shaped() && !namespace.run("nft list ruleset").contains("wan")
    });
    sleep(Duration::from_millis(300));
    namespace.run("ip link property add dev uplink altname wan");
    sleep(Duration::from_secs(1));
    assert!(!is_shaped());
}
