// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A domain whose routers distinguish drop precedences and importance. A customer within his
//! contract loses nothing beside one who sends far above his.

use crate::inside::{SSH, domain};
use crate::topology::run;
use rustix::net::sockopt;
use std::fmt::Write as _;
use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const DOMAIN: &str = r#"
version = 1
[router.west]
role = "boundary"
engine = "kit"
[router.east]
role = "boundary"
engine = "kit"
[[link]]
between = ["west", "east"]
devices = ["east", "west"]
rate = "4mbit"
[class.voice]
behaviour = "EF"
share = "10%"
[class.gold]
behaviour = "AF1"
share = "40%"
[class.film]
behaviour = "RT"
share = "25%"
[class.rest]
behaviour = "DF"
share = "25%"
[customer.alfa]
router = "west"
device = "alfa"
rate = "20mbit"
host = "alfa"
address = "10.1.0.2"
[customer.greedy]
router = "west"
device = "greedy"
rate = "20mbit"
host = "greedy"
address = "10.1.1.2"
[customer.beta]
router = "east"
device = "beta"
rate = "20mbit"
host = "beta"
address = "10.1.2.2"
"#;

/// The class, the code point of its packets, the rate of each of two contracts, and the rate of the
/// greedy customer, in kbit/s.
const LEVELLED: [(&str, u8, u64, u64); 2] = [("gold", 10, 700, 3000), ("film", 49, 400, 2000)];

const PACKET: usize = 1000;

fn whole() -> String {
    let mut text = DOMAIN.to_owned();
    for (class, _, rate, _) in LEVELLED {
        for from in ["alfa", "greedy"] {
            let _ = write!(
                text,
                "[[service]]\nname = \"{class}-of-{from}\"\nfrom = \"{from}\"\nto = \"beta\"\n\
                 class = \"{class}\"\nrate = \"{rate}kbit\"\npacket = \"{PACKET}B\"\n\
                 burst = \"{}B\"\nloss = \"0%\"\n",
                3 * PACKET
            );
        }
    }
    text
}

#[test]
#[ignore = "runs in the guest"]
fn beyond_contracts() {
    let file = "/run/levels.toml";
    fs::write(file, whole()).unwrap();
    run(&format!("weirgate-lab domain inside {file} --only-build"));
    let (status, text) = domain(&["check", file]);
    assert_eq!(status, 0, "{text}");
    let (status, text) = domain(&["apply", file, "--ssh", SSH]);
    assert_eq!(status, 0, "{text}");
    let kinds = run("tc -n west qdisc show dev east");
    assert!(kinds.contains("weir_"), "{kinds}");

    let own = std::env::current_exe().unwrap();
    let senders = LEVELLED.map(|(class, ..)| {
        Command::new("ip")
            .args(["netns", "exec", "greedy"])
            .arg(&own)
            .args(["levels::greedy", "--exact", "--ignored"])
            .env("WEIRGATE_TEST_CLASS", class)
            .spawn()
            .unwrap()
    });
    let before = counted();
    sleep(Duration::from_secs(3));
    // Packets above the contract are admitted, and dropped if they exceed the link. Only the greedy
    // customer sends so far.
    let dropped = counted() - before;
    println!("{dropped} packets dropped at the link");
    assert!(dropped > 200, "{dropped}");
    let (status, text) = domain(&[
        "verify", file, "--ssh", SSH, "--time", "5s", "--beside", "3mbit",
    ]);
    println!("{text}");
    for mut sender in senders {
        sender.kill().unwrap();
        sender.wait().unwrap();
    }
    // The greedy customer cannot get all that he sends.
    assert_eq!(status, 1, "{text}");
    for (class, ..) in LEVELLED {
        let name = format!("{class}-of-alfa");
        let line = text.lines().find(|line| line.contains(&name)).unwrap();
        assert!(line.contains("kept since"), "{line}");
    }
}

/// Returns the packets that the queues of the link from `west` dropped.
fn counted() -> u64 {
    let text = run("tc -s -n west qdisc show dev east");
    let dropped = text.split("dropped ").skip(1);
    let numbers = dropped.filter_map(|one| one.split([',', ' ', ')']).next()?.parse::<u64>().ok());
    numbers.sum()
}

/// Sends more than the contract until it is killed.
#[test]
#[ignore = "a part of the one before"]
fn greedy() {
    let class = std::env::var("WEIRGATE_TEST_CLASS").unwrap();
    let (_, code, _, rate) = LEVELLED.into_iter().find(|one| one.0 == class).unwrap();
    let socket = UdpSocket::bind("10.1.1.2:0").unwrap();
    sockopt::set_ip_tos(&socket, code << 2).unwrap();
    let bits = PACKET as u64 * 8;
    let each = Duration::from_nanos(bits * 1_000_000 / rate);
    let mut due = Instant::now();
    loop {
        due += each;
        sleep(due.saturating_duration_since(Instant::now()));
        // No process receives these packets.
        let _ = socket.send_to(&[0; PACKET - 28], "10.1.2.2:9");
    }
}
