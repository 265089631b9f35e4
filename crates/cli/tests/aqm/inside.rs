// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that run in the guest. Ignored elsewhere.

#[path = "../../../bpf/tests/inside/net.rs"]
#[allow(dead_code, reason = "shared with the tests of crate bpf")]
pub mod net;

use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
use net::Far;
use serde_json::{Value, json};
use std::net::Shutdown;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

fn weirgate(line: &str) -> Output {
    Command::new("weirgate")
        .arg("aqm")
        .args(line.split_whitespace())
        .output()
        .expect("weirgate")
}

/// Runs a command that must succeed; returns its output.
pub fn done(line: &str) -> String {
    let output = weirgate(line);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command that must fail with this status; returns its output.
pub fn fails(line: &str, status: i32) -> String {
    let output = weirgate(line);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{line}: {error}");
    error
}

pub fn shown(device: &str) -> Value {
    let text = done(&format!("show {device} --json"));
    let all: Value = serde_json::from_str(&text).expect("JSON");
    all["queues"][0].clone()
}

pub fn number(shown: &Value, part: &str, name: &str) -> u64 {
    shown[part][name]["value"]
        .as_u64()
        .unwrap_or_else(|| panic!("no {part} {name} in {shown}"))
}

/// Returns the numbers of all programs, maps and links.
pub fn objects() -> [usize; 3] {
    [
        ProgInfoIter::default().count(),
        MapInfoIter::default().count(),
        LinkInfoIter::default().count(),
    ]
}

/// Waits until the kernel has freed objects after a grace period, 10 s at most.
pub fn settled(expected: [usize; 3]) {
    for _ in 0..100 {
        if objects() == expected {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(objects(), expected, "programs, maps, links");
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn load_show_change_unload() {
    let _far = Far::new(1);
    let before = objects();
    assert!(fails("load cdel wan0", 2).contains("codel"));
    assert!(fails("load codel wan7", 2).contains("wan7"));
    let text = fails("load codel wan0 target_ns=soon ecm=on", 2);
    assert!(
        text.contains("target_ns is `soon`") && text.contains("no parameter `ecm`"),
        "{text}"
    );
    assert_eq!(objects(), before, "a refused load leaves nothing");
    let refused = weirgate("load codel wan7 --json");
    let document: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
    assert!(document["error"].as_str().expect("why").contains("wan7"));
    let loaded =
        done("load codel wan0 target_ns=7ms --rate 2mbit --link adsl:bridged-vc-fcs --json");
    let document: Value = serde_json::from_str(&loaded).expect("JSON");
    assert_eq!(
        document,
        json!({"device": "wan0", "at": "root", "kind": "weir_codel"})
    );
    assert!(Path::new("/sys/fs/bpf/weirgate/codel/link").exists());
    let one = shown("wan0");
    assert_eq!(number(&one, "parameters", "target_ns"), 7_000_000);
    assert_eq!(one["rate_bytes_s"], 250_000);
    assert_eq!(one["link"]["framing"], "atm");
    let flow = net::bulk(0);
    thread::sleep(Duration::from_secs(2));
    let before_change = shown("wan0");
    done("change wan0 target_ns=50ms");
    let after = shown("wan0");
    thread::sleep(Duration::from_secs(1));
    let later = shown("wan0");
    assert_eq!(number(&later, "parameters", "target_ns"), 50_000_000);
    assert_eq!(one["rate_bytes_s"], later["rate_bytes_s"]);
    // Queued packets are still there, and every packet is accounted for.
    assert!(number(&before_change, "statistics", "queued_packets") > 0);
    assert!(number(&after, "statistics", "queued_packets") > 0);
    assert!(
        number(&later, "statistics", "arrived_packets")
            > number(&before_change, "statistics", "arrived_packets")
    );
    let text = done("show");
    assert!(
        text.contains("wan0: weir_codel") && text.contains("50ms"),
        "{text}"
    );
    let refusal = fails("load red wan0", 3);
    assert!(refusal.contains("--replace"), "{refusal}");
    done("load red wan0 --replace --rate 2mbit");
    assert_eq!(shown("wan0")["discipline"], "red");
    assert!(!Path::new("/sys/fs/bpf/weirgate/codel").exists());
    done("load red wan0 --replace limit_bytes=30kB --rate 1mbit");
    assert_eq!(shown("wan0")["rate_bytes_s"], 125_000);
    done("unload wan0");
    let _ = flow.shutdown(Shutdown::Both);
    assert!(fails("unload wan0", 2).contains("no discipline"));
    assert!(done("show").contains("no discipline"));
    settled(before);
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn classes_behind_the_gate() {
    let _far = Far::new(1);
    let before = objects();
    fails("load codel wan0 --class 1:10", 2);
    done(
        "load codel wan0 target_ns=9ms --rate 512kbit --link adsl:bridged-vc-fcs \
         --class 1:10,priority=0,guarantee=102kbit,queue=droptail \
         --class 1:30,priority=4",
    );
    let flow = net::bulk_in(0, 0x1_0030);
    let mut trips = net::probe(0, 0x1_0010, 60, Duration::from_millis(53));
    trips.sort();
    // At most one packet of 32 cells is ahead of the probe: 26.5 ms.
    assert!(trips[59] < Duration::from_micros(26_800), "{:?}", trips[59]);
    let text = done("show wan0 --json");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(all["queues"][1]["class"], "1:30");
    assert_eq!(all["queues"][0]["discipline"], "droptail");
    assert_eq!(
        number(&all["queues"][1], "parameters", "target_ns"),
        9_000_000
    );
    fails("change wan0 target_ns=20ms", 2);
    done("change wan0 target_ns=20ms --class 1:30");
    thread::sleep(Duration::from_secs(1));
    let text = done("show wan0 --json");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        number(&all["queues"][1], "parameters", "target_ns"),
        20_000_000
    );
    assert!(fails("change wan0 queue=pie --class 1:30", 2).contains("--replace"));
    assert!(fails("change wan0 weight=0 --class 1:30", 2).contains("1 to 1048576"));
    assert!(fails("record wan0 class.recording", 2).contains("1:10, 1:30"));
    assert!(fails("trace wan0 --class 1:20", 2).contains("1:10, 1:30"));
    let recorded = "record wan0 class.recording --class 1:30 --packets 200";
    assert!(done(recorded).contains("200 packets"));
    let replayed = done("replay codel class.recording");
    assert!(
        replayed.contains("the same verdict for every one"),
        "{replayed}"
    );
    assert!(done("trace wan0 --class 1:30 --packets 20").contains("arrive  keep"));
    done("unload wan0");
    let _ = flow.shutdown(Shutdown::Both);
    settled(before);
}

/// Two devices have one discipline with different parameters. One is unloaded under traffic: the
/// other continues, and only queued packets are lost.
#[test]
#[ignore = "runs in the lab's kernel"]
fn two_devices() {
    let _far = Far::new(2);
    let before = objects();
    done("load pie wan0 target_ns=20ms --rate 1mbit");
    done("load pie wan1 target_ns=5ms --rate 4mbit");
    let flows = [0, 0, 1, 1].map(net::bulk);
    thread::sleep(Duration::from_secs(5));
    let (slow, fast) = (shown("wan0"), shown("wan1"));
    assert_eq!(number(&slow, "parameters", "target_ns"), 20_000_000);
    assert_eq!(number(&fast, "parameters", "target_ns"), 5_000_000);
    let sent = |one: &Value| number(one, "statistics", "sent_wire_bytes");
    let ratio = sent(&fast) as f64 / sent(&slow) as f64;
    assert!((3.5..4.5).contains(&ratio), "{ratio}");
    // Every arrival was sent, dropped with a reason, or is among the lost ones.
    let arrived = far_packets(0);
    let last = shown("wan0");
    done("unload wan0");
    let queued = number(&last, "statistics", "queued_packets");
    println!("unloaded with about {queued} packets queued, {arrived} had arrived");
    assert!(queued > 0);
    thread::sleep(Duration::from_secs(3));
    assert!(far_packets(0) > arrived + 100, "traffic goes on without it");
    let later = shown("wan1");
    assert!(
        sent(&later) > sent(&fast) + 500_000,
        "the other one goes on"
    );
    done("unload wan1");
    for flow in flows {
        let _ = flow.shutdown(Shutdown::Both);
    }
    settled(before);
}

/// Returns the packets that left through a device.
pub fn far_packets(pair: u8) -> u64 {
    let path = format!("/sys/class/net/wan{pair}/statistics/tx_packets");
    let text = std::fs::read_to_string(path).expect("a device");
    text.trim().parse().expect("a number")
}

/// A recording of a live qdisc is replayed with the same verdicts, and other disciplines can
/// process its packets.
#[test]
#[ignore = "runs in the lab's kernel"]
fn trace_record_replay() {
    let _far = Far::new(1);
    let before = objects();
    done("load red wan0 limit_bytes=30kB min_bytes=5kB max_bytes=15kB --rate 4mbit");
    let flows = [0; 3].map(net::bulk);
    let text = done("record wan0 /run.recording --packets 3000");
    assert!(text.contains("3000 packets"), "{text}");
    let text = done("replay red /run.recording");
    println!("{text}");
    assert!(text.contains("the same verdict for every one"), "{text}");
    let text = done("replay codel /run.recording --rate 3mbit target_ns=5ms");
    println!("{text}");
    assert!(text.contains("arrived_packets"), "{text}");
    let text = done("trace wan0 --packets 200");
    println!("{}", text.lines().take(12).collect::<Vec<_>>().join("\n"));
    assert!(text.contains("arrive") && text.contains("depart"), "{text}");
    assert!(text.contains("average="), "{text}");
    // A damaged file is refused.
    let mut bytes = std::fs::read("/run.recording").expect("a file");
    let last = bytes.len() / 2;
    bytes[last] ^= 1;
    std::fs::write("/damaged", bytes).expect("a file");
    assert!(fails("replay red /damaged", 2).contains("checksum"));
    assert!(fails("replay red /proc/version", 2).contains("weirgate aqm recording"));
    for flow in flows {
        let _ = flow.shutdown(Shutdown::Both);
    }
    done("unload wan0");
    settled(before);
}

/// Runs weirgate; returns its output and exit status.
pub fn of_policy(words: &[&str]) -> (String, Option<i32>) {
    let output = Command::new("weirgate").args(words).output();
    let output = output.expect("weirgate");
    let text = [output.stdout, output.stderr].concat();
    (
        String::from_utf8_lossy(&text).into_owned(),
        output.status.code(),
    )
}

/// A discipline of the kit as the queue of a policy: applied, read back, changed in place without
/// loss of queued packets, replaced, removed.
#[test]
#[ignore = "runs in the lab's kernel"]
fn queues_of_a_policy() {
    let _far = Far::new(1);
    let before = objects();
    let write = |queue: &str| {
        let text = format!(
            "version = 1\n[link]\ndevice = \"wan0\"\nup = \"2mbit\"\n\
             layer = \"ethernet\"\nengine = \"kit\"\n\
             [[class]]\nname = \"all\"\nshare = \"50%\"\ndefault = true\nqueue = {queue}\n"
        );
        std::fs::write("/policy.toml", text).expect("a file");
    };
    let apply = || {
        let (text, status) = of_policy(&["apply", "/policy.toml"]);
        assert_eq!(status, Some(0), "{text}");
    };
    let meredt = |size: &str| {
        write(&format!(
            "{{ kind = \"meredt\", queue_bytes = \"{size}\", flows = \"pairs\" }}"
        ));
    };
    meredt("30kB");
    apply();
    let one = shown("wan0");
    assert_eq!(one["discipline"], "meredt");
    assert_eq!(number(&one, "parameters", "queue_bytes"), 30_000);
    assert_eq!(one["parameters"]["flows"]["text"], "pairs");
    let (text, status) = of_policy(&["plan", "/policy.toml"]);
    assert_eq!(status, Some(0), "{text}");
    // A change by another tool shows as a difference.
    let class = one["class"].as_str().expect("a class");
    done(&format!("change wan0 queue_bytes=40000 --class {class}"));
    let packets = net::probe(0, 0, 3, Duration::from_millis(10));
    assert_eq!(packets.len(), 3);
    let (text, status) = of_policy(&["plan", "/policy.toml"]);
    assert!(text.contains("queue_bytes=30000"), "{status:?}: {text}");
    let flows = [0; 3].map(net::bulk);
    thread::sleep(Duration::from_secs(3));
    let earlier = shown("wan0");
    assert!(number(&earlier, "statistics", "queued_packets") > 0);
    meredt("50kB");
    let (text, _) = of_policy(&["plan", "/policy.toml"]);
    assert!(
        text.contains("queue_bytes=50000") && !text.contains("empties"),
        "{text}"
    );
    apply();
    thread::sleep(Duration::from_secs(1));
    let later = shown("wan0");
    assert_eq!(number(&later, "parameters", "queue_bytes"), 50_000);
    let arrived = |one: &Value| number(one, "statistics", "arrived_packets");
    assert!(arrived(&later) > arrived(&earlier), "its counts go on");
    write("\"pie\"");
    let (text, _) = of_policy(&["plan", "/policy.toml"]);
    assert!(text.contains("empties the queue"), "{text}");
    apply();
    assert_eq!(shown("wan0")["discipline"], "pie");
    for flow in flows {
        let _ = flow.shutdown(Shutdown::Both);
    }
    let (text, status) = of_policy(&["remove"]);
    assert_eq!(status, Some(0), "{text}");
    settled(before);
}

/// The commands of docs/aqm-howto.md that need a device.
pub const HOWTO: [&str; 15] = [
    "weirgate aqm load mean/mean.so wan0 limit_packets=50 --rate 2mbit",
    "weirgate aqm show wan0",
    "weirgate aqm trace wan0 --packets 100",
    "weirgate aqm record wan0 evening.recording --packets 5000",
    "weirgate aqm replay mean evening.recording",
    "weirgate aqm replay mean evening.recording --rate 2mbit delay_ns=20ms",
    "weirgate aqm replay codel evening.recording --rate 2mbit target_ns=10ms",
    "weirgate aqm change wan0 limit_packets=20",
    "weirgate aqm unload wan0",
    "weirgate aqm load meredt wan0 preset=sjf flows=pairs --rate 2mbit",
    "weirgate aqm unload wan0",
    "weirgate aqm load mean/mean.so wan0 delay_ns=20ms --ingress --rate 10mbit",
    "weirgate aqm show wan0",
    "weirgate aqm change wan0 delay_ns=10ms --ingress --rate 9mbit",
    "weirgate aqm unload wan0 --ingress",
];

/// The folder in which the lab puts files that a test brings along.
pub const BROUGHT: &str = "/usr/sbin";

/// A discipline of the user's own is loaded from its file, then known by its name beside those of
/// the kit. Another version of it is not taken for the same.
#[test]
#[ignore = "runs in the lab's kernel"]
fn of_ones_own() {
    let _far = Far::new(2);
    let before = objects();
    let (first, second) = (
        format!("{BROUGHT}/mean.so"),
        format!("{BROUGHT}/other/mean.so"),
    );
    std::fs::create_dir_all(format!("{BROUGHT}/other")).expect("a folder");
    std::fs::rename(format!("{BROUGHT}/changed.so"), &second).expect("a file");
    assert!(fails("load mean wan0", 2).contains("your own by its folder"));
    assert!(fails("load /proc/version wan0", 2).contains("no discipline"));
    done(&format!("load {first} wan0 limit_packets=9 --rate 2mbit"));
    let one = shown("wan0");
    assert_eq!(one["discipline"], "mean");
    assert_eq!(number(&one, "parameters", "limit_packets"), 9);
    // From here on it is loaded by its name; the file may be removed.
    std::fs::rename(&first, "/moved.so").expect("a file");
    done("load mean wan1 --rate 1mbit");
    assert!(done("list mean").contains("limit_packets"));
    assert!(done("show").contains("wan1: weir_mean"));
    assert!(fails(&format!("load {second} wan1 --replace"), 2).contains("another version"));
    let text = fails(
        "load codel wan1 --replace --rate 1mbit --class 1:10,queue=mean",
        2,
    );
    assert!(text.contains("`mean` cannot be a class's queue"), "{text}");
    let flow = net::bulk(0);
    thread::sleep(Duration::from_secs(2));
    let busy = shown("wan0");
    assert!(number(&busy, "statistics", "sent_packets") > 200);
    assert!(number(&busy, "statistics", "queued_packets") <= 9);
    let _ = flow.shutdown(Shutdown::Both);
    done("unload wan0");
    done("unload wan1");
    settled(before);
    assert!(!Path::new("/run/weirgate/aqm/mean.so").exists());
    done(&format!("load {second} wan0"));
    assert_eq!(number(&shown("wan0"), "parameters", "limit_packets"), 7);
    done("unload wan0");
    settled(before);
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn howto() {
    let _far = Far::new(1);
    std::fs::create_dir_all("mean").expect("a folder");
    std::fs::copy(format!("{BROUGHT}/mean.so"), "mean/mean.so").expect("a file");
    let flows = [0; 3].map(net::bulk);
    for line in HOWTO {
        done(line.strip_prefix("weirgate aqm ").expect("a command"));
    }
    for flow in flows {
        let _ = flow.shutdown(Shutdown::Both);
    }
}
