// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tunnels that end at the router, in the guest: what rules can match in the outer packet, and that
//! the inner packet's mark is still on it.

use crate::inside::{apply, counted, outside, policy, rt, run};
use std::net::UdpSocket;
use weirgate_compile::compile;
use weirgate_kernel::Kernel;
use weirgate_state::Capabilities;

const RULES: &str = r#"
[[rule]]
name = "inner"
class = "first"
direction = "up"
protocol = ["gre", "ipip", "udp"]
mark = "0x10/0xff"
[[rule]]
name = "outer"
class = "first"
direction = "up"
protocol = ["gre", "ipip"]
dscp = "EF"
[[rule]]
name = "port"
class = "rest"
direction = "up"
protocol = "udp"
remote-port = 4789
"#;

/// The tunnels: the device, the arguments that create it, and the number in its addresses.
const TUNNELS: [(&str, &str, u8); 3] = [
    (
        "gre9",
        "type gre local 10.0.0.1 remote 10.0.0.2 tos inherit",
        1,
    ),
    (
        "ipip9",
        "type ipip local 10.0.0.1 remote 10.0.0.2 tos inherit",
        2,
    ),
    (
        "vx9",
        "type vxlan id 9 local 10.0.0.1 remote 10.0.0.2 dstport 4789",
        3,
    ),
];

/// Sends one datagram into a tunnel.
fn send(number: u8, port: u16, dscp: u32) {
    let socket = UdpSocket::bind((format!("10.5.{number}.1"), 0)).unwrap();
    rustix::net::sockopt::set_ip_tos(&socket, (dscp << 2).to_ne_bytes()[0]).unwrap();
    let to = format!("10.5.{number}.2");
    socket.send_to(b"hello", (to, port)).unwrap();
}

#[test]
#[ignore = "runs in the guest"]
fn marks_survive() {
    outside();
    // IPv6 requests on a new device would pass the tunnel and be counted.
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    run("nft add table inet mine");
    run("nft add chain inet mine post { type filter hook postrouting priority -160 ; }");
    for (device, how, number) in TUNNELS {
        run(&format!("ip link add {device} {how}"));
        run(&format!("ip addr add 10.5.{number}.1/24 dev {device}"));
        run(&format!("ip link set {device} up"));
        run(&format!(
            "nft add rule inet mine post oifname {device} udp dport 22 meta mark set 0x10"
        ));
    }
    run("ip neigh add 10.5.3.2 lladdr 02:00:00:00:00:05 dev vx9");
    rt().block_on(async {
        let kernel = Kernel::open().unwrap();
        let (policy, problems) = weirgate_policy::parse(&policy("", RULES));
        let policy = policy.unwrap_or_else(|| panic!("{problems:#?}"));
        let wanted = compile(&policy, &Capabilities::all()).0.unwrap();
        apply(&kernel, &wanted, &wanted).await;
        let mut sums = (0, 0, 0);
        for (device, _, number) in TUNNELS {
            let udp = device.starts_with('v');
            // Matched by the inner port, from which a foreign rule has set a mark.
            send(number, 22, 0);
            sums.0 += 1;
            // Matched by the outer code point, which IP tunnels copy from the inner one.
            send(number, 9, 46);
            sums.1 += u64::from(!udp);
            // Matched only by the outer header.
            send(number, 9, 0);
            sums.2 += if udp { 2 } else { 0 };
            for (name, count) in [
                ("up_inner", sums.0),
                ("up_outer", sums.1),
                ("up_port", sums.2),
            ] {
                let found = counted(&kernel, false, name).await;
                assert_eq!(found, count, "{device} {name}");
            }
        }
    });
}
