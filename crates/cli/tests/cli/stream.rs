// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A numbered stream of UDP packets through the device `wan`, and the fate of its packets.

use crate::namespace::Namespace;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::ops::RangeInclusive;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The address of the far side.
pub const FAR_ADDRESS: &str = "10.9.0.2";
/// The address and port to which packets are sent.
const FAR: &str = "10.9.0.2:7000";
/// Bytes of UDP payload; with 28 bytes of headers, a packet has 100 bytes of IP.
const PAYLOAD: usize = 72;

/// The far side of `wan`, in its own namespace.
pub struct Far {
    socket: UdpSocket,
    sender: UdpSocket,
}

/// The numbers and times of the packets that arrived, and the error if the end marker did not.
type Received = (Vec<(u32, Instant)>, Option<io::Error>);

/// A running stream.
pub struct Stream {
    stop: Arc<AtomicBool>,
    sender: JoinHandle<u32>,
    receiver: JoinHandle<Received>,
}

/// The result of a stream.
#[derive(Debug)]
pub struct Fate {
    /// Packets sent.
    pub sent: u32,
    /// The numbers of the packets that did not arrive.
    pub lost: Vec<RangeInclusive<u32>>,
    /// Packets that arrived after a later one.
    pub late: u32,
    /// The longest time between two arrivals; load on the machine lengthens it.
    pub gap: Duration,
    /// The error, if the end of the stream was not received.
    pub failed: Option<io::Error>,
}

/// Returns the numbers below `sent` that did not arrive.
fn lost(sent: u32, arrived: &[(u32, Instant)]) -> Vec<RangeInclusive<u32>> {
    let there: HashSet<u32> = arrived.iter().map(|(number, _)| *number).collect();
    let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
    for number in (0..sent).filter(|number| !there.contains(number)) {
        match ranges.last_mut() {
            Some(last) if last.end() + 1 == number => *last = *last.start()..=number,
            _ => ranges.push(number..=number),
        }
    }
    ranges
}

/// Creates a socket inside the network namespace of a process.
fn socket_in(path: &str, bind: &str) -> UdpSocket {
    let file = File::open(path).unwrap();
    let bind = bind.to_owned();
    let made = std::thread::spawn(move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        UdpSocket::bind(bind).unwrap()
    });
    made.join().unwrap()
}

impl Far {
    /// Moves `far` to another namespace and gives both ends addresses.
    pub fn of(namespace: &Namespace) -> Self {
        namespace.run("ip netns add beyond");
        namespace.run("ip link set far netns beyond");
        for line in [
            "ip addr add 10.9.0.1/24 dev wan",
            "ip netns exec beyond ip addr add 10.9.0.2/24 dev far",
            "ip netns exec beyond ip link set far up",
        ] {
            namespace.run(line);
        }
        let mac = namespace.run("ip netns exec beyond cat /sys/class/net/far/address");
        let mac = mac.trim();
        namespace.run(&format!(
            "ip neigh replace 10.9.0.2 lladdr {mac} nud permanent dev wan"
        ));
        let holder = namespace.holder();
        Self {
            socket: socket_in(&format!("/proc/{holder}/root/run/netns/beyond"), FAR),
            sender: socket_in(&format!("/proc/{holder}/ns/net"), "10.9.0.1:0"),
        }
    }

    /// Returns whether a packet arrives.
    pub fn reached(&self) -> bool {
        let mut buffer = [0; PAYLOAD];
        self.socket
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        self.sender.send_to(&[0xff; PAYLOAD], FAR).unwrap();
        self.socket.recv(&mut buffer).is_ok()
    }

    /// Sends the given number of packets per second until it is stopped.
    pub fn stream(&self, each_second: u32) -> Stream {
        let stop = Arc::new(AtomicBool::new(false));
        let socket = self.socket.try_clone().unwrap();
        // The limit is long, so that a sender that gets no processor time does not count as a loss.
        socket
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        // The receiver may get no processor time for a while.
        set_socket_recv_buffer_size_force(&socket, 16 << 20).unwrap();
        let receiver = std::thread::spawn(move || {
            let mut arrived = Vec::new();
            let mut buffer = [0; PAYLOAD];
            loop {
                match socket.recv(&mut buffer) {
                    Ok(_) => {}
                    // A system call with a time limit is interrupted when its process is stopped
                    // and continued (signal(7)).
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => return (arrived, Some(error)),
                }
                let number = u32::from_ne_bytes(buffer[..4].try_into().unwrap());
                if number == u32::MAX {
                    return (arrived, None);
                }
                arrived.push((number, Instant::now()));
            }
        });
        let (socket, stopped) = (self.sender.try_clone().unwrap(), Arc::clone(&stop));
        let sender = std::thread::spawn(move || {
            let mut number = 0_u32;
            let mut due = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                // The sender does not catch up after a delay: a burst would fill the queue by
                // itself.
                due = Instant::now().max(due + Duration::from_secs(1) / each_second);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let mut packet = [0; PAYLOAD];
                packet[..4].copy_from_slice(&number.to_ne_bytes());
                socket.send_to(&packet, FAR).unwrap();
                number += 1;
            }
            // Let the queues drain before the end marker is sent.
            std::thread::sleep(Duration::from_millis(500));
            socket.send_to(&[0xff; PAYLOAD], FAR).unwrap();
            number
        });
        Stream {
            stop,
            sender,
            receiver,
        }
    }
}

impl Stream {
    /// Stops the stream and counts its packets.
    pub fn end(self) -> Fate {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.join().unwrap();
        let (arrived, failed) = self.receiver.join().unwrap();
        let late = arrived.windows(2).filter(|two| two[1].0 < two[0].0).count();
        let gaps = arrived.windows(2).map(|two| two[1].1 - two[0].1);
        Fate {
            sent,
            lost: lost(sent, &arrived),
            late: late as u32,
            gap: gaps.max().unwrap_or_default(),
            failed,
        }
    }
}
