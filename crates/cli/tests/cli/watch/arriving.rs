// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `watch` shows if arriving packets are limited without a queue.

use crate::namespace::Namespace;
use crate::watch::Watch;
use serde_json::Value;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Sends frames of IPv4 and UDP to `wan` from the far side.
fn arrive(namespace: &Namespace, count: u32) {
    let shown = namespace.run("ip -br link show wan");
    let address = shown.split_whitespace().nth(2).unwrap().replace(':', "");
    let script = format!(
        "import socket, struct\n\
         s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
         s.bind(('far', 0))\n\
         ether = bytes.fromhex('{address}') + bytes(6) + bytes([8, 0])\n\
         ip = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 1028, 0, 0, 64, 17, 0, bytes([10, 9, 0, 2]), bytes([10, 9, 0, 1]))\n\
         udp = struct.pack('>HHHH', 7, 9, 1008, 0) + bytes(1000)\n\
         for _ in range({count}): s.send(ether + ip + udp)"
    );
    let mut command = namespace.command("/usr/bin/python3");
    assert!(command.args(["-c", &script]).status().unwrap().success());
}

fn one<'a>(now: &'a Value, sort: &str, label: &str, value: &str) -> Option<&'a Value> {
    let mut all = now["objects"].as_array()?.iter();
    all.find(|one| one["sort"] == sort && one["labels"][label] == value)
}

#[test]
fn what_holds_arriving_packets_is_seen() {
    let watch = Watch::under("arriving.toml", |_| {});
    let ingress = |now: &Value| one(now, "qdisc", "parent", "ingress").cloned();
    let first = watch.look(|now| ingress(now).is_some());
    let found = ingress(&first).unwrap();
    assert_eq!(found["labels"]["device"], "wan");
    assert_eq!(found["labels"]["kind"], "weirgate-inbound");
    assert!(one(&first, "receive", "device", "wan").is_some(), "{first}");
    // A burst of 200 kB is more than the virtual queue accepts. One sample of five a second has it,
    // so the history is asked.
    arrive(&watch.namespace, 200);
    let count = |metric: &str| watch.counted(metric, "parent=\"ingress\"").1;
    let counted = || [count("qdisc_sent_packets"), count("qdisc_drops")];
    let begun = Instant::now();
    while counted().iter().sum::<i64>() < 200 && begun.elapsed() < Duration::from_mins(1) {
        sleep(Duration::from_millis(100));
    }
    let [sent, dropped] = counted();
    assert_eq!(sent + dropped, 200, "{sent} and {dropped}");
    let page = watch.browser("#now", &["--dump-dom"]);
    for part in ["weirgate-inbound", "wan ingress", "Windows changed/s"] {
        assert!(page.contains(part), "{part} in {page}");
    }
}
