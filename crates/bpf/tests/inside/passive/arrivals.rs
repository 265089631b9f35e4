// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that arrive in unusual ways: at a VLAN device, with nothing new to acknowledge, and with
//! the padding of short frames.

use super::round_trip::download;
use super::{passive, spread};
use crate::inside::net::{self, Far};
use crate::inside::window::{ACK, SYN, Segment};
use smoltcp::phy::{Device, Medium, RxToken, TunTapInterface, TxToken};
use smoltcp::time::Instant as StackInstant;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener};
use std::thread::{self, sleep};
use std::time::Duration;
use weirgate_bpf::{PassiveQuantity, RoundTrips, Survey, SurveyLink};

/// The kernel shows the arrival of a tagged frame with the device below. The programs see it on the
/// VLAN device all the same, with all of its bytes.
#[test]
#[ignore = "runs in the lab's kernel"]
fn of_a_vlan_device() {
    let _far = Far::with(
        1,
        &[
            "tc qdisc replace dev far0 root netem delay 20ms rate 10mbit",
            "ip link add link far0 name far0.7 type vlan id 7",
            "ip addr add 10.7.0.2/24 dev far0.7",
            "ip link set far0.7 up",
        ],
    );
    net::run("ip link add link wan0 name wan0.7 type vlan id 7");
    net::run("ip addr add 10.7.0.1/24 dev wan0.7");
    net::run("ip link set wan0.7 up");
    let far: IpAddr = "10.7.0.2".parse().expect("an address");
    let trips = RoundTrips::open().unwrap_or_else(|error| panic!("{error}"));
    let device = net::ifindex("wan0.7");
    trips.watch(device).expect("a map");
    let (passive, _) = passive("wan0.7", true);
    let survey =
        Survey::open(device, &SurveyLink::NONE, None).unwrap_or_else(|error| panic!("{error}"));
    let flow = download("10.7.0.2:19");
    sleep(Duration::from_secs(2));
    let heard = trips.take().expect("a map");
    let _ = flow.shutdown(Shutdown::Both);
    println!("{heard:?}");
    assert_eq!(heard.len(), 1, "one end: {heard:?}");
    assert_eq!(heard[0].end, far);
    assert!((20..30).contains(&heard[0].least.as_millis()), "{heard:?}");
    let hosts = passive.hosts().expect("a map");
    let host = hosts.get(&(device, far)).expect("the far host");
    println!("{host:?}");
    let [arrived, left] = survey.directions().expect("a map");
    println!("{:?} arrived, {:?} left", arrived.all, left.all);
    // 10 Mbit/s for two seconds.
    assert!(
        host.sent_bytes > 1_500_000 && host.here_count > 0,
        "{host:?}"
    );
    assert!(arrived.all.bytes > 1_500_000 && left.all.packets > 0);
}

/// Without timestamps, a segment that acknowledges nothing new answers nothing, however soon it
/// arrives after data was sent. A connection with data in both directions has many of them.
#[test]
#[ignore = "runs in the lab's kernel"]
fn answers() {
    let _far = Far::with(
        1,
        &["tc qdisc replace dev far0 root netem delay 20ms rate 10mbit"],
    );
    fs::write("/proc/sys/net/ipv4/tcp_timestamps", "0").expect("a setting");
    let (passive, wan) = passive("wan0", false);
    let mut flow = download("10.0.0.2:19");
    flow.set_nodelay(true).expect("an option");
    // Segments that left the far side before it got a message arrive soon after it is sent.
    for _ in 0..60 {
        flow.write_all(&[7; 100]).expect("a connection");
        sleep(Duration::from_millis(50));
    }
    let _ = flow.shutdown(Shutdown::Both);
    fs::write("/proc/sys/net/ipv4/tcp_timestamps", "1").expect("a setting");
    let found = spread(&passive, wan, 0, PassiveQuantity::Beyond);
    let low = found.at_most_ns(100).expect("round trips");
    println!("of {} round trips, 10 % have at most {low} ns", found.count);
    assert!(found.count > 20, "{}", found.count);
    assert!(low >= 19_000_000, "{low} ns");
}

/// The padding of a short frame is no data: an acknowledgement that has some is not a segment whose
/// number is repeated by the request that follows.
#[test]
#[ignore = "runs in the lab's kernel"]
fn padded() {
    let mut tap = TunTapInterface::new("wan0", Medium::Ethernet).expect("a device");
    for line in [
        "ip link set wan0 address 02:02:02:02:02:02",
        "ip addr add 10.0.0.11/24 dev wan0",
        "ip link set wan0 up",
        "ip neigh replace 10.0.0.99 lladdr 02:02:02:02:02:02 dev wan0 nud permanent",
    ] {
        net::run(line);
    }
    let (passive, wan) = passive("wan0", true);
    let listener = TcpListener::bind(("10.0.0.11", 1_001)).expect("a port");
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut request = [0; 100];
        stream.read_exact(&mut request).expect("a request");
        stream.write_all(&request).expect("a connection");
        stream
    });
    let open = Segment {
        version: 4,
        port: 1_001,
        out: false,
        flags: SYN,
        seq: 1,
        ack: 0,
        window: 60_000,
        options: &[],
        payload: 0,
    };
    send(&mut tap, &open);
    let ack = number_of_answer(&mut tap).wrapping_add(1);
    let accept = Segment {
        flags: ACK,
        seq: 2,
        ack,
        ..open
    };
    send(&mut tap, &accept);
    let request = Segment {
        payload: 100,
        ..accept
    };
    send(&mut tap, &request);
    let stream = server.join().expect("a server");
    let hosts = passive.hosts().expect("a map");
    let host = hosts.get(&(wan, "10.0.0.99".parse().expect("an address")));
    let host = *host.expect("the far host");
    println!("{host:?}");
    drop((stream, passive, tap));
    assert_eq!((host.sent_packets, host.sent_bytes), (3, 40 + 40 + 140));
    assert_eq!(host.beyond_count, 2);
}

/// Sends a frame, padded to the least length of Ethernet.
fn send(tap: &mut TunTapInterface, segment: &Segment<'_>) {
    let mut frame = segment.frame();
    frame.resize(frame.len().max(60), 0);
    let token = tap.transmit(StackInstant::now()).expect("a device");
    token.consume(frame.len(), |space| space.copy_from_slice(&frame));
}

/// Returns the sequence number of the kernel's next TCP segment.
fn number_of_answer(tap: &mut TunTapInterface) -> u32 {
    for _ in 0..1_000 {
        if let Some((answer, _)) = tap.receive(StackInstant::now()) {
            let number = answer.consume(|frame| {
                let tcp = frame.len() >= 54 && frame[12..14] == [8, 0] && frame[23] == 6;
                let bytes = frame.get(38..42).and_then(|bytes| bytes.first_chunk());
                bytes.filter(|_| tcp).copied().map(u32::from_be_bytes)
            });
            if let Some(number) = number {
                return number;
            }
        }
        sleep(Duration::from_millis(1));
    }
    panic!("no answer");
}
