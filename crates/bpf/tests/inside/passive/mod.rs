// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares passive measurements of passing packets with the senders' own.

mod arrivals;
mod round_trip;

use super::net::{self, Far};
use super::{class, shaper_on};
use std::fs;
use std::net::{Ipv4Addr, Shutdown, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread::sleep;
use std::time::{Duration, Instant};
use weirgate_bpf::{Passive, PassiveDevice, PassiveQuantity, Shaper, Spread, SpreadOf};

const FAST: u32 = 0x1_0010;
const SLOW: u32 = 0x1_0020;

/// The number of packets to hosts on this machine: more than the 4,096 hosts that are remembered.
const PACKETS: u32 = 8_000;

fn passive(device: &str, hosts: bool) -> (Passive, u32) {
    let mut passive = Passive::open().unwrap_or_else(|error| panic!("{error}"));
    let ifindex = net::ifindex(device);
    let wanted = PassiveDevice {
        ifindex,
        line: ifindex,
        hosts,
    };
    passive.watch(&[wanted]).expect("a map");
    (passive, ifindex)
}

/// Makes two classes behind a gate of 2 Mbit/s; a pair with a return path of `delay`.
pub(super) fn shaped(delay: &str) -> Far {
    let command = format!("tc qdisc replace dev far0 root netem delay {delay}");
    let commands: &'static [&'static str] = vec![&*command.leak()].leak();
    let far = Far::with(1, commands);
    for line in [
        "tc qdisc replace dev wan0 root handle 1: htb default 20",
        "tc class add dev wan0 parent 1: classid 1:1 htb rate 2mbit burst 1 cburst 1",
        "tc class add dev wan0 parent 1:1 classid 1:10 htb rate 1mbit ceil 2mbit burst 1 cburst 1",
        "tc class add dev wan0 parent 1:1 classid 1:20 htb rate 1mbit ceil 2mbit burst 1 cburst 1",
        "tc qdisc add dev wan0 parent 1:10 pfifo limit 100",
        "tc qdisc add dev wan0 parent 1:20 pfifo limit 100",
    ] {
        net::run(line);
    }
    far
}

fn spread(passive: &Passive, ifindex: u32, priority: u32, quantity: PassiveQuantity) -> Spread {
    let of = SpreadOf {
        ifindex,
        priority,
        quantity,
    };
    let mut all = passive.spreads().expect("a map");
    all.remove(&of).unwrap_or_default()
}

fn apart(one: f64, other: f64) -> f64 {
    (one - other).abs() / other
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}

/// Sends bursts to the echo port, and measures every datagram's round trip.
fn echoed(class: u32, bursts: usize, count: u8) -> Vec<f64> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
    socket.connect(("10.0.0.2", 7)).expect("an address");
    net::classify(&socket, class);
    let mut times = Vec::new();
    for burst in 0..bursts {
        let mut sent = Vec::new();
        for number in 0..count {
            sent.push(Instant::now());
            socket.send(&[number; 500]).expect("a datagram");
        }
        let mut space = [0; 600];
        for _ in 0..count {
            socket.recv(&mut space).expect("an answer");
            times.push(sent[usize::from(space[0])].elapsed().as_secs_f64());
        }
        // Never at the same phase of the line's interval.
        sleep(Duration::from_micros(7_000 + 1_370 * burst as u64));
    }
    times
}

/// The waits of datagrams beside a full class equal their round trips, because the return path
/// takes no time: in the mean and in the 95th percentile. Those of a burst on an idle line follow
/// from its rate.
#[test]
#[ignore = "runs in the lab's kernel"]
fn waits() {
    let _far = shaped("0ms");
    let (passive, wan) = passive("wan0", false);
    let flow = net::bulk_in(0, FAST);
    sleep(Duration::from_secs(2));
    let before = spread(&passive, wan, SLOW, PassiveQuantity::Wait);
    let mut truth = echoed(SLOW, 20, 15);
    let found = spread(&passive, wan, SLOW, PassiveQuantity::Wait).since(&before);
    let ours = found.mean_ns().expect("packets") as f64 / 1e9;
    println!(
        "beside a full class: {:.4} s, passive {ours:.4} s of {}",
        mean(&truth),
        found.count
    );
    assert_eq!(found.count, truth.len() as u64);
    assert!(apart(ours, mean(&truth)) < 0.05);
    truth.sort_by(f64::total_cmp);
    let (high, ours) = (
        truth[truth.len() * 95 / 100],
        found.at_most_ns(950).expect("packets") as f64 / 1e9,
    );
    println!("95 %: {high:.4} s, passive {ours:.4} s");
    assert!(apart(ours, high) < 0.05);
    let _ = flow.shutdown(Shutdown::Both);
    sleep(Duration::from_secs(2));

    let before = spread(&passive, wan, FAST, PassiveQuantity::Wait);
    let bytes_before = spread(&passive, wan, FAST, PassiveQuantity::Bytes);
    let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
    socket.connect(("10.0.0.2", 7)).expect("an address");
    net::classify(&socket, FAST);
    let (burst, on_the_wire) = (50_u32, 1_000_u32);
    for _ in 0..burst {
        socket
            .send(&vec![0; on_the_wire as usize - 42])
            .expect("a datagram");
    }
    sleep(Duration::from_secs(1));
    let found = spread(&passive, wan, FAST, PassiveQuantity::Wait).since(&before);
    let each = f64::from(on_the_wire) * 8.0 / 2e6;
    let truth = f64::from(burst - 1) / 2.0 * each;
    let ours = found.mean_ns().expect("packets") as f64 / 1e9;
    println!(
        "a burst: {truth:.4} s, passive {ours:.4} s of {}",
        found.count
    );
    assert_eq!(found.count, u64::from(burst));
    assert!(apart(ours, truth) < 0.05);
    // IP bytes of the same packets: without their Ethernet headers.
    let bytes = spread(&passive, wan, FAST, PassiveQuantity::Bytes).since(&bytes_before);
    assert_eq!(bytes.sum_ns, u64::from(burst * (on_the_wire - 14)));
    let (untimed, left_out) = passive.untimed().expect("a map");
    println!("{untimed} untimed, {left_out} left out");
    assert_eq!(left_out, 0);
}

/// The same behind practical queues: separate flows beside a full one in another class, or in the
/// same queue, by disciplines of the kernel and by the kit's shaper.
#[test]
#[ignore = "runs in the lab's kernel"]
fn waits_of_engines() {
    for engine in ["fq_codel", "cake", "kit"] {
        let far = shaped("0ms");
        let mut shaper = None;
        match engine {
            "fq_codel" => {
                for class in ["1:10", "1:20"] {
                    // A dropped packet is not measured, and would never be answered.
                    net::run(&format!(
                        "tc qdisc replace dev wan0 parent {class} fq_codel target 900ms interval 2s"
                    ));
                }
            }
            "cake" => {
                net::run(
                    "tc qdisc replace dev wan0 root handle 9: cake bandwidth 2mbit besteffort rtt 2s",
                );
            }
            _ => {
                net::run("tc qdisc del dev wan0 root");
                let own = Shaper::load().unwrap_or_else(|error| panic!("{error}"));
                let classes = [0x10, 0x20].map(|minor| class(minor, 3, 0, 1, "droptail"));
                shaper_on(&own, "wan0", classes.into());
                shaper = Some(own);
            }
        }
        let (passive, wan) = passive("wan0", false);
        let flow = net::bulk_in(0, FAST);
        sleep(Duration::from_secs(2));
        let before = spread(&passive, wan, SLOW, PassiveQuantity::Wait);
        let mut truth = echoed(SLOW, 12, 15);
        let found = spread(&passive, wan, SLOW, PassiveQuantity::Wait).since(&before);
        let ours = found.mean_ns().expect("packets") as f64 / 1e9;
        truth.sort_by(f64::total_cmp);
        let high = truth[truth.len() * 95 / 100];
        let ours_high = found.at_most_ns(950).expect("packets") as f64 / 1e9;
        println!(
            "{engine}: {:.4} s, passive {ours:.4} s of {}; 95 %: {high:.4} s, passive {ours_high:.4} s",
            mean(&truth),
            found.count
        );
        assert_eq!(found.count, truth.len() as u64, "{engine}");
        assert!(apart(ours, mean(&truth)) < 0.05, "{engine}");
        assert!(apart(ours_high, high) < 0.05, "{engine}");
        let _ = flow.shutdown(Shutdown::Both);
        drop(passive);
        net::run("ip link del wan0");
        drop((shaper, far));
    }
}

/// Returns the round trip that the sender's own TCP measures (`tcpi_rtt`), in seconds.
fn own_rtt(stream: &TcpStream) -> f64 {
    /// The offset of `tcpi_rtt` in `struct tcp_info`, in microseconds (include/uapi/linux/tcp.h).
    const RTT: usize = 68;
    let mut info = [0_u8; 104];
    let mut length = info.len() as u32;
    #[expect(unsafe_code, reason = "std has no such socket option")]
    // SAFETY: the kernel writes at most `length` bytes, the size of `info`.
    let status = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert_eq!(status, 0);
    let word = info[RTT..].first_chunk().copied().unwrap_or_default();
    f64::from(u32::from_ne_bytes(word)) / 1e6
}

/// A sender on this machine, so that the device in between sees its whole round trip: with and
/// without timestamps, with a short queue and a long one.
#[test]
#[ignore = "runs in the lab's kernel"]
fn round_trips() {
    beside_the_senders_own(&[("1", "20ms"), ("0", "80ms")]);
}

/// The same with each kind of queue.
#[test]
#[ignore = "runs in the lab's kernel"]
fn all_round_trips() {
    beside_the_senders_own(&[("1", "20ms"), ("0", "20ms"), ("1", "80ms"), ("0", "80ms")]);
}

#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn beside_the_senders_own(cases: &[(&str, &str)]) {
    for (stamps, delay) in cases {
        let _far = shaped(delay);
        fs::write("/proc/sys/net/ipv4/tcp_timestamps", stamps).expect("a setting");
        let (passive, wan) = passive("wan0", false);
        let flow = net::bulk_in(0, FAST);
        sleep(Duration::from_secs(3));
        let before = spread(&passive, wan, FAST, PassiveQuantity::Beyond);
        let mut own = Vec::new();
        for _ in 0..400 {
            sleep(Duration::from_millis(20));
            own.push(own_rtt(&flow));
        }
        let found = spread(&passive, wan, FAST, PassiveQuantity::Beyond).since(&before);
        let ours = found.mean_ns().expect("round trips") as f64 / 1e9;
        println!(
            "timestamps {stamps}, {delay}: the sender's own {:.4} s, passive {ours:.4} s of {}",
            mean(&own),
            found.count
        );
        assert!(found.count > 100);
        assert!(apart(ours, mean(&own)) < 0.05);
        let _ = flow.shutdown(Shutdown::Both);
        drop(passive);
        net::run("ip link del wan0");
    }
    fs::write("/proc/sys/net/ipv4/tcp_timestamps", "1").expect("a setting");
}

#[test]
#[ignore = "runs in the lab's kernel"]
fn hosts() {
    let _far = shaped("10ms");
    let (mut passive, wan) = passive("wan0", true);
    net::probe(0, FAST, 100, Duration::from_millis(5));
    let flow = TcpStream::connect(("10.0.0.2", 9)).expect("a connection");
    drop(flow);
    sleep(Duration::from_secs(1));
    let hosts = passive.hosts().expect("a map");
    let far = "10.0.0.2".parse().expect("an address");
    let host = hosts.get(&(wan, far)).expect("the far host");
    println!("{host:?}");
    // 84 bytes in each direction, and about four packets of the connection.
    let tcp = 4 * 60;
    assert!((100 * 84..100 * 84 + tcp).contains(&host.sent_bytes));
    assert!((100 * 84..100 * 84 + tcp).contains(&host.received_bytes));
    assert!((100..106).contains(&host.received_packets));
    let here = host.here_ns / host.here_count.max(1);
    assert!((10_000_000..11_000_000).contains(&here), "{here} ns");

    // More hosts than the map can hold.
    net::run("ip link set lo up");
    let lo = net::ifindex("lo");
    let inside = PassiveDevice {
        ifindex: lo,
        line: lo,
        hosts: true,
    };
    let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
    let send = |hosts: u32| {
        let start = Instant::now();
        for number in 0..PACKETS {
            let address = Ipv4Addr::from(0x7f01_0000 + number % hosts);
            let _ = socket.send_to(&[0; 10], (address, 11));
        }
        start.elapsed().as_nanos() / u128::from(PACKETS)
    };
    // An instruction takes a nanosecond here. Every packet is seen when it is sent and when it
    // arrives, and so is the answer of a closed port.
    let without = send(100);
    passive.watch(&[inside]).expect("a map");
    let with = send(100);
    println!("a packet and its answer: {without} instructions, looked at {with}");
    send(PACKETS);
    let hosts = passive.hosts().expect("a map");
    println!("{} hosts are known", hosts.len());
    assert!((2_000..=4_096).contains(&hosts.len()));
    assert!(hosts.keys().any(|(device, _)| *device == lo));
    // Without a device, nothing more is recorded.
    passive.watch(&[]).expect("a map");
    let before = passive.hosts().expect("a map");
    net::probe(0, FAST, 10, Duration::from_millis(5));
    assert_eq!(passive.hosts().expect("a map"), before);
}

/// The queue's effect on a host's packets: drops and departures sum to what was sent, waits follow
/// from the rate. Marks by the queue are counted, but not those of arriving packets.
#[test]
#[ignore = "runs in the lab's kernel"]
fn hosts_in_a_queue() {
    let _far = shaped("0ms");
    net::run(
        "tc qdisc replace dev wan0 parent 1:20 codel limit 100 target 1s ce_threshold 10ms ecn",
    );
    let (passive, wan) = passive("wan0", true);
    let far = "10.0.0.2".parse().expect("an address");
    let host = || {
        let mut hosts = passive.hosts().expect("a map");
        hosts.remove(&(wan, far)).unwrap_or_default()
    };
    let (burst, on_the_wire) = (150_u32, 1_000_u32);
    let send = |class: u32, ecn: u8| {
        // One socket may not have as many packets in flight.
        let sockets: Vec<UdpSocket> = (0..3)
            .map(|_| {
                let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
                socket.connect(("10.0.0.2", 7)).expect("an address");
                net::classify(&socket, class);
                rustix::net::sockopt::set_ip_tos(&socket, ecn).expect("a code point");
                socket
            })
            .collect();
        let before = host();
        for number in 0..burst as usize {
            let _ = sockets[number % 3].send(&vec![0; on_the_wire as usize - 42]);
        }
        sleep(Duration::from_secs(2));
        let now = host();
        (
            now.dropped - before.dropped,
            now.timed - before.timed,
            now.waited_ns - before.waited_ns,
            now.marked - before.marked,
        )
    };
    let (dropped, left, waited, marked) = send(FAST, 0);
    println!("a burst: {dropped} dropped, {left} left after {waited} ns together");
    assert_eq!(dropped + left, u64::from(burst));
    assert!((45..=50).contains(&dropped));
    let each = f64::from(on_the_wire) * 8.0 / 2e6;
    let truth = (left - 1) as f64 / 2.0 * each * left as f64;
    assert!(apart(waited as f64 / 1e9, truth) < 0.05);
    assert_eq!(marked, 0);
    // Two and a half packets are within 10 ms; all later ones are marked.
    let (_, left, _, marked) = send(SLOW, 2);
    println!("of {left} that left, {marked} were marked");
    assert!((left - 4..left).contains(&marked));
    let (.., marked) = send(SLOW, 3);
    assert_eq!(marked, 0);
}

/// Devices and classes are removed and added, as with each new PPPoE session: entries of removed
/// ones make room for new ones. If there is no room, that is counted.
#[test]
#[ignore = "runs in the lab's kernel"]
fn devices_come_and_go() {
    let mut passive = Passive::open().unwrap_or_else(|error| panic!("{error}"));
    let mut round = |classes: u32| {
        for line in [
            "ip link add ppp0 type veth peer name ppp1",
            "ip addr add 10.9.0.1/24 dev ppp0",
            "ip link set ppp1 up",
            "ip link set ppp0 up",
            // Packets that bypass a plain queue are not measured in it.
            "tc qdisc replace dev ppp0 root handle 1: htb default ffff",
            "tc class add dev ppp0 parent 1: classid 1:ffff htb rate 1gbit",
        ] {
            net::run(line);
        }
        let ifindex = net::ifindex("ppp0");
        let wanted = PassiveDevice {
            ifindex,
            line: ifindex,
            hosts: false,
        };
        passive.watch(&[wanted]).expect("a map");
        let socket = UdpSocket::bind(("10.9.0.1", 0)).expect("a socket");
        socket.set_broadcast(true).expect("a setting");
        for class in 1..=classes {
            net::classify(&socket, 0x1_0000 + class);
            socket.send_to(&[0; 100], "10.9.0.255:9").expect("room");
        }
        let known = passive.spreads().expect("a map");
        assert!(known.keys().all(|of| of.ifindex == ifindex));
        let (_, left_out) = passive.untimed().expect("a map");
        if classes < 100 {
            // A wait and the bytes of each.
            assert!(known.len() >= 2 * classes as usize, "{}", known.len());
            let some: Vec<SpreadOf> = known.keys().take(10).copied().collect();
            passive.forget(&some).expect("a map");
            // Forgetting a missing entry is not an error.
            passive.forget(&some).expect("a map");
            let left = passive.spreads().expect("a map");
            assert_eq!(left.len(), known.len() - some.len());
        }
        net::run("ip link del ppp0");
        left_out
    };
    // Of 1,280 entries in all, 1,024 have room.
    for number in 0..16 {
        assert_eq!(round(40), 0, "round {number}");
    }
    let left_out = round(600);
    println!("of 1,200 at once, {left_out} had no room");
    assert!(left_out >= 1_200 - 1_024);
}
