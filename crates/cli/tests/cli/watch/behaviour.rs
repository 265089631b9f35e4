// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kinds of flows and alerts for hosts, by the kernel's connection table.

use crate::watch::Watch;
use serde_json::Value;
use std::process::Child;

/// An inside host has a call that is answered, and contacts 40 addresses that do not answer.
const TRAFFIC: &str = "\
import socket, threading, time
U = lambda a, p: (lambda s: (s.bind((a, p)), s)[1])(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
def end(me, other):
    s, due = U(*me), time.monotonic()
    while True:
        s.sendto(bytes(172), other)
        due += 0.02
        time.sleep(max(0, due - time.monotonic()))
a, b = ('10.8.0.1', 40000), ('10.9.0.1', 5004)
for me, other in ((a, b), (b, a)):
    threading.Thread(target=end, args=(me, other), daemon=True).start()
    # The inside host opens it.
    time.sleep(0.5)
time.sleep(5)
s = U('10.8.0.1', 40001)
for i in range(40):
    s.sendto(b'x' * 30, ('10.9.0.%d' % (100 + i), 4444))
    time.sleep(0.05)
time.sleep(600)
";

struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether a list of the last sample has an entry with these two words.
fn has(now: &Value, list: &str, words: [(&str, &Value); 2]) -> bool {
    let mut all = now[list].as_array().into_iter().flatten();
    all.any(|one| words.iter().all(|(field, word)| one[field] == **word))
}

#[test]
fn a_call_has_its_kind_and_a_scan_is_an_alert() {
    let watch = Watch::start(|_| {});
    watch
        .namespace
        .run("sysctl -qw net.netfilter.nf_conntrack_acct=1");
    let mut traffic = watch.namespace.command("/usr/bin/python3");
    let traffic = Ending(traffic.args(["-c", TRAFFIC]).spawn().unwrap());
    let (port, call) = (Value::from(5004), Value::from("call"));
    watch.look(|now| has(now, "flows", [("remote_port", &port), ("kind", &call)]));
    let (host, scan) = (Value::from("10.8.0.1"), Value::from("address-scan"));
    watch.look(|now| has(now, "alerts", [("host", &host), ("alert", &scan)]));
    let metrics = watch.get("metrics");
    for line in [
        "weirgate_flow_kind_connections{kind=\"call\"} 1\n",
        "weirgate_alert_hosts{alert=\"address-scan\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    drop(traffic);
}
