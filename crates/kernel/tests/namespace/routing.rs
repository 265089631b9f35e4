// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests routing over several links: applied, read back, changed, rolled back, removed.

use crate::harness::{in_namespace, name, run};
use std::collections::BTreeMap;
use std::net::IpAddr;
use weirgate_kernel::Fault;
use weirgate_state::{
    Choice, FIRST_PRIORITY, FIRST_TABLE, IpVersion, LinkRoute, Marking, Routing, RoutingRule,
    Selector, Transport,
};

fn wanted(gateway: &str) -> Routing {
    let rule = |offset, version, table| RoutingRule {
        priority: FIRST_PRIORITY + offset,
        version,
        mark: None,
        bound_to: None,
        table,
        no_default: false,
    };
    let [v4, v6] = IpVersion::BOTH;
    let route = |version, gateway: Option<IpAddr>| LinkRoute {
        table: FIRST_TABLE,
        version,
        device: name("wan"),
        gateway,
    };
    Routing {
        rules: [
            RoutingRule {
                no_default: true,
                ..rule(0, v4, 254)
            },
            RoutingRule {
                bound_to: Some(name("wan")),
                ..rule(10, v6, FIRST_TABLE)
            },
            RoutingRule {
                mark: Some((0x100, 0xf00)),
                ..rule(20, v4, FIRST_TABLE)
            },
            rule(30, v4, FIRST_TABLE),
        ]
        .into(),
        routes: [route(v4, Some(gateway.parse().unwrap())), route(v6, None)].into(),
        marks: Some(Marking {
            mask: 0xf00,
            devices: BTreeMap::from([(name("wan"), 0x100), (name("far"), 0x200)]),
            choices: Vec::new(),
        }),
    }
}

/// Returns rules and routes of other programs in the same places.
fn foreign() -> Vec<String> {
    let lines = ["ip rule show pref 7750", "ip route show table 7702"];
    lines.map(run).into()
}

#[test]
fn routing_is_made_changed_and_removed() {
    in_namespace(async |kernel| {
        run("ip rule add pref 7750 from 10.77.0.0/16 lookup 77");
        run("ip route add default via 10.9.0.2 dev wan table 7702");
        let others = foreign();
        assert!(others.iter().all(|line| !line.is_empty()), "{others:?}");
        let nothing = kernel.routing().await.unwrap();
        assert_eq!(nothing, Routing::default());
        let first = wanted("10.9.0.2");
        assert_eq!(kernel.set_routing(&first).await.unwrap(), 7);
        assert_eq!(kernel.routing().await.unwrap(), first);
        assert_eq!(kernel.set_routing(&first).await.unwrap(), 0);
        // Another next hop, also one outside the device's networks.
        let second = wanted("192.0.2.1");
        assert_eq!(kernel.set_routing(&second).await.unwrap(), 1);
        assert_eq!(run("ip route show table 7701").lines().count(), 1);
        // Removed objects are detected, and restored.
        run("nft flush table inet weirgate-links");
        run("ip rule del pref 7730");
        assert_ne!(kernel.routing().await.unwrap(), second);
        assert_eq!(kernel.set_routing(&second).await.unwrap(), 2);
        run("nft add rule inet weirgate-links output accept");
        assert_eq!(kernel.set_routing(&second).await.unwrap(), 1);
        assert_eq!(foreign(), others);
        assert_eq!(kernel.set_routing(&Routing::default()).await.unwrap(), 7);
        assert_eq!(kernel.routing().await.unwrap(), Routing::default());
        assert_eq!(foreign(), others);
    });
}

#[test]
fn whatever_is_refused_the_former_routing_is_back() {
    in_namespace(async |kernel| {
        let before = wanted("10.9.0.2");
        kernel.set_routing(&before).await.unwrap();
        let mut after = wanted("192.0.2.1");
        after.rules.pop_first();
        after.marks = Some(Marking {
            mask: 0xf000,
            devices: BTreeMap::from([(name("wan"), 0x1000)]),
            choices: vec![
                Choice {
                    of: Selector {
                        from: Some(("10.0.0.0".parse().unwrap(), 8)),
                        transport: Some(Transport {
                            protocol: 17,
                            to_port: Some((5_060, 5_061)),
                        }),
                        ..Selector::default()
                    },
                    links: vec![(0x1000, 1)],
                },
                // All connections of an IP version.
                Choice {
                    of: Selector {
                        from: Some(("::".parse().unwrap(), 0)),
                        ..Selector::default()
                    },
                    links: vec![(0x1000, 1)],
                },
            ],
        });
        let mut failed = 0;
        loop {
            kernel.inject(Some(Fault::Refused(failed)));
            if kernel.set_routing(&after).await.is_ok() {
                break;
            }
            kernel.inject(None);
            assert_eq!(kernel.routing().await.unwrap(), before, "{failed}");
            failed += 1;
        }
        println!("{failed} requests refused, one after another");
        // A route, a table of three chains and eight rules with its removal, a rule.
        assert!(failed >= 10, "{failed}");
        assert_eq!(kernel.routing().await.unwrap(), after);
        kernel.inject(None);
        kernel.set_routing(&Routing::default()).await.unwrap();
    });
}
