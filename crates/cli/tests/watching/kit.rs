// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part that runs in the guest: classes of the kit's shaper, for which the kernel has none of
//! its own, the tins of a cake, and a link that a cake shapes.

use crate::inside::{begin, get, run};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::thread::sleep;
use std::time::Duration;

const POLICY: &str = r#"
version = 1
[link]
device = "wan"
lan = "lan"
up = "1mbit"
down = "8mbit"
layer = "raw"
inbound = "none"
engine = "kit"
[[class]]
name = "urgent"
share = "30%"
priority = 0
queue = "pie"
[[class]]
name = "rest"
share = "70%"
default = true
queue = "droptail"
[[rule]]
class = "urgent"
protocol = "udp"
remote-port = 5000
"#;

/// Datagrams of 128 bytes of IP, which is also their size on the wire with `layer = "raw"`.
const SENT: u64 = 40;

fn one<'a>(now: &'a Value, sort: &str, label: &str, value: &str) -> Option<&'a Value> {
    let mut all = now["objects"].as_array()?.iter();
    all.find(|one| one["sort"] == sort && one["labels"][label] == value)
}

/// Returns how much a counter has counted since the first sample.
fn counted(series: &str) -> u64 {
    let encoded = series.replace('{', "%7B").replace('}', "%7D");
    let encoded = encoded.replace('"', "%22").replace('=', "%3D");
    let read = get(&format!("/api/read?series={encoded}"));
    let points = read["series"][series]["points"].as_array().unwrap();
    points.iter().map(|point| point[5].as_u64().unwrap()).sum()
}

#[test]
#[ignore = "runs in the guest"]
fn kit_and_tins() {
    // Without this, devices would send IPv6 packets that are counted.
    for which in ["all", "default"] {
        let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
        fs::write(path, "1").unwrap();
    }
    for line in [
        "ip link set lo up",
        "ip link add wan type veth peer name far",
        "ip link add lan type veth peer name inside",
        "ip link set wan up",
        "ip link set far up",
        "ip link set lan up",
        "ip link set inside up",
        "ip addr add 10.9.0.1/24 dev wan",
        "ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 nud permanent dev wan",
        "tc qdisc add dev far root cake bandwidth 10mbit diffserv4",
    ] {
        run(line);
    }
    fs::write("/run/policy.toml", POLICY).unwrap();
    run("weirgate apply /run/policy.toml");
    let service = begin(&[]);
    sleep(Duration::from_secs(3));
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    for _ in 0..SENT {
        socket.send_to(&[0; 100], "10.9.0.2:5000").unwrap();
        sleep(Duration::from_millis(20));
    }
    sleep(Duration::from_secs(3));
    let now = get("/api/now");
    let urgent = one(&now, "class", "class", "urgent").unwrap_or_else(|| panic!("{now}"));
    println!("{urgent}");
    assert_eq!(urgent["labels"]["direction"], "up");
    assert_eq!(urgent["promise"], "idle");
    let link = one(&now, "link", "direction", "up").unwrap_or_else(|| panic!("{now}"));
    let [rate, policy] = ["rate_bits_per_second", "policy_bits_per_second"]
        .map(|name| link["numbers"][name].as_f64().unwrap());
    assert!((rate / policy - 1.0).abs() < 1e-3, "{link}");
    let handle = urgent["labels"]["handle"].as_str().unwrap();
    let labels =
        format!("{{device=\"wan\",direction=\"up\",class=\"urgent\",handle=\"{handle}\"}}");
    assert_eq!(counted(&format!("class_sent_packets{labels}")), SENT);
    assert_eq!(counted(&format!("class_sent_bytes{labels}")), SENT * 128);
    assert_eq!(counted(&format!("class_timed_packets{labels}")), SENT);
    // The class has the figures of its queue management.
    let queue = one(&now, "qdisc", "parent", handle).unwrap_or_else(|| panic!("{now}"));
    assert_eq!(queue["labels"]["kind"], "weir_pie");
    assert_eq!(queue["numbers"]["aqm_probability"], 0.0, "{queue}");
    assert!(
        queue["numbers"]["aqm_delay_seconds"].as_f64() < Some(0.01),
        "{queue}"
    );
    for name in ["bulk", "best effort", "video", "voice"] {
        let tin = one(&now, "tin", "tin", name).unwrap_or_else(|| panic!("{now}"));
        assert_eq!(tin["labels"]["device"], "far");
        assert_eq!(tin["numbers"]["backlog_packets"], 0.0, "{tin}");
    }
    drop(service);
}

const CAKE: &str = r#"
version = 1
[link]
device = "wan"
lan = "lan"
up = "1mbit"
down = "8mbit"
layer = "raw"
inbound = "none"
engine = "cake"
[[class]]
name = "all"
share = "100%"
default = true
"#;

#[test]
#[ignore = "runs in the guest"]
fn cake_has_the_links_rate() {
    for line in [
        "ip link set lo up",
        "ip link add wan type veth peer name far",
        "ip link add lan type veth peer name inside",
        "ip link set wan up",
        "ip link set far up",
        "ip link set lan up",
        "ip link set inside up",
    ] {
        run(line);
    }
    fs::write("/run/policy.toml", CAKE).unwrap();
    run("weirgate apply /run/policy.toml");
    let service = begin(&[]);
    sleep(Duration::from_secs(3));
    let rate = || {
        let now = get("/api/now");
        let link = one(&now, "link", "direction", "up").unwrap_or_else(|| panic!("{now}"));
        let of = |name: &str| link["numbers"][name].as_f64();
        (of("rate_bits_per_second"), of("policy_bits_per_second"))
    };
    let (now, policy) = rate();
    assert!(now.is_some() && now == policy, "{now:?} {policy:?}");
    // A lower rate set from outside is an event, and becomes the link's rate.
    run("tc qdisc change dev wan root cake bandwidth 500kbit");
    sleep(Duration::from_secs(3));
    assert_eq!(rate(), (Some(500_000.0), policy));
    let events = get("/api/events");
    let events = events["events"].as_array().unwrap();
    let reported = events.iter().any(|event| {
        let text = event["text"].as_str().unwrap();
        event["kind"] == "rate" && text.starts_with("wan: the link has 500 kbit/s, before ")
    });
    assert!(reported, "{events:?}");
    drop(service);
}
