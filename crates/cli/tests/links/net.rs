// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A site with two links, made of namespaces:
//!
//! ```text
//! host - lan[router]wan0 - isp0 - server
//!                   wan1 - isp1 -
//! ```
//!
//! The router translates addresses. The server, 203.0.113.1, recognizes the link of a packet by its
//! source address.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};

pub const SERVER: &str = "203.0.113.1";
/// The router's addresses on its links.
pub const OWN: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(198, 51, 100, 2)];

fn output(line: &str) -> Output {
    let mut words = line.split(' ');
    Command::new(words.next().unwrap())
        .args(words)
        .output()
        .unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Runs a command line that must succeed; returns its output.
#[track_caller]
pub fn run(line: &str) -> String {
    let output = output(line);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {message}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Does the same in the router's namespace.
#[track_caller]
pub fn router(line: &str) -> String {
    run(&format!("ip netns exec router {line}"))
}

/// Starts a thread in a namespace.
pub fn thread_in<T: Send + 'static>(
    name: &str,
    what: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let file = File::open(format!("/run/netns/{name}")).unwrap();
    thread::spawn(move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        what()
    })
}

/// Writes a sysctl of a namespace.
pub fn set(name: &str, setting: &'static str, value: &'static str) {
    let path = format!("/proc/sys/net/{setting}");
    thread_in(name, move || fs::write(path, value).unwrap())
        .join()
        .unwrap();
}

/// Connects two namespaces by a veth pair. Each end has a namespace, a device and an address.
fn wire(one: [&str; 3], other: [&str; 3]) {
    let [ns, device, _] = one;
    let [far, peer, _] = other;
    run(&format!(
        "ip link add {device} netns {ns} type veth peer name {peer} netns {far}"
    ));
    for [ns, device, address] in [one, other] {
        run(&format!("ip -n {ns} address add {address} dev {device}"));
        run(&format!("ip -n {ns} link set {device} up"));
    }
}

/// Returns an address of a link's network: 1 is the provider's router, 2 is the router.
pub fn own_address(number: usize, host: u8) -> Ipv4Addr {
    let [a, b, c, _] = match OWN.get(number) {
        Some(own) => own.octets(),
        None => [198, 18, number as u8, 0],
    };
    Ipv4Addr::new(a, b, c, host)
}

/// Adds another link, with a provider of its own, after [`build`].
pub fn add_link(number: usize) {
    let (isp, wan) = (format!("isp{number}"), format!("wan{number}"));
    let _ = output(&format!("ip netns del {isp}"));
    run(&format!("ip netns add {isp}"));
    let [far, own] = [1, 2].map(|host| own_address(number, host));
    wire(
        ["router", &wan, &format!("{own}/24")],
        [&isp, "eth", &format!("{far}/24")],
    );
    let net = format!("net{number}");
    wire(
        [&isp, "net", &format!("172.16.{number}.1/30")],
        ["server", &net, &format!("172.16.{number}.2/30")],
    );
    run(&format!(
        "ip -n {isp} route add 203.0.113.1 via 172.16.{number}.2"
    ));
    let network = own_address(number, 0);
    run(&format!(
        "ip -n server route add {network}/24 via 172.16.{number}.1"
    ));
    set(&isp, "ipv4/ip_forward", "1");
    router(&format!(
        "nft add rule ip mine post oifname {wan} masquerade"
    ));
}

/// Creates all namespaces again, without a default route on the router.
pub fn build() {
    fs::create_dir_all("/run/netns").unwrap();
    for name in ["host", "router", "isp0", "isp1", "server"] {
        let _ = output(&format!("ip netns del {name}"));
        run(&format!("ip netns add {name}"));
        run(&format!("ip -n {name} link set lo up"));
    }
    wire(
        ["host", "eth", "10.0.0.2/24"],
        ["router", "lan", "10.0.0.1/24"],
    );
    wire(
        ["router", "wan0", "192.0.2.2/24"],
        ["isp0", "eth", "192.0.2.1/24"],
    );
    wire(
        ["router", "wan1", "198.51.100.2/24"],
        ["isp1", "eth", "198.51.100.1/24"],
    );
    wire(
        ["isp0", "net", "172.16.0.1/30"],
        ["server", "net0", "172.16.0.2/30"],
    );
    wire(
        ["isp1", "net", "172.16.1.1/30"],
        ["server", "net1", "172.16.1.2/30"],
    );
    run("ip -n server address add 203.0.113.1/32 dev lo");
    for (name, network, by) in [
        ("host", "default", "10.0.0.1"),
        ("isp0", "203.0.113.1", "172.16.0.2"),
        ("isp1", "203.0.113.1", "172.16.1.2"),
        ("server", "192.0.2.0/24", "172.16.0.1"),
        ("server", "198.51.100.0/24", "172.16.1.1"),
    ] {
        run(&format!("ip -n {name} route add {network} via {by}"));
    }
    for name in ["router", "isp0", "isp1"] {
        set(name, "ipv4/ip_forward", "1");
    }
    for line in [
        "nft add table ip mine",
        "nft add chain ip mine post { type nat hook postrouting priority 100 ; }",
        "nft add rule ip mine post oifname wan0 masquerade",
        "nft add rule ip mine post oifname wan1 masquerade",
    ] {
        router(line);
    }
}
