// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Circuits at several queues of a device, in a guest of four processors.

use crate::inside::{Flood, address, circuits, done, fails, line, net, routes, sent, settled};
use crate::lists::{CircuitLine, SITES, written};
use crate::status::status;
use net::Far;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use weirgate_bpf::{CircuitTree, CircuitsNode};
use weirgate_circuits::queues;
use weirgate_circuits::rows::Label;

/// Queues of the device.
const QUEUES: usize = 16;

/// The rate of the link, in bytes a second.
const RATE: f64 = 5e6;

/// Bytes of a datagram's frame.
const PACKET: f64 = 1_042.0;

/// Bytes that all queues may send at once beyond the rate: two ticks and two rounds
/// (`aqm/host/engine/line.h`), a packet of each, and the lateness of this clock.
const AHEAD: f64 = RATE * (65_536.0 + 2.0 * 524_288.0) / 1e9 + 16.0 * PACKET + RATE * 1e-3;

fn tc(words: &str) -> String {
    let mut command = Command::new("tc");
    let output = command.args(words.split_whitespace()).output().expect("tc");
    assert!(output.status.success(), "tc {words}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the number of queues of `wan0` with the qdisc of circuits.
fn at_queues() -> usize {
    let text = tc("qdisc show dev wan0");
    text.lines()
        .filter(|line| line.contains("weir_c") && line.contains("parent"))
        .count()
}

fn nodes(tree: &CircuitTree) -> BTreeMap<String, CircuitsNode> {
    let nodes = tree.nodes().expect("rows");
    nodes.map(|node| (node.label.to_string(), node)).collect()
}

/// Returns the bytes in a second of the link and of each of these labels, and the time between the
/// readings of the link.
fn had(tree: &CircuitTree, labels: &[Label]) -> (Vec<f64>, f64) {
    let labels: Vec<Label> = [&[Label::Link], labels].concat();
    let from = sent(tree, &labels);
    thread::sleep(Duration::from_secs(1));
    let to = sent(tree, &labels);
    let bytes = from
        .iter()
        .zip(&to)
        .map(|(from, to)| (to.0 - from.0) as f64);
    (bytes.collect(), (to[0].1 - from[0].1).as_secs_f64())
}

/// A rate holds over all queues: to 0.2 % in each second, and never by more than a round ahead.
/// Equals share it across queues. A queue without its qdisc gets it again, and circuits are added,
/// moved and removed with their sites.
#[test]
#[ignore = "runs in the lab's kernel"]
fn sixteen_queues_share_a_rate() {
    settled([0; 3]);
    assert_eq!(thread::available_parallelism().expect("a number").get(), 4);
    let far = Far::of_queues(1, QUEUES as u8, &[]);
    routes();
    let lines: Vec<CircuitLine> = (1..=1_000)
        .map(|number| CircuitLine {
            kbit: 20_000,
            ..line(number)
        })
        .collect();
    // Sites use the first queues, and circuits below the link one each of the others.
    let direct: Vec<u32> = (SITES..QUEUES as u32)
        .map(|queue| {
            let own = |id: &u32| queues::of_circuit(&id.to_string(), QUEUES as u32) == queue;
            (9_100..9_999).find(own).expect("an identifier")
        })
        .collect();
    let mut text = "Circuit ID,IPv4,Download Max Mbps,Upload Max Mbps\n".to_owned();
    for (number, id) in direct.iter().enumerate() {
        let _ = writeln!(text, "{id},100.90.1.{number},20,20");
    }
    fs::write("/tmp/direct.csv", text).expect("a file");
    let list = written("queues", &lines, 1_000) + " /tmp/direct.csv";
    let text = done(&format!(
        "apply wan0 {list} --rate 40mbit --queues {QUEUES}"
    ));
    println!("{text}");
    assert!(text.contains("wan0: 16 queues share the rate"), "{text}");
    assert_eq!(at_queues(), QUEUES, "{}", tc("qdisc show dev wan0"));
    let tree = circuits();
    let all = nodes(&tree);
    let sites = all
        .values()
        .filter(|node| matches!(node.label, Label::Site(_)));
    let used: BTreeSet<u32> = sites.map(|node| node.queue).collect();
    assert_eq!(
        used.len(),
        SITES as usize,
        "each site has a queue of its own"
    );

    // Floods a circuit of each site, and one below the link in each of the other queues.
    let mut labels: Vec<Label> = (0..SITES)
        .map(|site| Label::Site(format!("site-{site}")))
        .collect();
    let mut floods: Vec<Flood> = (11..=10 + SITES)
        .map(|number| Flood::to(address(&lines[number as usize - 1], number % 3 == 0), 6))
        .collect();
    for (number, id) in direct.iter().enumerate() {
        labels.push(Label::Circuit(id.to_string()));
        floods.push(Flood::to([100, 90, 1, number as u8].into(), 6));
    }
    thread::sleep(Duration::from_millis(500));
    for second in 0..2 {
        let (bytes, span) = had(&tree, &labels);
        let due = RATE * span;
        println!("second {second}: {:.5} of the rate", bytes[0] / due);
        assert!((bytes[0] - due).abs() <= 0.002 * due, "{bytes:?} of {due}");
        for (label, bytes) in labels.iter().zip(&bytes[1..]) {
            let share = bytes / due * labels.len() as f64;
            println!("  {label}: {share:.3} of its share");
            assert!((share - 1.0).abs() <= 0.03, "{label}: {share}");
        }
    }
    // At the time of each reading, nothing is ahead of the rate.
    let link = [Label::Link];
    let first = sent(&tree, &link)[0];
    let mut least = f64::MAX;
    while first.1.elapsed() < Duration::from_millis(300) {
        let (bytes, at) = sent(&tree, &link)[0];
        let over = (bytes - first.0) as f64 - RATE * (at - first.1).as_secs_f64();
        least = least.min(over);
        assert!(over - least <= AHEAD, "{} bytes ahead", over - least);
        thread::sleep(Duration::from_micros(300));
    }
    only_the_kernels(nodes(&tree)["o"].counts.sent_packets);

    // A queue whose qdisc was removed is repaired, and the others keep theirs.
    tc("qdisc del dev wan0 parent 1:2");
    assert_eq!(at_queues(), QUEUES - 1);
    println!("{}", done(&format!("apply wan0 {list} --rate 40mbit")));
    assert_eq!(at_queues(), QUEUES);
    let (bytes, span) = had(&tree, &labels[..SITES as usize]);
    assert!((bytes[0] / (RATE * span) - 1.0).abs() <= 0.002, "{bytes:?}");
    assert!(bytes.iter().all(|one| *one > 0.0), "{bytes:?}");
    drop(floods);

    one_of_many(&tree);
    what_is_refused(&list);
    drop(tree);
    fewer_queues(&list, &lines[10]);
    done("remove wan0 --all");
    assert!(!tc("qdisc show dev wan0").contains("weir_c"));
    let_send(QUEUES);
    by_processor(&list);
    drop(far);
    settled([0; 3]);
}

/// Checks that the queue of others got no packets of the floods: the kernel sends a few of its own,
/// for neighbour discovery and multicast groups.
fn only_the_kernels(packets: u64) {
    assert!(packets < 10, "{packets} packets came to another queue");
}

/// Single circuits: one is added below the link, one below a site. One moves to a site of another
/// queue, and its packets with it.
fn one_of_many(tree: &CircuitTree) {
    done("add wan0 9001 --addresses 100.90.0.1 --down-max 5mbit --up-max 5mbit");
    done("add wan0 9002 --parent site-3 --addresses 100.90.0.2 --down-max 5mbit --up-max 5mbit");
    let all = nodes(tree);
    assert_eq!(all["c9001"].parent, all["l"].id);
    assert_eq!(all["c9002"].queue, all["ssite-3"].queue);
    let shown: serde_json::Value =
        serde_json::from_str(&done("show wan0 9002 --json")).expect("JSON");
    assert_eq!(shown[0]["queue"], all["c9002"].queue, "{shown}");
    let other = (0..SITES).find(|site| {
        let site = &all[&format!("ssite-{site}")];
        site.queue != all["ssite-3"].queue
    });
    let other = other.expect("a site of another queue");
    done(&format!("change wan0 9002 --parent site-{other}"));
    let moved = nodes(tree);
    assert_eq!(moved["c9002"].queue, all[&format!("ssite-{other}")].queue);
    assert_eq!(moved["c9002"].parent, all[&format!("ssite-{other}")].id);
    // Packets of earlier floods may count as others now, and still be queued.
    let deadline = Instant::now() + Duration::from_secs(5);
    while nodes(tree)["l"].counts.packets + nodes(tree)["o"].counts.packets > 0 {
        assert!(Instant::now() < deadline, "others' packets go");
        thread::sleep(Duration::from_millis(10));
    }
    let moved = nodes(tree);
    let floods = [1, 2].map(|last| Flood::to([100, 90, 0, last].into(), 10));
    thread::sleep(Duration::from_millis(500));
    let now = nodes(tree);
    for label in ["c9001", "c9002"] {
        assert!(now[label].counts.sent_packets > 0, "{:?}", now[label]);
    }
    only_the_kernels(now["o"].counts.sent_packets - moved["o"].counts.sent_packets);
    drop(floods);
    done("remove wan0 9001 9002");
    let left: BTreeSet<String> = nodes(tree).into_keys().collect();
    assert!(!left.contains("c9001") && !left.contains("c9002"));
}

/// Lets so many queues of `wan0` send, as `ethtool -L wan0 tx COUNT` does.
fn let_send(count: usize) {
    // `struct ethtool_channels`: the command (ETHTOOL_SCHANNELS); the largest numbers, which the
    // kernel ignores; the numbers of receiving, sending, other and combined queues.
    let mut channels: [u32; 9] = [0x3d, 0, 0, 0, 0, QUEUES as u32, count as u32, 0, 0];
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    #[expect(unsafe_code, reason = "no crate of the tests changes queues")]
    // SAFETY: the request has a name that zero terminates, and points to the structure of its
    // command; both live until the call returns.
    let status = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"wan0") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = channels.as_mut_ptr().cast();
        libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request)
    };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
    let sending = fs::read_dir("/sys/class/net/wan0/queues").expect("queues");
    let sending = sending.flatten().map(|entry| entry.file_name());
    let sending = sending.filter(|name| name.to_string_lossy().starts_with("tx-"));
    assert_eq!(sending.count(), count);
}

/// A device loses queues, but their qdiscs stay. Its circuits come into force at the queues that
/// are left. The test must have no circuits open: they would keep the kind of the qdisc.
fn fewer_queues(list: &str, line: &CircuitLine) {
    let_send(2);
    assert_eq!(at_queues(), QUEUES);
    let (text, _) = status(1);
    assert!(text.contains("fewer queues than before"), "{text}");
    let text = done(&format!(
        "apply wan0 {list} --rate 40mbit --queues {QUEUES}"
    ));
    assert!(text.contains("wan0: 2 queues share the rate"), "{text}");
    assert_eq!(at_queues(), 2);
    status(0);
    // A circuit is limited, and no packet counts as others.
    let tree = circuits();
    let before = nodes(&tree)["o"].counts.sent_packets;
    let flood = Flood::to(address(line, false), 40);
    thread::sleep(Duration::from_millis(500));
    let (bytes, span) = had(&tree, &[Label::Circuit(line.number.to_string())]);
    let due = f64::from(line.kbit) * 125.0 * span;
    assert!((bytes[1] - due).abs() <= 0.01 * due, "{bytes:?} of {due}");
    only_the_kernels(nodes(&tree)["o"].counts.sent_packets - before);
    drop(flood);
}

/// The qdisc kind of `wan0`'s engine is refused on other devices and at single queues: both would
/// share the same rows.
fn an_engine_alone_is_at_one_place() {
    let text = tc("qdisc show dev wan0 root");
    let kind = text
        .split_whitespace()
        .find(|word| word.starts_with("weir_c"));
    let kind = kind.expect("the kind of the root");
    net::run("ip link add other numtxqueues 4 type dummy");
    tc("qdisc add dev other root handle 1: mq");
    for class in 1..=4 {
        let line = format!("qdisc replace dev other parent 1:{class} {kind}");
        let output = Command::new("tc").args(line.split_whitespace()).output();
        assert!(!output.expect("tc").status.success(), "{line}");
    }
    net::run("ip link del other");
}

/// Returns the pin of this name below a folder.
fn pinned(folder: &Path, name: &str) -> PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if entry.file_name() == name {
                return path;
            }
        }
    }
    panic!("no pin is called {name}");
}

/// A change of the number of queues is refused, because it would lose queued packets.
fn what_is_refused(list: &str) {
    let text = fails(&format!("apply wan0 {list} --rate 40mbit --queues 2"), 2);
    assert!(text.contains("has circuits at 16 of its queues"), "{text}");
    assert_eq!(at_queues(), QUEUES);
}

/// Where the kernel chooses the queue by processor (XPS), one queue has all circuits.
fn by_processor(list: &str) {
    let file = "/sys/class/net/wan0/queues/tx-0/xps_cpus";
    fs::write(file, "f").expect("XPS");
    let text = done(&format!("apply wan0 {list} --rate 40mbit --queues 4"));
    assert!(text.contains("one queue") && text.contains("XPS"), "{text}");
    assert_eq!(at_queues(), 0);
    fs::write(file, "0").expect("XPS");
    an_engine_alone_is_at_one_place();
    // Unreadable maps, as of another version, are removed.
    let rules = pinned(Path::new("/sys/fs/bpf/weirgate"), "rules");
    fs::remove_file(rules).expect("a pin");
    fails(&format!("apply wan0 {list} --rate 40mbit"), 3);
    done("remove wan0 --all");
    assert!(!tc("qdisc show dev wan0").contains("weir_c"));
    // This needs neither a list nor a qdisc.
    done(&format!("apply wan0 {list} --rate 40mbit"));
    let rules = pinned(Path::new("/sys/fs/bpf/weirgate"), "rules");
    fs::remove_file(rules).expect("a pin");
    tc("qdisc del dev wan0 root");
    fs::remove_file("/var/lib/weirgate/circuits/wan0.list").expect("the kept list");
    done("remove wan0 --all");
    fails("remove wan0 --all", 2);
}
