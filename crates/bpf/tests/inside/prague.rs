// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests TCP Prague under real TCP: the far side acknowledges after a delay, and a middlebox here
//! marks outgoing packets.

mod queue;

use super::net::{self, Far};
use super::seconds;
use rustix::net::sockopt::set_tcp_congestion;
use rustix::net::{AddressFamily, SocketType, connect, socket};
use std::fs;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use weirgate_bpf::{Middlebox, MiddleboxCount, Prague, PragueState};

/// Indices of ECN fields.
const NOT_ECT: usize = 0;
const ECT_1: usize = 1;
const ECT_0: usize = 2;

/// The ECN feedback of the far side: the kernel's `tcp_ecn`.
const ACCURATE: &str = "sysctl net/ipv4/tcp_ecn=5";
const RFC_3168: &str = "sysctl net/ipv4/tcp_ecn=2";
const NONE: &str = "sysctl net/ipv4/tcp_ecn=0";

/// A far side, the congestion control, and the middlebox on every device.
struct Stand {
    prague: Prague,
    middlebox: Middlebox,
    _far: Far,
}

impl Stand {
    fn new(pairs: u8, commands: &'static [&'static str]) -> Self {
        let mut stand = Self::bare(pairs, commands);
        for pair in 0..pairs {
            let device = device(pair);
            stand.prague.attach(device).expect("a device");
            stand.middlebox.attach(device).expect("a device");
        }
        stand
    }

    /// Makes it without programs on its devices.
    fn bare(pairs: u8, commands: &'static [&'static str]) -> Self {
        Self {
            _far: Far::with(pairs, commands),
            prague: Prague::load().unwrap_or_else(|error| panic!("{error}")),
            middlebox: Middlebox::load().unwrap_or_else(|error| panic!("{error}")),
        }
    }

    fn mark_every(&self, packets: u32) {
        self.middlebox.mark_every(packets).expect("a map");
    }

    fn state(&self, connection: &TcpStream) -> PragueState {
        let state = self.prague.state(connection).expect("a map");
        state.expect("a connection of Prague")
    }

    fn count(&self, pair: u8, connection: &TcpStream) -> MiddleboxCount {
        let port = connection.local_addr().expect("an address").port();
        let count = self.middlebox.count(device(pair), port);
        count.expect("a map")
    }
}

fn device(pair: u8) -> u32 {
    net::ifindex(&format!("wan{pair}"))
}

/// Returns a connection to port 9 of the far side of a pair, with this congestion control, before
/// it sends.
fn connected(pair: u8, control: &str) -> TcpStream {
    connected_to(&format!("10.0.{pair}.2:9"), control)
}

fn connected_to(address: &str, control: &str) -> TcpStream {
    let address: SocketAddr = address.parse().expect("an address");
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let new = socket(family, SocketType::STREAM, None).expect("a socket");
    set_tcp_congestion(&new, control).unwrap_or_else(|error| panic!("{control}: {error}"));
    connect(&new, &address).expect("a connection");
    TcpStream::from(new)
}

/// A connection that sends endlessly, until it is dropped.
struct Bulk(TcpStream);

impl Bulk {
    fn new(pair: u8) -> Self {
        Self::of(connected(pair, Prague::NAME))
    }

    fn of(connection: TcpStream) -> Self {
        let mut sender = connection.try_clone().expect("a handle");
        thread::spawn(move || while sender.write_all(&[7; 16_384]).is_ok() {});
        Self(connection)
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

fn controls() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("a setting")
}

fn is_there() -> bool {
    controls().split_whitespace().any(|one| one == Prague::NAME)
}

/// Returns the kernel's slow start threshold.
fn slow_start_threshold(connection: &TcpStream) -> u32 {
    let mut size = size_of::<libc::tcp_info>() as u32;
    #[expect(unsafe_code, reason = "std has no such socket option")]
    // SAFETY: the kernel writes at most `size` bytes of a structure of numbers.
    let info = unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let status = libc::getsockopt(
            connection.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut size,
        );
        assert_eq!(status, 0);
        info
    };
    info.tcpi_snd_ssthresh
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn registers() {
    assert!(!is_there());
    let prague = Prague::load().unwrap_or_else(|error| panic!("{error}"));
    assert!(is_there(), "{}", controls());
    // A name can only be registered once.
    assert!(Prague::load().is_err());
    drop(prague);
    assert!(!is_there(), "{}", controls());
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn pinned() {
    let folder = Path::new("/sys/fs/bpf/prague-test");
    let _far = Far::with(1, &[ACCURATE]);
    let mut prague = Prague::load().unwrap_or_else(|error| panic!("{error}"));
    prague.attach(device(0)).expect("a device");
    prague.pin(folder).expect("pins");
    assert!(is_there());
    let mut middlebox = Middlebox::load().unwrap_or_else(|error| panic!("{error}"));
    middlebox.attach(device(0)).expect("a device");
    let bulk = Bulk::new(0);
    middlebox.mark_every(20).expect("a map");
    seconds(1);
    let port = bulk.0.local_addr().expect("an address").port();
    let count = middlebox.count(device(0), port).expect("a map");
    assert!(count.data[ECT_1] > 100, "{count:?}");
    assert!(Prague::unload(folder).expect("pins"));
    // The kernel releases pinned objects asynchronously (`bpf_link_free`, kernel/bpf/syscall.c).
    let gone = (0..50).any(|_| {
        thread::sleep(Duration::from_millis(100));
        !is_there()
    });
    assert!(gone, "{}", controls());
    assert!(!Prague::unload(folder).expect("no pins"));
}

/// Only packets of its connections leave as ECT(1).
#[test]
#[ignore = "runs in the lab's kernel"]
fn identified() {
    let stand = Stand::new(1, &[ACCURATE, "ip -6 addr add fd00:7::2/64 dev far0 nodad"]);
    net::run("ip -6 addr add fd00:7::1/64 dev wan0 nodad");
    // The other connections request ECN of RFC 3168.
    net::run("sysctl net/ipv4/tcp_ecn=1");
    stand.mark_every(20);
    let other = Bulk::of(connected(0, "cubic"));
    let four = Bulk::new(0);
    let six = Bulk::of(connected_to("[fd00:7::2]:9", Prague::NAME));
    seconds(2);
    net::run("sysctl net/ipv4/tcp_ecn=2");
    for own in [&four, &six] {
        let count = stand.count(0, &own.0);
        println!("of Prague: {count:?}");
        assert!(count.data[ECT_1] > 200, "{count:?}");
        assert_eq!(count.data[NOT_ECT] + count.data[ECT_0], 0, "{count:?}");
        // The kernel's value before feedback is negotiated.
        assert_eq!(count.syn[NOT_ECT], 1, "{count:?}");
        let state = stand.state(&own.0);
        assert!(
            u64::from(state.marked) * 21 > count.data[ECT_1],
            "{state:?}"
        );
    }
    let count = stand.count(0, &other.0);
    println!("of cubic: {count:?}");
    assert!(count.data[ECT_0] > 200, "{count:?}");
    assert_eq!(count.data[ECT_1] + count.bare[ECT_1], 0, "{count:?}");
    assert_eq!(stand.prague.state(&other.0).expect("a map"), None);
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn alpha_follows_marks() {
    let stand = Stand::new(
        1,
        &[ACCURATE, "tc qdisc add dev far0 root netem delay 10ms"],
    );
    stand.mark_every(4);
    let bulk = Bulk::new(0);
    let mut windows = Vec::new();
    // The average loses 15/16 of its old value in 44 rounds, each slightly over 25 ms.
    for every in [4, 20, 10] {
        stand.mark_every(every);
        seconds(6);
        // A round has few marks, so a single sample may be between two values.
        let looks: Vec<PragueState> = (0..20)
            .map(|_| {
                thread::sleep(Duration::from_millis(100));
                stand.state(&bulk.0)
            })
            .collect();
        let mean = looks.iter().map(|state| state.alpha).sum::<f64>() / 20.0;
        windows.push(looks.iter().map(|state| state.window).sum::<f64>() / 20.0);
        let share = 1.0 / f64::from(every);
        println!("each {every}th marked: alpha is {mean:.4}, the share {share:.4}");
        assert!((mean / share - 1.0).abs() < 0.15, "{mean} of {share}");
    }
    // Scalable: the same number of marks per round trip, for any window (RFC 9331, section 4.3).
    println!("windows {windows:.2?}");
    let more = windows[1] / windows[2];
    assert!(
        (1.6..2.4).contains(&more),
        "half the marks, {more} of the window"
    );
    let state = stand.state(&bulk.0);
    let count = stand.count(0, &bulk.0);
    // Except for those in flight.
    assert!(
        count.marked - u64::from(state.marked) < 20,
        "{state:?} {count:?}"
    );
    assert!(!state.classic);
    assert_eq!(state.halvings, 0);
}

/// Each third packet is marked, so each round has marks.
#[test]
#[ignore = "runs in the lab's kernel"]
fn once_a_round() {
    let stand = Stand::new(
        2,
        &[
            ACCURATE,
            "tc qdisc add dev far0 root netem delay 5ms",
            "tc qdisc add dev far1 root netem delay 50ms",
        ],
    );
    stand.mark_every(3);
    for (pair, round_ms) in [(0, 25.0), (1, 50.0)] {
        let bulk = Bulk::new(pair);
        seconds(3);
        let before = stand.state(&bulk.0);
        let start = Instant::now();
        seconds(10);
        let after = stand.state(&bulk.0);
        let rounds = start.elapsed().as_secs_f64() * 1e3 / round_ms;
        let reductions = f64::from(after.reductions - before.reductions);
        println!("{reductions} reductions in {rounds:.1} rounds; {after:?}");
        assert!(reductions <= rounds + 1.0, "{reductions} in {rounds}");
        assert!(reductions > 0.5 * rounds, "{reductions} in {rounds}");
    }
}

/// Every packet is marked: less than one packet per round trip is sent.
#[test]
#[ignore = "runs in the lab's kernel"]
fn below_a_segment() {
    let stand = Stand::new(
        1,
        &[ACCURATE, "tc qdisc add dev far0 root netem delay 100ms"],
    );
    stand.mark_every(1);
    let bulk = Bulk::new(0);
    seconds(10);
    let before = stand.count(0, &bulk.0);
    seconds(20);
    let after = stand.count(0, &bulk.0);
    let state = stand.state(&bulk.0);
    let sent = after.data[ECT_1] - before.data[ECT_1];
    println!("{sent} packets in 200 round trips; {state:?}");
    assert!(state.window < 1.0, "{state:?}");
    assert!(sent > 20 && sent < 180, "{sent} in 200 round trips");
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn halves_on_loss() {
    let stand = Stand::new(
        1,
        &[
            ACCURATE,
            "tc qdisc add dev far0 root netem delay 10ms",
            "tc qdisc add dev far0 clsact",
            "tc filter add dev far0 ingress matchall action ok random determ drop 300",
        ],
    );
    let bulk = Bulk::new(0);
    let mut seen = 0;
    let mut looks = 0;
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(3));
        let state = stand.state(&bulk.0);
        let threshold = slow_start_threshold(&bulk.0);
        if state.halvings == seen || stand.state(&bulk.0) != state {
            continue;
        }
        seen = state.halvings;
        looks += 1;
        let half = (state.before_loss / 2.0).floor().max(2.0);
        assert_eq!(f64::from(threshold), half, "{state:?}");
    }
    let state = stand.state(&bulk.0);
    let count = stand.count(0, &bulk.0);
    println!("{looks} losses looked at; {state:?}; {count:?}");
    assert!(looks > 5);
    assert_eq!(state.reductions, 0);
    // At most one for each loss.
    assert!(u64::from(state.halvings) <= count.data[ECT_1] / 300 + 1);
}

/// The far side supports ECN of RFC 3168, or none.
#[test]
#[ignore = "runs in the lab's kernel"]
fn without_feedback() {
    {
        let stand = Stand::new(
            1,
            &[RFC_3168, "tc qdisc add dev far0 root netem delay 10ms"],
        );
        stand.mark_every(100);
        let bulk = Bulk::new(0);
        seconds(5);
        let (state, count) = (stand.state(&bulk.0), stand.count(0, &bulk.0));
        println!("ECN of RFC 3168: {state:?} {count:?}");
        assert!(count.data[ECT_0] > 1_000, "{count:?}");
        assert_eq!(count.data[ECT_1] + count.bare[ECT_1], 0, "{count:?}");
        assert!(state.halvings > 5, "{state:?}");
        assert_eq!((state.reductions, state.identified), (0, 0));
    }
    let stand = Stand::new(
        1,
        &[
            NONE,
            "tc qdisc add dev far0 root netem delay 10ms",
            "tc qdisc add dev far0 clsact",
            "tc filter add dev far0 ingress matchall action ok random determ drop 300",
        ],
    );
    let bulk = Bulk::new(0);
    seconds(5);
    let (state, count) = (stand.state(&bulk.0), stand.count(0, &bulk.0));
    println!("no ECN: {state:?} {count:?}");
    assert!(count.data[NOT_ECT] > 1_000, "{count:?}");
    assert_eq!(count.data[ECT_0] + count.data[ECT_1], 0, "{count:?}");
    assert!(state.halvings > 5, "{state:?}");
    assert_eq!((state.reductions, state.identified), (0, 0));
}

/// Without the program at the device's egress, packets are ECT(0), and marks are classic.
#[test]
#[ignore = "runs in the lab's kernel"]
fn unidentified() {
    let mut stand = Stand::bare(
        1,
        &[ACCURATE, "tc qdisc add dev far0 root netem delay 10ms"],
    );
    stand.middlebox.attach(device(0)).expect("a device");
    stand.mark_every(100);
    let bulk = Bulk::new(0);
    seconds(5);
    let (state, count) = (stand.state(&bulk.0), stand.count(0, &bulk.0));
    println!("{state:?} {count:?}");
    assert_eq!(count.data[ECT_1], 0, "{count:?}");
    assert!(count.data[ECT_0] > 1_000, "{count:?}");
    assert!(state.halvings > 5, "{state:?}");
    assert_eq!(state.reductions, 0);
}

/// With equal marking, round trips of up to 25 ms have the same rate, and longer ones less.
#[test]
#[ignore = "runs in the lab's kernel"]
fn round_trips() {
    let stand = Stand::new(
        4,
        &[
            ACCURATE,
            "tc qdisc add dev far0 root netem delay 5ms",
            "tc qdisc add dev far1 root netem delay 10ms",
            "tc qdisc add dev far2 root netem delay 25ms",
            "tc qdisc add dev far3 root netem delay 50ms",
        ],
    );
    stand.mark_every(20);
    let bulks: Vec<Bulk> = (0..4).map(Bulk::new).collect();
    let sent = || -> Vec<f64> {
        let pairs = (0..4).zip(&bulks);
        let counts = pairs.map(|(pair, bulk)| stand.count(pair, &bulk.0));
        counts.map(|count| count.data[ECT_1] as f64).collect()
    };
    seconds(5);
    let before = sent();
    seconds(20);
    let rates: Vec<f64> = before
        .iter()
        .zip(sent())
        .map(|(b, a)| (a - b) / 20.0)
        .collect();
    println!("packets a second at 5, 10, 25 and 50 ms: {rates:.0?}");
    for bulk in &bulks {
        println!("{:?}", stand.state(&bulk.0));
    }
    for rate in &rates[..2] {
        assert!((0.8..1.25).contains(&(rate / rates[2])), "{rates:?}");
    }
    assert!((0.4..0.63).contains(&(rates[3] / rates[2])), "{rates:?}");
}
