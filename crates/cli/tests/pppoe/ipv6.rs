// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6 over the session: the provider advertises itself by `radvd` and delegates a prefix by
//! DHCPv6 (`dhcp6s` and `dhcp6c` of wide-dhcpv6). A session ends under load and is dialled again.

use crate::daemons::{Daemon, PEER};
use crate::endings::Ends;
use crate::inside::{apply, dialled, kernel, passed, upstream};
use crate::session::{Load, host_connects, run, say, set_up, until};
use crate::wire::{HEADERS, capture};
use std::fs;
use std::thread;
use std::time::Duration;
use weirgate_linklayer::LinkLayer;

const SERVER: &str = "2001:db8:ffff::9";
const LAYER: &str = "vdsl2:pppoe";
/// The delegated prefix, and the start of addresses in its first network.
const DELEGATED: &str = "2001:db8:100::/56";
const INSIDE: &str = "2001:db8:100:0";
/// A datagram of [`Load`] with its headers.
const DATAGRAM: usize = 1_048;

const ANNOUNCED: &str = "{ AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; \
                         prefix 2001:db8:1::/64 { }; };\n";
const ASKED: &str = "interface ppp0 { send ia-pd 1; };\n\
                     id-assoc pd 1 { prefix-interface lan { sla-id 0; sla-len 8; }; };\n";
/// The router's DUID by hardware address (RFC 8415, section 11.4). In the file, its length precedes
/// it.
const ROUTER: [u8; 10] = [0, 3, 0, 1, 2, 0, 0, 0, 0, 1];

/// Writes the files of all daemons.
fn configure() {
    for folder in ["/var/lib/dhcpv6", "/etc/wide-dhcpv6"] {
        fs::create_dir_all(folder).unwrap();
    }
    let named: Vec<String> = ROUTER.iter().map(|byte| format!("{byte:02x}")).collect();
    let granted = format!(
        "host router {{ duid {}; prefix {DELEGATED} infinity; }};\n",
        named.join(":")
    );
    fs::write("/etc/wide-dhcpv6/dhcp6s.conf", granted).unwrap();
    fs::write("/etc/wide-dhcpv6/dhcp6c.conf", ASKED).unwrap();
    let length = (ROUTER.len() as u16).to_ne_bytes();
    let own = [&length[..], &ROUTER].concat();
    fs::write("/var/lib/dhcpv6/dhcp6c_duid", own).unwrap();
    for line in [
        "sysctl -qw net.ipv6.conf.all.forwarding=1",
        // A router that accepts a default route from its provider.
        "sysctl -qw net.ipv6.conf.default.accept_ra=2",
        "ip netns exec isp sysctl -qw net.ipv6.conf.all.forwarding=1",
    ] {
        run(line);
    }
    run(&format!("ip -n isp addr add {SERVER}/128 dev lo"));
}

/// Starts the daemons of a session, like `ipv6-up` of pppd does.
fn daemons() -> Vec<Daemon> {
    let theirs = until("the provider's device", provider);
    fs::write("/etc/radvd.conf", format!("interface {theirs} {ANNOUNCED}")).unwrap();
    // The provider routes the delegated prefix to the session.
    run(&format!("ip -n isp route replace {DELEGATED} dev {theirs}"));
    let log = "/tmp/ipv6.log";
    [
        "radvd -n -m stderr -d 1 -p /tmp/radvd.pid -C /etc/radvd.conf".to_owned(),
        format!("dhcp6s -f -D -c /etc/wide-dhcpv6/dhcp6s.conf {theirs}"),
    ]
    .map(|line| Daemon::start(&format!("ip netns exec isp {line}"), log))
    .into_iter()
    .chain([Daemon::start(
        "dhcp6c -f -D -c /etc/wide-dhcpv6/dhcp6c.conf ppp0",
        log,
    )])
    .collect()
}

/// Returns the device of the newest session at the provider, which may not have noticed the end of
/// the session before.
fn provider() -> Option<String> {
    let shown = run("ip -n isp -o -4 addr show");
    let line = shown.lines().rfind(|line| line.contains(PEER))?;
    line.split_whitespace().nth(1).map(str::to_owned)
}

/// Waits until the router has a default route from its provider, and the prefix for its hosts.
fn connected() {
    let found = || {
        let route = run("ip -6 route show default dev ppp0");
        let address = run("ip -6 addr show dev lan scope global");
        (route.contains("proto ra") && address.contains(INSIDE)).then_some(())
    };
    let log = || fs::read_to_string("/tmp/ipv6.log").unwrap_or_default();
    let came = std::panic::catch_unwind(|| until("route and prefix", found));
    assert!(
        came.is_ok(),
        "{}\n{}\n{}",
        log(),
        run("ip -6 route"),
        run("ip -6 addr")
    );
}

/// Gives the host an address of the delegated prefix.
fn host() {
    let shown = run("ip -6 -o addr show dev lan scope link");
    let address = shown
        .split_whitespace()
        .find(|word| word.starts_with("fe80"));
    let router = address.unwrap().split('/').next().unwrap();
    run(&format!(
        "ip -n host addr add {INSIDE}::2/64 dev inside nodad"
    ));
    run(&format!(
        "ip -n host route add default via {router} dev inside"
    ));
}

#[test]
#[ignore = "runs in the guest"]
fn prefix() {
    set_up("ppp0", 1);
    configure();
    let (runtime, kernel) = kernel();
    let seen = capture("wire");
    let mut ends = Ends::new();
    let mut number = dialled("ppp0", 0);
    let layer = LinkLayer::named(LAYER).unwrap();
    apply(&upstream("ppp0", LAYER, "2mbit"));
    let _keep = Daemon::keep();
    let mut running = Some(daemons());
    connected();
    host();
    host_connects(SERVER);
    let segments = seen.lock().unwrap().segments;
    assert_eq!(segments, [None, Some(1_432)], "on a link of 1492 bytes");
    let load = Load::new("[::]:0", SERVER);
    for ending in 0..3 {
        // Wait until all other packets have been sent.
        thread::sleep(Duration::from_secs(2));
        let before = passed(&runtime, &kernel, "ppp0").unwrap();
        seen.lock().unwrap().lengths = Some(Vec::new());
        load.set(true);
        thread::sleep(Duration::from_millis(500));
        load.set(false);
        thread::sleep(Duration::from_millis(500));
        let (bytes, packets) = passed(&runtime, &kernel, "ppp0").unwrap();
        let lengths = seen.lock().unwrap().lengths.take().unwrap();
        let wire = |frame: &usize| u64::from(layer.wire_bytes((frame - HEADERS) as u32));
        let charged = lengths.iter().map(wire).sum::<u64>();
        assert_eq!(packets - before.1, lengths.len() as u64);
        assert_eq!(bytes - before.0, charged, "{lengths:?}");
        let large = lengths.iter().filter(|one| **one == HEADERS + DATAGRAM);
        assert!(large.count() > 50, "{lengths:?}");
        let session = seen.lock().unwrap().clone();
        load.set(true);
        ends.session(ending, "ppp0", session.last);
        running.take();
        number = dialled("ppp0", number);
        running = Some(daemons());
        connected();
        until("traffic", || {
            let next = seen.lock().unwrap().next(&session);
            next.filter(|(_, count)| *count > 50)
        });
        load.set(false);
        thread::sleep(Duration::from_millis(500));
        let (_, left) = seen.lock().unwrap().next(&session).unwrap();
        let (_, shaped) = passed(&runtime, &kernel, "ppp0").unwrap();
        say(&format!(
            "{left} packets left by the next session, {shaped} by the tree"
        ));
        assert_eq!(left, shaped, "packets beside the tree");
    }
}
