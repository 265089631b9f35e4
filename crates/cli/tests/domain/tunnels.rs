// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tunnels through a domain (RFC 2983): the code points that a router in the middle and the ends of
//! the tunnel see. Policies can classify by both, with both IP versions inside and outside.

use crate::topology::run;
use std::fs;
use std::net::UdpSocket;
use std::process::Command;

/// Packets sent through each tunnel.
const PACKETS: u32 = 5;

/// The variable with the address and port to send to.
const TO: &str = "WEIRGATE_TO";

/// A tunnel to test.
struct Tunnel {
    /// The arguments that create it at one end, except the addresses.
    kind: &'static str,
    /// Whether its outer packets are IPv6.
    outer_v6: bool,
    /// Whether its inner packets are IPv6.
    inner_v6: bool,
    /// Its settings for the DS field.
    field: &'static str,
    /// The counter in which a router in the middle counts its packets.
    counted: &'static str,
}

/// The models of RFC 2983: the uniform model on entry, where the outer field is copied from the
/// inner one, and the pipe model, where the tunnel has its own.
const TUNNELS: [Tunnel; 10] = [
    tunnel("gre", false, false, "tos inherit", "urgent"),
    // 0x28 is AF11.
    tunnel("gre", false, false, "tos 0x28", "assured"),
    tunnel("gre", false, true, "tos inherit", "urgent"),
    tunnel("gre", false, true, "tos 0x28", "assured"),
    tunnel("ipip", false, false, "tos inherit", "urgent"),
    tunnel("sit", false, true, "tos inherit", "urgent"),
    tunnel("ip6tnl mode any", true, false, "tclass inherit", "urgent"),
    tunnel("ip6tnl mode any", true, true, "tclass inherit", "urgent"),
    tunnel("ip6tnl mode any", true, true, "tclass 0x28", "assured"),
    tunnel("ip6gre", true, true, "tclass inherit", "urgent"),
];

const fn tunnel(
    kind: &'static str,
    outer_v6: bool,
    inner_v6: bool,
    field: &'static str,
    counted: &'static str,
) -> Tunnel {
    Tunnel {
        kind,
        outer_v6,
        inner_v6,
        field,
        counted,
    }
}

/// Returns a policy that counts packets that leave by a device, by their code points.
fn policy(device: &str) -> String {
    format!(
        "version = 1\n[link]\ndevice = \"{device}\"\nup = \"50mbit\"\nlayer = \"raw\"\n\
         [[class]]\nname = \"first\"\nshare = \"40%\"\npriority = 0\n\
         [[class]]\nname = \"rest\"\nshare = \"60%\"\ndefault = true\n\
         [[rule]]\nname = \"urgent\"\nclass = \"first\"\ndscp = \"EF\"\n\
         [[rule]]\nname = \"assured\"\nclass = \"first\"\ndscp = \"AF11\"\n"
    )
}

/// Settings for routers, with addresses that are usable at once. A router that still checks its
/// link-local address for duplicates (RFC 4862 section 5.4, more than a second) solicits no
/// neighbour for forwarded packets (`ndisc_send_ns`, net/ipv6/ndisc.c).
const SETTINGS: [&str; 4] = [
    "ipv4.ip_forward=1",
    "ipv6.conf.all.forwarding=1",
    "ipv6.conf.all.accept_dad=0",
    "ipv6.conf.default.accept_dad=0",
];

/// Returns the packets that a router's counter has counted.
fn counted(router: &str, counter: &str) -> u32 {
    let text = run(&format!(
        "ip netns exec {router} nft list table inet weirgate"
    ));
    let of = text.split_once(&format!("counter up_{counter} {{"));
    let of = of.unwrap_or_else(|| panic!("no {counter} in {text}")).1;
    let number = of.split_once("packets ").unwrap().1;
    number.split(' ').next().unwrap().parse().unwrap()
}

fn link(one: &str, other: &str, number: u32) {
    run(&format!(
        "ip link add {other} netns {one} type veth peer name {one} netns {other}"
    ));
    for (at, device, end) in [(one, other, 1), (other, one, 2)] {
        run(&format!(
            "ip -n {at} address add 10.9.{number}.{end}/24 dev {device}"
        ));
        run(&format!(
            "ip -n {at} address add fd09:{number}::{end}/64 dev {device} nodad"
        ));
        run(&format!("ip -n {at} link set {device} up"));
    }
}

/// Builds the row alfa - west - middle - east - beta.
fn build() {
    let names = ["alfa", "west", "middle", "east", "beta"];
    for name in names {
        run(&format!("ip netns add {name}"));
        run(&format!("ip -n {name} link set lo up"));
        for setting in SETTINGS {
            run(&format!("ip netns exec {name} sysctl -q -w net.{setting}"));
        }
    }
    for (number, pair) in names.windows(2).enumerate() {
        link(pair[0], pair[1], number as u32 + 1);
    }
    for (at, by) in [("alfa", 1), ("beta", 4)] {
        let end = if at == "alfa" { 2 } else { 1 };
        run(&format!("ip -n {at} route add default via 10.9.{by}.{end}"));
        run(&format!(
            "ip -n {at} -6 route add default via fd09:{by}::{end}"
        ));
    }
    run("ip -n west route add 10.9.3.0/24 via 10.9.2.2");
    run("ip -n west -6 route add fd09:3::/64 via fd09:2::2");
    run("ip -n east route add 10.9.2.0/24 via 10.9.3.1");
    run("ip -n east -6 route add fd09:2::/64 via fd09:3::1");
    // All packets from alfa are EF, of both versions.
    let rules = "table inet marking {\n chain leaving {\n  type filter hook output priority 0;\n\
                 ip dscp set ef\n  ip6 dscp set ef\n }\n}\n";
    fs::write("/run/mark.nft", rules).unwrap();
    run("ip netns exec alfa nft -f /run/mark.nft");
    let rules = "table inet seen {\n counter urgent { }\n chain arriving {\n\
                 type filter hook input priority 0;\n\
                 udp dport 9 ip dscp ef counter name urgent\n\
                 udp dport 9 ip6 dscp ef counter name urgent\n }\n}\n";
    fs::write("/run/seen.nft", rules).unwrap();
    run("ip netns exec beta nft -f /run/seen.nft");
}

fn dig(one: &Tunnel) {
    let ends = if one.outer_v6 {
        ["fd09:2::1", "fd09:3::2"]
    } else {
        ["10.9.2.1", "10.9.3.2"]
    };
    for (at, local, remote, beyond) in
        [("west", ends[0], ends[1], 4), ("east", ends[1], ends[0], 1)]
    {
        let (kind, mode) = one.kind.split_once(' ').unwrap_or((one.kind, ""));
        let line = format!(
            "ip -n {at} link add deep type {kind} {mode} local {local} remote {remote} {}",
            one.field
        );
        run(&line.replace("  ", " "));
        run(&format!("ip -n {at} link set deep up"));
        if one.inner_v6 {
            run(&format!(
                "ip -n {at} -6 route add fd09:{beyond}::/64 dev deep"
            ));
        } else {
            run(&format!("ip -n {at} route add 10.9.{beyond}.0/24 dev deep"));
        }
    }
}

/// Sends datagrams; the test itself runs this in alfa's namespace.
#[test]
#[ignore = "a part of the next"]
fn sender() {
    let to = std::env::var(TO).unwrap();
    let socket = UdpSocket::bind(if to.starts_with('[') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    });
    let socket = socket.unwrap();
    for _ in 0..PACKETS {
        // An ICMP error for a closed port would fail the next send.
        let _ = socket.send_to(&[0; 100], &to);
    }
}

fn send(one: &Tunnel) {
    let to = if one.inner_v6 {
        "[fd09:4::2]:9"
    } else {
        "10.9.4.2:9"
    };
    let status = Command::new("ip")
        .args(["netns", "exec", "alfa"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "tunnels::sender", "--ignored", "-q"])
        .env(TO, to)
        .status()
        .unwrap();
    assert!(status.success());
    // Counters must include the packets in flight.
    std::thread::sleep(std::time::Duration::from_millis(200));
}

fn seen() -> u32 {
    let text = run("ip netns exec beta nft list table inet seen");
    let number = text.split_once("packets ").unwrap().1;
    number.split(' ').next().unwrap().parse().unwrap()
}

#[test]
#[ignore = "runs in the guest"]
fn inner_and_outer() {
    build();
    fs::write("/run/middle.toml", policy("east")).unwrap();
    run("ip netns exec middle weirgate apply /run/middle.toml");
    fs::write("/run/deep.toml", policy("deep")).unwrap();
    for one in &TUNNELS {
        dig(one);
        // At the tunnel's device, the inner packet is visible.
        run("ip netns exec west weirgate apply /run/deep.toml");
        let before = (counted("middle", one.counted), seen());
        send(one);
        let name = format!("{} {}, inner v6 {}", one.kind, one.field, one.inner_v6);
        let outer = counted("middle", one.counted) - before.0;
        let inner = counted("west", "urgent");
        println!("{name}: inner {inner}, outer {outer}");
        // Neighbour discovery through the tunnel may add to the count.
        assert!(inner >= PACKETS, "{name}: {inner} at the tunnel's device");
        assert!(outer >= PACKETS, "{name}: {outer} in the middle");
        assert!(outer < 3 * PACKETS, "{name}: {outer} in the middle");
        // The other end must restore the inner packet's code point.
        assert_eq!(seen() - before.1, PACKETS, "{name}");
        run("ip netns exec west weirgate remove");
        run("ip -n west link del deep");
        run("ip -n east link del deep");
    }
}
