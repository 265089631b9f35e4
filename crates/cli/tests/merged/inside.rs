// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of the tests that run in the guest:
//!
//! ```text
//! host - lan[router]wan - isp
//! ```
//!
//! The devices of host and isp keep their offloads, so their TCP sends up to 64 KB as one packet.

use crate::net::{run, thread_in};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_compile::{FullQueue, check_report};
use weirgate_policy::Direction;

/// Each namespace with its address.
const HOST: (&str, &str) = ("host", "192.168.1.2");
const ISP: (&str, &str) = ("isp", "192.0.2.2");
/// Ports: a datagram to `FIRST` is of class `first`, one to `REST` of the default class, beside
/// uploads to `SINK`. Both are echoed.
const FIRST: u16 = 7;
const REST: u16 = 8;
const SINK: u16 = 9;
const UPLOADS: usize = 4;
/// Probes of each class, and the time between them. It is no multiple of a packet's time.
const PROBES: u32 = 120;
const GAP: Duration = Duration::from_micros(23_170);

/// Builds the namespaces again, with servers in both.
fn build() {
    for (name, _) in [HOST, ISP] {
        // It may be left from another test.
        let _ = Command::new("ip").args(["netns", "del", name]).output();
    }
    for device in ["lan", "wan"] {
        let gone = || !fs::exists(format!("/sys/class/net/{device}")).unwrap();
        while !gone() {
            thread::sleep(Duration::from_millis(10));
        }
    }
    for (device, near, (name, far)) in [("lan", "192.168.1.1", HOST), ("wan", "192.0.2.1", ISP)] {
        for line in [
            format!("ip netns add {name}"),
            format!("ip link add {device} type veth peer name eth0 netns {name}"),
            format!("ip addr add {near}/24 dev {device}"),
            format!("ip link set {device} up"),
            format!("ip -n {name} addr add {far}/24 dev eth0"),
            format!("ip -n {name} link set lo up"),
            format!("ip -n {name} link set eth0 up"),
            format!("ip -n {name} route add default via {near}"),
        ] {
            run(&line);
        }
        serve(name);
    }
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
}

fn serve(name: &str) {
    let (ready, listens) = std::sync::mpsc::channel();
    for port in [FIRST, REST] {
        let ready = ready.clone();
        thread_in(name, move || {
            let socket = UdpSocket::bind(("0.0.0.0", port)).unwrap();
            ready.send(()).unwrap();
            let mut room = [0; 2_048];
            while let Ok((length, from)) = socket.recv_from(&mut room) {
                let _ = socket.send_to(&room[..length], from);
            }
        });
    }
    thread_in(name, move || {
        let listener = TcpListener::bind(("0.0.0.0", SINK)).unwrap();
        ready.send(()).unwrap();
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut room = vec![0; 1 << 16];
                while stream.read(&mut room).is_ok_and(|length| length > 0) {}
            });
        }
    });
    for _ in 0..3 {
        listens.recv().unwrap();
    }
}

/// Returns a policy in which a datagram to port [`FIRST`] is urgent.
fn policy(direction: Direction, rate: &str, merged: &str) -> String {
    let (rates, port) = match direction {
        Direction::Up => (format!("up = \"{rate}\""), "remote-port"),
        Direction::Down => (
            format!("up = \"{rate}\"\ndown = \"{rate}\"\ninbound = \"lan\""),
            "local-port",
        ),
    };
    format!(
        "version = 1\n[link]\ndevice = \"wan\"\nlan = \"lan\"\n{rates}\nlayer = \"ethernet\"\n\
         {merged}\n[[class]]\nname = \"first\"\nshare = \"20%\"\npriority = 0\nqueue = \"pfifo \
         50\"\n[[class]]\nname = \"rest\"\nshare = \"80%\"\npriority = 4\ndefault = true\nqueue = \
         \"pfifo 50\"\n[[rule]]\nclass = \"first\"\nprotocol = \"udp\"\n{port} = {FIRST}\n"
    )
}

const CUT: &str = "merged = \"cut\"";

/// Runs weirgate; returns its output. `plan` and `doctor` have a status that says what they found.
#[track_caller]
fn weirgate(line: &str) -> String {
    let output = Command::new("weirgate").args(line.split(' ')).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let judges = line.starts_with("plan") || line.starts_with("doctor");
    assert!(output.status.success() || judges, "{line}: {text}");
    text
}

#[track_caller]
fn apply(policy: &str) -> String {
    fs::write("/tmp/site.toml", policy).unwrap();
    let text = weirgate("apply /tmp/site.toml");
    let plan = weirgate("plan /tmp/site.toml");
    assert!(plan.contains("nothing to change"), "{plan}");
    text
}

/// The longest waits that `check` states: of a packet alone in class `first`, and of one that takes
/// the last place of the default class.
fn stated(policy: &str, direction: Direction) -> [f64; 2] {
    let (parsed, problems) = weirgate_policy::parse(policy);
    let report = check_report(&parsed.unwrap_or_else(|| panic!("{problems:?}")));
    let all = report.directions.iter();
    let own = all
        .filter(|one| one.direction == direction)
        .flat_map(|one| &one.classes);
    let waits: Vec<f64> = own
        .map(|class| {
            let FullQueue::Bound(full) = &class.full else {
                panic!("no bound for {}", class.name);
            };
            let lone = class.lone.as_ref().unwrap();
            let bound = if class.default { full } else { lone };
            bound.wait.as_millis_f64()
        })
        .collect();
    waits.try_into().unwrap()
}

/// Sends probes and returns the round-trip time of each, in milliseconds. A lost one has none.
fn probe(from: &str, to: &str, port: u16, count: u32) -> thread::JoinHandle<Vec<f64>> {
    let to = (to.to_owned(), port);
    thread_in(from, move || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect((&*to.0, to.1)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        let begin = Instant::now();
        let receiver = socket.try_clone().unwrap();
        let sender = thread::spawn(move || {
            for number in 0..count {
                let at = begin.elapsed().as_nanos() as u64;
                let bytes = at.to_be_bytes();
                // A full queue drops it.
                let _ = socket.send(&[&bytes[..], &[0; 48]].concat());
                thread::sleep(GAP + Duration::from_micros(u64::from(number % 7) * 311));
            }
        });
        let mut times = Vec::new();
        let mut room = [0; 128];
        while receiver.recv(&mut room).is_ok() {
            let sent = u64::from_be_bytes(*room.first_chunk().unwrap());
            times.push((begin.elapsed().as_nanos() as u64 - sent) as f64 / 1e6);
        }
        sender.join().unwrap();
        times
    })
}

fn longest(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}

/// Measures the longest waits of probes of both classes beside uploads, without the time that a
/// round trip takes on an idle link.
fn waits((from, _): (&str, &str), (_, to): (&str, &str)) -> [f64; 2] {
    let idle = probe(from, to, FIRST, 20).join().unwrap();
    let least = idle.iter().copied().fold(f64::INFINITY, f64::min);
    let stop = Arc::new(AtomicBool::new(false));
    let uploads: Vec<_> = (0..UPLOADS)
        .map(|_| {
            let (stop, to) = (Arc::clone(&stop), to.to_owned());
            thread_in(from, move || {
                let mut stream = TcpStream::connect((&*to, SINK)).unwrap();
                let data = vec![0; 1 << 16];
                while !stop.load(Ordering::Relaxed) && stream.write_all(&data).is_ok() {}
            })
        })
        .collect();
    thread::sleep(Duration::from_secs(1));
    let probes = [FIRST, REST].map(|port| probe(from, to, port, PROBES));
    let times = probes.map(|one| one.join().unwrap());
    assert!(
        times[0].len() == PROBES as usize,
        "lost of class first: {}",
        times[0].len()
    );
    assert!(
        times[1].len() > PROBES as usize / 4,
        "left of the default class: {}",
        times[1].len()
    );
    stop.store(true, Ordering::Relaxed);
    for one in uploads {
        one.join().unwrap();
    }
    // What is still queued leaves.
    thread::sleep(Duration::from_secs(1));
    times.map(|times| longest(&times) - least)
}

/// Asserts that the stated bounds hold with cut packets, and that whole ones break them.
fn bounds(direction: Direction, rate: &str) {
    let (from, to) = match direction {
        Direction::Up => (HOST, ISP),
        Direction::Down => (ISP, HOST),
    };
    let [whole, cut] = ["", CUT].map(|merged| {
        let policy = policy(direction, rate, merged);
        apply(&policy);
        let (stated, seen) = (stated(&policy, direction), waits(from, to));
        println!(
            "{direction} {rate} {merged:14}: first {:.3} ms of {:.3}, full {:.2} ms of {:.2}",
            seen[0], stated[0], seen[1], stated[1]
        );
        (stated, seen)
    });
    assert!(whole.1[0] > whole.0[0], "whole: {whole:?}");
    for number in 0..2 {
        assert!(cut.1[number] <= cut.0[number], "cut: {cut:?}");
    }
}

#[test]
#[ignore = "runs in the guest"]
fn bounds_of_uploads() {
    build();
    for rate in ["8mbit", "50mbit"] {
        bounds(Direction::Up, rate);
    }
    weirgate("remove");
}

#[test]
#[ignore = "runs in the guest"]
fn bounds_of_downloads() {
    build();
    bounds(Direction::Down, "8mbit");
    weirgate("remove");
}

/// Returns the facts of doctor's findings about merged packets.
fn told() -> Vec<String> {
    let text = weirgate("doctor --json");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let own = findings.iter().filter(|one| one["code"] == "merged");
    own.map(|one| {
        let [severity, subject, fact] =
            ["severity", "subject", "fact"].map(|part| one[part].as_str().unwrap());
        format!("{severity}: {subject}: {fact}")
    })
    .collect()
}

#[test]
#[ignore = "runs in the guest"]
fn changes_and_repairs() {
    build();
    let before = ["ip -d link show", "nft list ruleset", "tc qdisc show"].map(run);
    apply(&policy(Direction::Up, "8mbit", ""));
    assert_eq!(
        told(),
        ["warning: lan: packets can come merged by lan (veth), and nothing cuts them"]
    );
    let classes = run("tc class show dev wan");
    let steps = apply(&policy(Direction::Up, "8mbit", CUT));
    println!("{steps}");
    assert!(
        !steps.contains("wan"),
        "it changes more than the detour: {steps}"
    );
    assert_eq!(run("tc class show dev wan"), classes);
    assert_eq!(
        told(),
        ["note: lan: packets can come merged by lan (veth); cut-lan cuts them"]
    );
    for line in [
        "nft delete table netdev weirgate_cut_lan",
        "ip link set cut-lan gso_max_segs 65535",
        "ethtool -K cut-lan tso on",
        "tc qdisc del dev cut-lan root",
        "ip link del cut-lan",
    ] {
        run(line);
        let plan = weirgate("plan /tmp/site.toml");
        assert!(plan.contains("cut"), "after `{line}`: {plan}");
        apply(&policy(Direction::Up, "8mbit", CUT));
    }
    apply(&policy(Direction::Up, "8mbit", ""));
    assert!(!run("ip link show").contains("cut-lan"));
    assert!(!run("nft list ruleset").contains("cut"));
    weirgate("remove");
    let after = ["ip -d link show", "nft list ruleset", "tc qdisc show"].map(run);
    assert_eq!(after, before);
}

/// Prints the time that small datagrams take from a host to the isp. Every step of their way runs
/// within the system call that sends them, and an instruction takes a nanosecond of the guest.
#[test]
#[ignore = "runs in the guest"]
fn cost() {
    const COUNT: u32 = 5_000;
    build();
    let each = ["", CUT].map(|merged| {
        apply(&policy(Direction::Up, "1000mbit", merged));
        let send = || {
            thread_in(HOST.0, || {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.connect((ISP.1, 4_000)).unwrap();
                let begin = Instant::now();
                for _ in 0..COUNT {
                    let _ = socket.send(&[0; 100]);
                }
                begin.elapsed() / COUNT
            })
        };
        // The first round fills caches.
        send().join().unwrap();
        send().join().unwrap()
    });
    println!("a packet takes {:?} whole and {:?} cut", each[0], each[1]);
}
