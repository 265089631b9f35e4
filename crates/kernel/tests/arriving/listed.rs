// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Foreign trees that the state does not model, with qdiscs whose listings lack something that a
//! request must have.

use crate::inside::{desired, outside, rt, run};
use weirgate_kernel::{Kernel, Scope};
use weirgate_plan::{Options, plan_with, with_former};
use weirgate_state::State;

/// Each tree is replaced, created again, and must then be listed as before.
#[test]
#[ignore = "runs in the guest"]
fn made_again() {
    outside();
    // HTB lists the packets that passed its classes by; IPv6 announcements would add to them.
    std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").unwrap();
    let trees: [&[&str]; 7] = [
        &["qdisc add dev wan0 root handle 7: ets bands 3 strict 1 quanta 1500 3000"],
        &["qdisc add dev wan0 root handle 7: fq_pie limit 500"],
        // It has more flows than its limit, which no request can express.
        &["qdisc add dev wan0 root handle 7: sfq divisor 512"],
        // No policy would create this: no default class, and a ceiling below the rate.
        &[
            "qdisc add dev wan0 root handle 7: htb",
            "class add dev wan0 parent 7: classid 7:1 htb rate 20kbit ceil 10kbit",
        ],
        // The options of this filter have nested attributes.
        &[
            "qdisc add dev wan0 root handle 7: drr",
            "class add dev wan0 parent 7: classid 7:1 drr",
            "filter add dev wan0 parent 7: protocol mpls_uc flower mpls lse depth 1 ttl 3 \
             classid 7:1",
        ],
        // A chain without a filter, at a qdisc that the state models.
        &[
            "qdisc add dev wan0 root handle 7: htb default 1",
            "chain add dev wan0 parent 7: chain 4",
        ],
        // A chain with a template for its filters, and a chain that its filter creates.
        &[
            "qdisc add dev wan0 root handle 7: drr",
            "class add dev wan0 parent 7: classid 7:1 drr",
            "chain add dev wan0 parent 7: chain 5 protocol ip flower dst_ip 0.0.0.0/16",
            "filter add dev wan0 parent 7: chain 5 protocol ip flower dst_ip 10.9.0.0/16 \
             classid 7:1",
            "filter add dev wan0 parent 7: chain 0 protocol all matchall classid 7:1",
        ],
    ];
    for commands in trees {
        for command in commands {
            run(&format!("tc {command}"));
        }
        let kinds = ["qdisc", "class", "filter", "chain"];
        let shown = || kinds.map(|what| run(&format!("tc {what} show dev wan0")));
        let before_shown = shown();
        rt().block_on(async {
            let kernel = Kernel::open().unwrap();
            let wanted = desired();
            let scope = Scope::of([&wanted]);
            let former = kernel.observe(&scope).await.unwrap();
            let options = Options {
                previous: None,
                replace_foreign: true,
            };
            let there = plan_with(&former, &wanted, &options).unwrap();
            kernel.apply(&there).await.unwrap();
            assert_ne!(shown(), before_shown);
            let now = kernel.observe(&scope).await.unwrap();
            let back = plan_with(&now, &with_former(&State::default(), &former), &options);
            let back = back.unwrap();
            kernel.apply(&back).await.unwrap();
        });
        assert_eq!(shown(), before_shown, "{commands:?}");
        run("tc qdisc del dev wan0 root");
    }
}
