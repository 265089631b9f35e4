// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part that runs in the guest, ignored elsewhere.

use crate::medium::Medium;
use rustix::net::sockopt::set_ip_tos;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_testing::run;

/// The rate of the air in bit/s, without the overhead of each frame.
const AIR: u64 = 12_000_000;

/// The other radio's address, its echo port, and a port that nobody reads.
const FAR: &str = "10.9.0.2";
const ECHO: u16 = 7;
const SINK: u16 = 9;

const EF_BYTE: u8 = 46 << 2;

/// The round trip that a lost echo counts as.
const LONGEST: Duration = Duration::from_millis(400);

fn enter(space: &str) {
    let file = File::open(format!("/run/netns/{space}")).unwrap();
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

/// Creates two radios in one ad hoc network; the second is in its own namespace.
fn radios() {
    run("modprobe mac80211_hwsim");
    run("ip netns add far");
    run("iw phy phy1 set netns name far");
    for (space, device, host) in [("", "wlan0", 1), ("-n far ", "wlan1", 2)] {
        let within = if space.is_empty() {
            ""
        } else {
            "ip netns exec far "
        };
        run(&format!("{within}iw dev {device} set type ibss"));
        run(&format!("ip {space}link set {device} up"));
        run(&format!("ip {space}addr add 10.9.0.{host}/24 dev {device}"));
        run(&format!(
            "{within}iw dev {device} ibss join cell 2412 fixed-freq 02:11:22:33:44:55"
        ));
    }
    thread::spawn(|| {
        enter("far");
        let socket = UdpSocket::bind((FAR, ECHO)).unwrap();
        let mut room = [0; 2_048];
        while let Ok((length, from)) = socket.recv_from(&mut room) {
            let _ = socket.send_to(&room[..length], from);
        }
    });
}

/// Returns the round trip of an urgent packet, or `None` if no answer arrives in time.
fn echo(socket: &UdpSocket, number: u32) -> Option<Duration> {
    let begun = Instant::now();
    socket.send_to(&number.to_be_bytes(), (FAR, ECHO)).unwrap();
    let mut room = [0; 16];
    loop {
        let length = socket.recv(&mut room).ok()?;
        // A late answer to an earlier packet is ignored.
        if room[..length] == number.to_be_bytes() {
            return Some(begun.elapsed());
        }
    }
}

/// Returns the 95th percentile of urgent echoes beside a flood, and the flood's rate in bit/s.
fn beside_a_flood() -> (Duration, f64) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let flood = thread::spawn(move || {
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        while !stopped.load(Ordering::Relaxed) {
            // This is 16 Mbit/s.
            for _ in 0..2 {
                let _ = socket.send_to(&[0; 1_000], (FAR, SINK));
            }
            thread::sleep(Duration::from_millis(1));
        }
    });
    thread::sleep(Duration::from_secs(1));
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    set_ip_tos(&socket, EF_BYTE).unwrap();
    let longest = LONGEST;
    socket.set_read_timeout(Some(longest)).unwrap();
    let (from, begun) = (received(), Instant::now());
    let mut times: Vec<Duration> = (0..40)
        .map(|number| {
            thread::sleep(Duration::from_millis(20));
            echo(&socket, number).unwrap_or(longest)
        })
        .collect();
    let had = (received() - from) as f64 * 8.0 / begun.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    flood.join().unwrap();
    // Let the queue drain before the next arm.
    thread::sleep(Duration::from_secs(1));
    times.sort_unstable();
    (times[37], had)
}

/// Returns the bytes that the far radio's device has received.
fn received() -> u64 {
    let text = run("ip -n far -s -j link show wlan1");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value[0]["stats64"]["rx"]["bytes"].as_u64().unwrap()
}

fn policy(up: &str) -> String {
    format!(
        "version = 1\n[link]\ndevice = \"wlan0\"\nup = \"{up}\"\nlayer = \"ethernet\"\n\
         [[class]]\nname = \"urgent\"\nshare = \"20%\"\npriority = 0\n\
         [[class]]\nname = \"rest\"\nshare = \"80%\"\npriority = 1\ndefault = true\n\
         [[rule]]\nclass = \"urgent\"\ndscp = [\"EF\"]\n"
    )
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn a_gate_before_a_radio() {
    radios();
    let air = Medium::start(2, AIR);
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let joined = (0..30).any(|number| echo(&socket, 1_000 + number).is_some());
    assert!(joined, "the radios do not hear each other");
    let root = run("tc qdisc show dev wlan0");
    println!("without weirgate: {}", root.trim());
    let mut measured = Vec::new();
    for up in [None, Some("24mbit"), Some("8mbit")] {
        if let Some(up) = up {
            fs::write("/tmp/site.toml", policy(up)).unwrap();
            run("weirgate apply /tmp/site.toml");
        }
        let (wait, had) = beside_a_flood();
        println!(
            "gate {}: urgent echoes {:.1} ms (95 %), {:.2} Mbit/s",
            up.unwrap_or("none"),
            wait.as_secs_f64() * 1e3,
            had / 1e6
        );
        measured.push((wait, had));
    }
    let [without, above, below] = measured[..] else {
        unreachable!("three arms");
    };
    // The radio's own queue, behind the gate, gives urgent packets no preference.
    let short = Duration::from_millis(20);
    assert!(without.0 > short && above.0 > short, "{measured:?}");
    // With a gate below the radio's rate, that queue stays short.
    assert!(below.0 < short, "{measured:?}");
    assert!((below.1 - 8e6).abs() < 0.1 * 8e6, "{measured:?}");
    // If the radio becomes slower than the gate, its queue fills again.
    air.set(AIR / 3);
    let slower = beside_a_flood();
    println!(
        "gate 8mbit, a third of the air: {:.1} ms, {:.2} Mbit/s",
        slower.0.as_secs_f64() * 1e3,
        slower.1 / 1e6
    );
    assert!(slower.0 > short, "{slower:?}");
    let text = Command::new("weirgate")
        .args(["doctor", "/tmp/site.toml"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let told = text.lines().find(|line| line.contains("radio"));
    println!("{}", told.unwrap_or_default());
    assert!(text.contains("while it carries less than"), "{text}");
    run("weirgate remove");
}
