// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that run in the guest. Ignored elsewhere.

#[path = "../../../bpf/tests/inside/net.rs"]
#[allow(dead_code, reason = "shared with the tests of crate bpf")]
pub(crate) mod net;

use crate::lists::{CircuitLine, written};
use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
use net::Far;
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_bpf::{AttachPoint, CircuitTree, CircuitsNode, Store};
use weirgate_circuits::rows::Label;

fn weirgate(line: &str) -> Output {
    Command::new("weirgate")
        .arg("circuits")
        .args(line.split_whitespace())
        .output()
        .expect("weirgate")
}

/// Runs a command that must succeed; returns its output.
pub(crate) fn done(line: &str) -> String {
    let output = weirgate(line);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &error
}

/// Runs a command with `--json`, which must succeed; returns its document.
pub(crate) fn document(line: &str) -> serde_json::Value {
    let output = weirgate(&format!("{line} --json"));
    assert!(output.status.success(), "{line}: {output:?}");
    serde_json::from_slice(&output.stdout).expect("one document")
}

/// Runs a command that must fail with this status; returns its output.
pub(crate) fn fails(line: &str, status: i32) -> String {
    let output = weirgate(line);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{line}: {error}");
    error
}

/// Returns the numbers of all programs, maps and links.
fn objects() -> [usize; 3] {
    [
        ProgInfoIter::default().count(),
        MapInfoIter::default().count(),
        LinkInfoIter::default().count(),
    ]
}

/// Waits until the kernel has freed objects after a grace period, 10 s at most.
pub(crate) fn settled(expected: [usize; 3]) {
    for _ in 0..100 {
        if objects() == expected {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(objects(), expected, "programs, maps, links");
}

fn root() -> String {
    let mut command = Command::new("tc");
    command.args(["qdisc", "show", "dev", "wan0", "root"]);
    let output = command.output().expect("tc");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Opens the circuits of `wan0` in this process.
pub(crate) fn circuits() -> CircuitTree {
    circuits_of("wan0")
}

pub(crate) fn circuits_of(device: &str) -> CircuitTree {
    let point = AttachPoint::root(net::ifindex(device)).expect("an attach point");
    let store = Store::open().expect("pins");
    store.circuits(point).expect("maps").expect("circuits")
}

/// Returns the state in force: the ceiling of each node by its label, and the label of each prefix.
fn in_force() -> (BTreeMap<String, u64>, BTreeMap<String, String>) {
    in_force_of("wan0")
}

/// Returns the state in force on a device.
pub(crate) fn in_force_of(device: &str) -> (BTreeMap<String, u64>, BTreeMap<String, String>) {
    let tree = circuits_of(device);
    let nodes: Vec<CircuitsNode> = tree.nodes().expect("rows").collect();
    let labels: BTreeMap<u32, String> = nodes
        .iter()
        .map(|node| (node.id, node.label.to_string()))
        .collect();
    let ceilings = nodes
        .iter()
        .map(|node| (node.label.to_string(), node.ceiling_bytes_s));
    let table = tree.table().expect("a table");
    let owners = table.iter().map(|(prefix, row)| {
        let label = labels
            .get(row)
            .cloned()
            .unwrap_or_else(|| format!("row {row}"));
        (prefix.to_string(), label)
    });
    (ceilings.collect(), owners.collect())
}

/// Sends datagrams of 1,000 bytes to an address until it is dropped, 100 times a second.
pub(crate) struct Flood(Arc<AtomicBool>);

impl Flood {
    pub(crate) fn to(address: IpAddr, each: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let any = if address.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        let socket = UdpSocket::bind(any).expect("a socket");
        // The class that a sender requests must not matter.
        net::classify(&socket, 4_097);
        thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for _ in 0..each {
                    let _ = socket.send_to(&[0; 1_000], (address, 9));
                }
                thread::sleep(Duration::from_millis(10));
            }
        });
        Self(stop)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Routes all subscribers through the other side of `wan0`.
pub(crate) fn routes() {
    let path = "/proc/net/arp";
    let table = fs::read_to_string(path).expect(path);
    let entry = table.lines().find(|line| line.starts_with("10.0.0.2 "));
    let address = entry
        .and_then(|line| line.split_whitespace().nth(3))
        .expect("a neighbour");
    for line in [
        "ip route add 100.64.0.0/10 via 10.0.0.2 dev wan0",
        "ip route add 10.64.0.0/10 via 10.0.0.2 dev wan0",
        "ip -6 addr add 2001:db8:ffff::1/64 dev wan0 nodad",
        &format!("ip -6 neigh replace 2001:db8:ffff::2 lladdr {address} dev wan0 nud permanent"),
        "ip -6 route add 2001:db8::/33 via 2001:db8:ffff::2 dev wan0",
    ] {
        net::run(line);
    }
}

/// Returns the circuit of a number, with a separate rate.
pub(crate) fn line(number: u32) -> CircuitLine {
    CircuitLine {
        number,
        kbit: 500 + number % 7 * 250,
        is_host: number.is_multiple_of(2),
        variant: 0,
        has_frames: false,
    }
}

/// Returns an address of a circuit; of one with prefixes, an IPv6 address if `six`.
pub(crate) fn address(line: &CircuitLine, six: bool) -> IpAddr {
    let (prefix, within) = if six && !line.is_host {
        (line.ipv6().replace("::/64", "::abcd"), "")
    } else {
        (line.ipv4(), "/29")
    };
    prefix.trim_end_matches(within).parse().expect("an address")
}

/// Returns the bytes that each of these has sent, and the time of each reading.
pub(crate) fn sent(tree: &CircuitTree, labels: &[Label]) -> Vec<(u64, Instant)> {
    let nodes: BTreeMap<String, CircuitsNode> = tree
        .nodes()
        .expect("rows")
        .map(|node| (node.label.to_string(), node))
        .collect();
    let of = |label: &Label| {
        let id = nodes.get(&label.to_string()).expect("a node").id;
        let node = tree.node(id).expect("a node");
        (node.counts.sent_wire_bytes, Instant::now())
    };
    labels.iter().map(of).collect()
}

/// Checks that metrics include as many circuits as requested, the flooded ones, and every site.
fn metrics_of(flooded: &[u32]) {
    let text = done("metrics wan0 --top 8");
    let of = |name: &str| -> Vec<(String, f64)> {
        let begin = format!("weirgate_circuits_{name}{{device=\"wan0\",site=\"");
        let lines = text.lines().filter_map(|line| line.strip_prefix(&*begin));
        let value = |line: &str| {
            let (labels, value) = line.rsplit_once("} ").expect("a value");
            (labels.to_owned(), value.parse().expect("a number"))
        };
        lines.map(value).collect()
    };
    let bytes = of("sent_bytes_total");
    let circuits: Vec<u32> = bytes
        .iter()
        .filter_map(|(labels, _)| labels.split_once("circuit=\"")?.1.strip_suffix('"'))
        .map(|id| id.parse().expect("a number"))
        .collect();
    let mut sorted = circuits.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, flooded, "{text}");
    assert_eq!(bytes.len(), 8 + 10 + 2, "{text}");
    let first = |name: &str| of(name).into_iter().next().expect("the link").1;
    assert!(
        first("dropped_packets") > 0.0 && first("queued_bytes") > 0.0,
        "{text}"
    );
    assert_eq!(first("circuits"), 1_000.0);
    assert!(text.ends_with("# EOF\n"), "{text}");
}

/// Sampled circuits of a thousand below ten sites get their rates, by address or by prefix.
/// Applying the same list again writes nothing, and a change of one rate writes one row.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_thousand_circuits_have_their_rates() {
    // Objects of an earlier test may still be freed.
    settled([0; 3]);
    let far = Far::new(1);
    routes();
    let lines: Vec<CircuitLine> = (1..=1_000).map(line).collect();
    let list = written("thousand", &lines, 1_000);
    println!("{}", done(&format!("apply wan0 {list}")));
    assert!(root().contains("weir_c"), "{}", root());
    let sampled: Vec<u32> = vec![2, 3, 5, 250, 501, 777, 998, 999];
    let of = |number: u32| {
        lines
            .iter()
            .find(|one| one.number == number)
            .expect("a circuit")
    };
    let floods: Vec<Flood> = sampled
        .iter()
        .map(|number| Flood::to(address(of(*number), number.is_multiple_of(3)), 4))
        .collect();
    let labels: Vec<Label> = sampled
        .iter()
        .map(|number| Label::Circuit(number.to_string()))
        .collect();
    let tree = circuits();
    thread::sleep(Duration::from_secs(1));
    for second in 0..4 {
        let from = sent(&tree, &labels);
        thread::sleep(Duration::from_secs(1));
        let to = sent(&tree, &labels);
        for ((number, from), to) in sampled.iter().zip(from).zip(to) {
            let span = (to.1 - from.1).as_secs_f64();
            let due = f64::from(of(*number).kbit) * 125.0 * span;
            let had = (to.0 - from.0) as f64;
            let packet = if number.is_multiple_of(3) && !number.is_multiple_of(2) {
                1_062.0
            } else {
                1_042.0
            };
            println!("second {second}: circuit {number}: {had} of {due:.0} bytes");
            assert!(
                (had - due).abs() <= packet,
                "circuit {number}: {had} of {due}"
            );
        }
    }
    // Unknown packets count as others, and the same list again writes nothing.
    let others = sent(&tree, &[Label::Others])[0].0;
    let stranger = Flood::to("100.127.0.1".parse().expect("an address"), 1);
    let text = done(&format!("apply wan0 {list}"));
    println!("{text}");
    assert!(
        text.contains("0 nodes added, 0 changed, 0 removed, 0 entries"),
        "{text}"
    );
    thread::sleep(Duration::from_millis(500));
    assert!(sent(&tree, &[Label::Others])[0].0 > others);
    drop(stranger);
    // A change of one rate writes one row; then the site's ceiling limits its circuits.
    let mut changed: Vec<CircuitLine> = (1..=1_000).map(line).collect();
    changed[1].kbit = 300;
    let list = written("changed", &changed, 1_000);
    let counted = sent(&tree, &labels)[0].0;
    let text = done(&format!("apply wan0 {list}"));
    assert!(
        text.contains("0 nodes added, 1 changed, 0 removed, 0 entries"),
        "{text}"
    );
    thread::sleep(Duration::from_millis(500));
    let from = sent(&tree, &labels[..1])[0];
    assert!(from.0 >= counted, "counters go on");
    thread::sleep(Duration::from_secs(2));
    let to = sent(&tree, &labels[..1])[0];
    let due = 300.0 * 125.0 * (to.1 - from.1).as_secs_f64();
    assert!(
        ((to.0 - from.0) as f64 - due).abs() <= 1_042.0,
        "{} of {due}",
        to.0 - from.0
    );
    let text = done("show wan0 2");
    println!("{text}");
    assert!(
        text.contains("circuit 2 below site-2: at most 300kbit"),
        "{text}"
    );
    assert!(text.contains("addresses: 100.64.0.2"), "{text}");
    let shown: serde_json::Value = serde_json::from_str(&done("show wan0 2 --json")).expect("JSON");
    assert!(shown[0]["dropped"].as_u64() > Some(0), "{shown}");
    assert!(shown[0]["delay_ms"].as_f64() > Some(0.0), "{shown}");
    assert!(fails("show wan0 nobody", 2).contains("no circuit"));
    metrics_of(&sampled);
    println!("{}", done("show wan0"));
    drop(floods);
    drop(tree);
    done("remove wan0 --all");
    assert!(!root().contains("weir_"), "{}", root());
    drop(far);
    settled([0; 3]);
}

/// A list with mistakes, a missing device, or one with a foreign qdisc changes nothing.
#[test]
#[ignore = "runs in the lab's kernel"]
fn what_is_wrong_changes_nothing() {
    // Objects of an earlier test may still be freed.
    settled([0; 3]);
    let far = Far::new(1);
    let lines: Vec<CircuitLine> = (1..=20).map(line).collect();
    let list = written("right", &lines, 100);
    let wrong = list
        .split(' ')
        .next()
        .expect("a file")
        .replace("right", "wrong");
    let text = fs::read_to_string("/tmp/right.csv").expect("a file");
    fs::write(&wrong, text.replace(",router,", ",router,,")).expect("a file");
    assert!(fails(&format!("apply wan0 {wrong}"), 2).contains("error[L"));
    assert!(fails(&format!("apply wan7 {list}"), 2).contains("wan7"));
    net::run("tc qdisc add dev wan0 root handle 7: pfifo limit 10");
    assert!(fails(&format!("apply wan0 {list}"), 2).contains("--adopt"));
    assert!(fails("remove wan0 --all", 2).contains("no circuits"));
    assert!(fails("show wan0", 2).contains("no circuits"));
    assert!(root().contains("pfifo"), "{}", root());
    settled([0; 3]);
    done(&format!("apply wan0 {list} --adopt"));
    let in_force_before = in_force();
    assert!(fails(&format!("apply wan0 {wrong}"), 2).contains("error[L"));
    assert!(fails(&format!("apply wan0 {list} --up"), 2).contains("other direction"));
    assert_eq!(in_force(), in_force_before);
    done("remove wan0 --all");
    drop(far);
    settled([0; 3]);
}

/// A command that is killed at any moment leaves the old list or the new one in force, and the next
/// command continues from there.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_killed_change_leaves_one_of_the_lists() {
    const KILLS: u32 = 24;
    let _far = Far::new(1);
    // Some circuits are removed, some added; some have other addresses, MACs, VLANs or sessions,
    // and some other rates.
    let first = |number: u32| CircuitLine {
        has_frames: number.is_multiple_of(4),
        ..line(number)
    };
    let old: Vec<CircuitLine> = (1..=1_500).map(first).collect();
    let new: Vec<CircuitLine> = (500..=2_000)
        .map(|number| CircuitLine {
            kbit: 700 + number % 5 * 100,
            is_host: number.is_multiple_of(2) && !number.is_multiple_of(3),
            variant: u8::from(number.is_multiple_of(5)),
            has_frames: number.is_multiple_of(6),
            ..line(number)
        })
        .collect();
    let lists = [written("old", &old, 100), written("new", &new, 200)];
    done(&format!("apply wan0 {}", lists[1]));
    let began = Instant::now();
    done(&format!("apply wan0 {}", lists[0]));
    let whole = began.elapsed();
    let old_in_force = in_force();
    done(&format!("apply wan0 {}", lists[1]));
    let new_in_force = in_force();
    assert_ne!(old_in_force, new_in_force);
    let both = [&old_in_force, &new_in_force];
    let (mut now, mut seen, mut killed) = (1, [0; 2], 0);
    for kill in 0..KILLS {
        let wanted = 1 - now;
        let mut child = Command::new("weirgate")
            .args(["circuits", "apply", "wan0"])
            .args(lists[wanted].split(' '))
            .stderr(Stdio::null())
            .spawn()
            .expect("weirgate");
        // The first half of the time reads the files; a kill then changes nothing.
        thread::sleep(whole / 3 + whole * (kill + 1) / (KILLS * 3 / 2 - 4));
        child.kill().expect("a process");
        let status = child.wait().expect("a process");
        killed += u32::from(status.code().is_none());
        let found = in_force();
        let is = both.iter().position(|one| **one == found);
        let is = is.unwrap_or_else(|| panic!("kill {kill}: neither list is in force"));
        seen[usize::from(is == wanted)] += 1;
        now = is;
    }
    println!(
        "{KILLS} changes of {} ms, {killed} of them killed: {} times the old list, {} the new",
        whole.as_millis(),
        seen[0],
        seen[1]
    );
    assert!(killed >= KILLS / 2 && seen[0] > 2 && seen[1] > 2);
    for (list, expected) in lists.iter().zip(both) {
        done(&format!("apply wan0 {list}"));
        assert_eq!(in_force(), *expected);
    }
    done("remove wan0 --all");
}

/// Measures the time for lists of 10^5 circuits.
#[test]
#[ignore = "runs in the lab's kernel"]
fn many_circuits() {
    let _far = Far::new(1);
    let of = |changed: u32, kind: fn(u32) -> bool| -> Vec<CircuitLine> {
        let one = |number| CircuitLine {
            kbit: if number <= changed { 20_000 } else { 10_000 },
            is_host: kind(number),
            ..line(number)
        };
        (1..=100_000).map(one).collect()
    };
    for (what, kind) in [
        ("addresses", (|_| true) as fn(u32) -> bool),
        ("half of them prefixes of both versions", |number| {
            number.is_multiple_of(2)
        }),
    ] {
        let first = written("first", &of(0, kind), 10_000);
        let second = written("second", &of(10_000, kind), 10_000);
        for (step, list) in [
            ("first", &first),
            ("again", &first),
            ("10,000 plans changed", &second),
        ] {
            let began = Instant::now();
            let text = done(&format!("apply wan0 {list}"));
            println!(
                "{what}: {step}: {} ms in all; {}",
                began.elapsed().as_millis(),
                text.trim()
            );
        }
        for one in [
            "add wan0 new --parent site-1 --addresses 203.0.113.7,2001:db8:9::/48 --down-max \
             20mbit --up-max 2mbit",
            "change wan0 77777 --down-max 3mbit",
            "change wan0 77778 --down-max 3mbit --down-min 1mbit",
            "change wan0 77777 --suspended yes",
            "remove wan0 99999",
        ] {
            let began = Instant::now();
            let text = done(one);
            let took = began.elapsed().as_secs_f64() * 1e3;
            println!("{what}: {one}: {took:.1} ms in all; {}", text.trim());
        }
        let began = Instant::now();
        done(&format!("check {first}"));
        println!("{what}: check alone: {} ms", began.elapsed().as_millis());
        done("remove wan0 --all");
    }
}
