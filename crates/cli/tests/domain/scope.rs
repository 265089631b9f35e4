// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receivers that a promise holds for, and classification by ports. Packets of both IP versions
//! pass three routers and are counted by code point on arrival.

use crate::inside::{SSH, domain};
use crate::topology::run;
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::Duration;

const FILE: &str = "/run/scope.toml";
const DOMAIN: &str = include_str!("../../../domain/tests/domains/scope.toml");

/// Packets of 200 bytes to a port of a customer, and how many of them arrive with which code point.
struct Case {
    to: &'static str,
    port: u16,
    /// The code point with which they are sent.
    brings: u8,
    packets: u64,
    /// The name of the code point with which they arrive.
    arrive: &'static str,
    least: u64,
}

const fn all(to: &'static str, port: u16, brings: u8, packets: u64, arrive: &'static str) -> Case {
    Case {
        to,
        port,
        brings,
        packets,
        arrive,
        least: packets,
    }
}

const EF: u8 = 46;
const AF11: u8 = 10;
const CS5: u8 = 40;

const CASES: [Case; 12] = [
    all("beta", 11, EF, 10, "ef"),
    all("gamma", 12, EF, 10, "cs0"),
    all("beta", 13, AF11, 10, "af11"),
    all("gamma", 14, AF11, 10, "cs0"),
    all("gamma", 15, CS5, 10, "cs5"),
    all("beta", 16, CS5, 10, "cs0"),
    // These are classified by the service's ports, whatever their code point, and only for its
    // receiver.
    all("beta", 5060, 0, 5, "ef"),
    all("beta", 16384, AF11, 5, "ef"),
    all("gamma", 5060, 0, 10, "cs0"),
    all("gamma", 16384, EF, 10, "cs0"),
    all("beta", 5062, 0, 10, "cs0"),
    // Packets above the profile, which has room for five at once, are dropped.
    Case {
        least: 5,
        ..all("beta", 5061, 0, 40, "ef")
    },
];

/// The packets that the profile admits in addition while a burst of 40 packets is sent.
const MORE: u64 = 3;

const CODES: [&str; 4] = ["ef", "af11", "cs5", "cs0"];

/// Counts the packets that arrive at a customer by IP version, port and code point.
fn count_at(customer: &str) {
    let mut names = String::new();
    let mut rules = String::new();
    for case in CASES.iter().filter(|case| case.to == customer) {
        for (version, family) in [(4, "ip"), (6, "ip6")] {
            for code in CODES {
                let name = format!("v{version}_{}_{code}", case.port);
                let _ = writeln!(names, " counter {name} {{ }}");
                let port = case.port;
                let _ = writeln!(
                    rules,
                    "  udp dport {port} {family} dscp {code} counter name {name}"
                );
            }
        }
    }
    let table = format!(
        "table inet seen {{\n{names} chain arriving {{\n  type filter hook input priority 0;\n\
         {rules} }}\n}}\n"
    );
    let file = format!("/run/{customer}.nft");
    fs::write(&file, table).unwrap();
    run(&format!("ip netns exec {customer} nft -f {file}"));
}

fn counted(customer: &str) -> BTreeMap<String, u64> {
    let text = run(&format!("ip netns exec {customer} nft list counters"));
    let counters = text.split("counter ").skip(1);
    let each = counters.map(|one| {
        let (name, rest) = one.split_once(' ').unwrap();
        let number = rest.split_once("packets ").unwrap().1;
        let number = number.split(' ').next().unwrap();
        (name.to_owned(), number.parse().unwrap())
    });
    each.collect()
}

/// Sends the packets of every case; the test itself runs this in alfa's namespace.
#[test]
#[ignore = "a part of the next"]
fn sender() {
    for (number, networks) in [
        (4, ["10.2.0.1", "10.3.0.1"]),
        (6, ["2001:db8:2::1", "2001:db8:3::1"]),
    ] {
        for case in &CASES {
            let to = networks[usize::from(case.to == "gamma")].parse().unwrap();
            let to = SocketAddr::new(to, case.port);
            let (own, payload) = match number {
                4 => ("0.0.0.0:0", 172),
                _ => ("[::]:0", 152),
            };
            let socket = UdpSocket::bind(own).unwrap();
            if number == 4 {
                sockopt::set_ip_tos(&socket, case.brings << 2).unwrap();
            } else {
                sockopt::set_ipv6_tclass(&socket, u32::from(case.brings) << 2).unwrap();
            }
            for _ in 0..case.packets {
                socket.send_to(&vec![0; payload], to).unwrap();
            }
            // Wait until every token bucket is full again.
            sleep(Duration::from_millis(400));
        }
    }
}

#[test]
#[ignore = "runs in the guest"]
fn receivers_and_ports() {
    fs::write(FILE, DOMAIN).unwrap();
    run(&format!("weirgate-lab domain inside {FILE} --only-build"));
    let (status, text) = domain(&["apply", FILE, "--ssh", SSH]);
    assert_eq!(status, 0, "{text}");
    for customer in ["beta", "gamma"] {
        count_at(customer);
    }
    let own = std::env::current_exe().unwrap();
    run(&format!(
        "ip netns exec alfa {} --exact scope::sender --ignored -q",
        own.display()
    ));
    let seen: BTreeMap<&str, _> = ["beta", "gamma"].map(|name| (name, counted(name))).into();
    println!(
        "{}",
        run("ip netns exec west weirgate flows --conditioners")
    );
    for case in &CASES {
        for version in [4, 6] {
            let of = |code: &str| seen[case.to][&format!("v{version}_{}_{code}", case.port)];
            let codes: Vec<String> = CODES.map(|code| format!("{code} {}", of(code))).to_vec();
            println!(
                "IPv{version}, {} port {}, {} packets with code point {}: {}",
                case.to,
                case.port,
                case.packets,
                case.brings,
                codes.join(", ")
            );
            let arrived = of(case.arrive);
            let most = if case.least < case.packets {
                case.least + MORE
            } else {
                case.packets
            };
            assert!((case.least..=most).contains(&arrived), "{arrived}");
            let others = CODES.iter().filter(|code| **code != case.arrive);
            assert_eq!(others.map(|code| of(code)).sum::<u64>(), 0);
        }
    }

    // Measure the same promises. Selected packets are sent without a code point, from and to the
    // service's ports, as datagrams and as a connection.
    let verify = ["verify", FILE, "--ssh", SSH, "--time", "2s"];
    let (status, text) = domain(&[&verify[..], &["--beside", "3mbit"]].concat());
    println!("{text}");
    assert_eq!(status, 0, "{text}");
    assert!(
        text.contains("Everything that was promised is kept."),
        "{text}"
    );
    // A program that occupies all ports of a service is reported.
    let taken = "/run/taken.toml";
    fs::write(
        taken,
        DOMAIN.replace("\"5060-5061\", \"16384\"", "\"5060\""),
    )
    .unwrap();
    let holder = std::process::Command::new("ip")
        .args(["netns", "exec", "beta"])
        .arg(&own)
        .args(["--exact", "scope::holder", "--ignored", "-q"])
        .spawn();
    let mut holder = holder.unwrap();
    sleep(Duration::from_secs(1));
    let (status, text) = domain(&[
        "verify",
        taken,
        "--ssh",
        SSH,
        "--time",
        "1s",
        "--measure-only",
    ]);
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(status, 1, "{text}");
    assert!(
        text.contains("beta: something else has all of its `ports`"),
        "{text}"
    );
}

/// Occupies a port until it is killed; the test itself runs this in beta's namespace.
#[test]
#[ignore = "a part of the one before"]
fn holder() {
    let _port = UdpSocket::bind("10.2.0.1:5060").unwrap();
    sleep(Duration::from_mins(10));
}
