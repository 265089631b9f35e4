// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A discipline of the user's own as the queue of a policy's class.

use super::inside::{BROUGHT, far_packets, net, number, objects, of_policy, settled};
use net::Far;
use serde_json::Value;
use std::fs;
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use weirgate_aqm::seal;

const POLICY: &str = "/site.toml";
const FOLDER: &str = "/etc/weirgate/disciplines";
const FILE: &str = "/etc/weirgate/disciplines/mean.so";

/// The classes of [`write`], the TOS byte of their sockets, and their guaranteed share of the link.
const CLASSES: [(&str, u32, f64); 3] =
    [("own", 0x20, 0.5), ("flows", 0, 0.25), ("plain", 0x40, 0.2)];

fn write(up: &str, own: &str) {
    let text = format!(
        "version = 1\n[link]\ndevice = \"wan0\"\nup = \"{up}\"\nlayer = \"ethernet\"\n\
         engine = \"kit\"\n\
         [[class]]\nname = \"own\"\nshare = \"50%\"\nqueue = {own}\n\
         [[class]]\nname = \"flows\"\nshare = \"25%\"\ndefault = true\nqueue = \"fq_codel\"\n\
         [[class]]\nname = \"plain\"\nshare = \"20%\"\nqueue = \"pfifo 200\"\n\
         [[rule]]\nclass = \"own\"\ndscp = \"CS1\"\n\
         [[rule]]\nclass = \"plain\"\ndscp = \"CS2\"\n"
    );
    fs::write(POLICY, text).expect("a file");
}

/// Runs a command that must succeed; returns its output.
fn well(words: &[&str]) -> String {
    let (text, status) = of_policy(words);
    assert_eq!(status, Some(0), "{words:?}: {text}");
    text
}

fn queues() -> Vec<Value> {
    let text = super::inside::done("show wan0 --json");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    all["queues"].as_array().expect("queues").clone()
}

/// Returns the queue with this discipline.
fn queue(discipline: &str) -> Value {
    let all = queues();
    let found = all.iter().find(|one| one["discipline"] == discipline);
    found
        .unwrap_or_else(|| panic!("no {discipline}: {all:?}"))
        .clone()
}

fn count(one: &Value, name: &str) -> u64 {
    number(one, "statistics", name)
}

fn dropped(one: &Value) -> u64 {
    let drops = one["drops"].as_object().expect("drops");
    drops.values().filter_map(Value::as_u64).sum()
}

fn root() -> String {
    let output = Command::new("tc")
        .args(["qdisc", "show", "dev", "wan0"])
        .output();
    String::from_utf8_lossy(&output.expect("tc").stdout).into_owned()
}

/// Checks that a wrong file is reported at the place where the policy names the discipline, and
/// that nothing is loaded.
fn refused(why: &str) {
    for command in ["check", "apply"] {
        let (text, status) = of_policy(&[command, POLICY]);
        assert_eq!(status, Some(2), "{text}");
        assert!(
            text.contains("/site.toml:10:9") && text.contains(why),
            "{text}"
        );
    }
    assert!(!root().contains("weir_"), "{}", root());
}

fn refusals(built: &[u8]) {
    refused("`mean` is not a queue that a class can have");
    let put = |bytes: &[u8]| {
        let _ = fs::remove_file(FILE);
        fs::write(FILE, bytes).expect("a file");
    };
    let mode = |path: &str, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    };
    put(b"no library");
    refused("`weirgate-lab aqm build` did not make this file");
    put(&built[..built.len() / 2]);
    refused("or it was cut off");
    let mut damaged = built.to_vec();
    damaged[built.len() / 2] ^= 1;
    put(&damaged);
    refused("it is damaged");
    let body = &built[..built.len() - 32];
    put(&[body, &seal(body, 7)].concat());
    refused("it was built by another version of weirgate");
    put(built);
    mode(FILE, 0o666);
    refused("others may write it (mode 666)");
    mode(FILE, 0o644);
    mode(FOLDER, 0o777);
    refused("others may write it (mode 777)");
    mode(FOLDER, 0o755);
    let other = format!("{FOLDER}/median.so");
    fs::rename(FILE, &other).expect("a file");
    let text = fs::read_to_string(POLICY).expect("a file");
    fs::write(POLICY, text.replace("mean", "median")).expect("a file");
    refused("it is the discipline `mean`; name the file so");
    fs::write(POLICY, text).expect("a file");
    fs::rename(&other, FILE).expect("a file");
}

/// Checks that each class gets its guarantee under TCP in all of them, and counts only its own
/// drops.
fn under_tcp() -> Vec<String> {
    let flows: Vec<TcpStream> = CLASSES
        .iter()
        .flat_map(|(_, tos, _)| [tos; 2])
        .map(|tos| {
            let flow = net::bulk(0);
            net::code(&flow, *tos);
            flow
        })
        .collect();
    thread::sleep(Duration::from_secs(3));
    let sent = || {
        let (all, at) = (queues(), Instant::now());
        let of = |name: &str| {
            let found = all.iter().find(|one| one["discipline"] == name);
            count(found.expect("a queue"), "sent_wire_bytes")
        };
        (["mean", "fq_codel", "droptail"].map(of), at)
    };
    let (earlier, began) = sent();
    thread::sleep(Duration::from_secs(10));
    let (later, ended) = sent();
    let mut shares = Vec::new();
    let line = 4e6 / 8.0 * (ended - began).as_secs_f64();
    for ((name, _, part), (was, is)) in CLASSES.iter().zip(earlier.iter().zip(later)) {
        let share = (is - was) as f64 / line;
        assert!(share > part * 0.97, "{name} has {share}");
        shares.push(format!("{name} has {share:.3}, guaranteed {part}"));
    }
    let own = queue("mean");
    assert!(count(&own, "queued_packets") <= 6, "{own}");
    assert!(
        own["drops"]["limit"]
            .as_u64()
            .is_some_and(|drops| drops > 0),
        "{own}"
    );
    assert_eq!(number(&own, "parameters", "limit_packets"), 6);
    for flow in flows {
        let _ = flow.shutdown(Shutdown::Both);
    }
    thread::sleep(Duration::from_secs(2));
    shares
}

/// Puts a number of packets into each class's queue.
fn offer(each: u64) {
    for (_, tos, _) in CLASSES {
        let socket = UdpSocket::bind("10.0.0.1:0").expect("a socket");
        net::code(&socket, tos);
        for _ in 0..each {
            socket.send_to(&[0; 1_000], "10.0.0.2:9").expect("room");
        }
    }
}

/// Replaces the discipline by another version, which takes over all queued packets of its own class
/// and of the others. Every packet was sent, or dropped by its discipline.
fn exchanged(other: &[u8], from: &str) -> [Vec<u64>; 2] {
    let (before, sent) = (queues(), far_packets(0));
    offer(70);
    let waiting: Vec<u64> = queues()
        .iter()
        .map(|one| count(one, "queued_packets"))
        .collect();
    fs::write(FILE, other).expect("a file");
    let (text, _) = of_policy(&["plan", POLICY]);
    assert!(
        text.contains("with mean") && !text.contains("empties"),
        "{text}"
    );
    well(&["apply", POLICY]);
    let after: Vec<u64> = queues()
        .iter()
        .map(|one| count(one, "queued_packets"))
        .collect();
    assert!(
        after.iter().all(|queued| *queued > 5),
        "{waiting:?} waited, then {after:?}"
    );
    assert_ne!(root(), from, "another program is there");
    // The first packet causes the first call of the new program.
    offer(1);
    thread::sleep(Duration::from_secs(20));
    let mut left = 0;
    for (was, is) in before.iter().zip(queues()) {
        let arrived = count(&is, "arrived_packets") - count(was, "arrived_packets");
        // Packets of the machine itself are in the default class.
        assert!(arrived >= 71, "its counts go on: {is}");
        assert_eq!(count(&is, "queued_packets"), 0, "{is}");
        let gone = count(&is, "sent_packets") - count(was, "sent_packets");
        assert_eq!(gone + dropped(&is) - dropped(was), arrived, "{is}");
        left += gone;
    }
    let own = far_packets(0) - sent;
    assert!(own >= left, "{own} packets left the device of {left}");
    [waiting, after]
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn of_ones_own() {
    let _far = Far::new(1);
    let before = objects();
    fs::create_dir_all(FOLDER).expect("a folder");
    let read = |name: &str| fs::read(format!("{BROUGHT}/{name}.so")).expect("a file");
    let (first, second) = (read("mean"), read("changed"));
    write("4mbit", "\"mean\"");
    refusals(&first);
    write("4mbit", "{ kind = \"mean\", limit_packets = 6 }");
    let text = well(&["check", "--all", POLICY]);
    assert!(text.contains("mean, a discipline of your own"), "{text}");
    well(&["apply", POLICY]);
    let kind = root();
    assert!(kind.contains("weir_S"), "{kind}");
    println!("{:?}", under_tcp());
    // The policy is in force without differences, and the other commands accept it.
    well(&["plan", POLICY]);
    well(&["show"]);
    write("128kbit", "\"mean\"");
    well(&["apply", POLICY]);
    let [waiting, after] = exchanged(&second, &kind);
    println!("{waiting:?} waited, and {after:?} with the other version");
    // With the default of the other version.
    let limit = |expected: u64| {
        assert_eq!(
            number(&queue("mean"), "parameters", "limit_packets"),
            expected
        );
    };
    limit(7);
    // Each state is in force from the next packet on.
    well(&["rollback"]);
    offer(1);
    limit(0);
    assert_eq!(root(), kind);
    well(&["apply", POLICY]);
    offer(1);
    limit(7);
    // As after a boot, with the file removed: the applied state is restored.
    let other = root();
    fs::remove_file(FILE).expect("a file");
    net::run("tc qdisc del dev wan0 root");
    fs::remove_dir_all("/sys/fs/bpf/weirgate").expect("pins");
    well(&["boot"]);
    assert_eq!(root(), other);
    limit(7);
    // A policy with only disciplines of the kit takes the queues over too.
    write("128kbit", "\"pie\"");
    offer(70);
    let waiting = count(&queue("fq_codel"), "queued_packets");
    let (text, _) = of_policy(&["plan", POLICY]);
    assert!(text.contains("empties the queue of class"), "{text}");
    well(&["apply", POLICY]);
    let after = count(&queue("fq_codel"), "queued_packets");
    println!("{waiting} waited in the class beside it, then {after}");
    assert!(
        root().contains("weir_shaper") && after > 5,
        "{} {after}",
        root()
    );
    well(&["remove"]);
    settled(before);
}
