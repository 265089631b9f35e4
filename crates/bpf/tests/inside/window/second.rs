// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests receive windows with a TCP other than Linux's: smoltcp sends over a TAP device, the kernel
//! receives, and every frame is checked.

use super::{ACK, SYN, control, edge, pseudo, tcp_at};
use crate::inside::filter::checksum;
use crate::inside::net;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{
    Device, DeviceCapabilities, Medium, RxToken, TunTapInterface, TxToken, wait as wait_for,
};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::{Duration as Wait, Instant as StackInstant};
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use std::cell::RefCell;
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};
use weirgate_state::Windows;
use weirgate_units::{Size, Span};

/// The observations of the connection.
#[derive(Debug, Default, Clone)]
struct Seen {
    /// The kernel's port; late segments of an earlier connection may still arrive.
    port: u16,
    /// The kernel's window scale.
    shift: u32,
    /// The last byte offered, plus one.
    edge: Option<u32>,
    /// Acknowledgements, and how many of them took an offer back, by a unit of the window scale or
    /// more.
    acknowledgements: usize,
    taken_back: usize,
    /// The MSS that the kernel requested.
    mss: usize,
    /// Segments that were sent, and how many of them were partial, and retransmitted.
    sent: usize,
    partial: usize,
    again: usize,
    highest: Option<u32>,
    /// Every this many-th full segment is lost, 0 for none; and how many were lost.
    every: usize,
    lost: usize,
    /// Frames with a wrong checksum.
    wrong: usize,
}

/// The header of a segment.
struct Header<'a> {
    from: u16,
    first: u32,
    ack: u32,
    flags: u8,
    window: u16,
    options: &'a [u8],
    payload: usize,
}

/// Returns the header of a frame, if it has one.
fn header(frame: &[u8]) -> Option<Header<'_>> {
    let at = tcp_at(4);
    if frame.len() < at + 20 || frame[12..14] != [8, 0] || frame[23] != 6 {
        return None;
    }
    let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let half = |from: usize| u16::from_be_bytes([frame[from], frame[from + 1]]);
    let word = |from: usize| u32::from(half(from)) << 16 | u32::from(half(from + 2));
    let payload_at = at + usize::from(frame[at + 12] >> 4) * 4;
    Some(Header {
        from: half(at),
        first: word(at + 4),
        ack: word(at + 8),
        flags: frame[at + 13],
        window: half(at + 14),
        options: &frame[at + 20..payload_at],
        payload: end - payload_at,
    })
}

/// Returns the value of a SYN's option.
fn option(mut options: &[u8], kind: u8) -> Option<&[u8]> {
    while let [first, rest @ ..] = options {
        match (*first, rest) {
            (1, _) => options = rest,
            (found, [length, ..]) if *length >= 2 => {
                let whole = options.get(..usize::from(*length))?;
                if found == kind {
                    return Some(&whole[2..]);
                }
                options = &options[whole.len()..];
            }
            _ => return None,
        }
    }
    None
}

impl Seen {
    /// Records a frame of the kernel, after the programs.
    fn left(&mut self, frame: &[u8]) {
        let Some(header) = header(frame) else {
            return;
        };
        let sums = checksum(&frame[14..34]) == 0 && pseudo(&frame[26..34], &frame[34..]) == 0;
        self.wrong += usize::from(!sums);
        if header.flags & SYN != 0 {
            self.port = header.from;
            self.shift = option(header.options, 3).map_or(0, |value| value[0].into());
            self.mss = option(header.options, 2).map_or(536, |value| {
                usize::from(u16::from_be_bytes([value[0], value[1]]))
            });
            return;
        }
        if header.flags & ACK == 0 || header.from != self.port {
            return;
        }
        self.acknowledgements += 1;
        let edge = header
            .ack
            .wrapping_add(u32::from(header.window) << self.shift);
        let moved = self
            .edge
            .map_or(0, |before| edge.wrapping_sub(before) as i32);
        self.taken_back += usize::from(moved <= -(1 << self.shift));
        self.edge = Some(edge);
    }

    /// Records a frame of smoltcp.
    fn came(&mut self, frame: &[u8]) {
        let Some(header) = header(frame).filter(|header| header.payload > 0) else {
            return;
        };
        self.sent += 1;
        self.partial += usize::from(header.payload < self.mss);
        let end = header.first.wrapping_add(header.payload as u32);
        let new = self
            .highest
            .is_none_or(|highest| end.wrapping_sub(highest) as i32 > 0);
        self.again += usize::from(!new);
        if new {
            self.highest = Some(end);
        }
    }

    /// Returns whether the next segment is lost.
    fn loses(&mut self, length: usize) -> bool {
        let loses = self.every > 0 && length > 1_000 && self.sent % self.every == self.every - 1;
        self.lost += usize::from(loses);
        loses
    }
}

/// A TAP device whose frames are recorded.
struct Watched {
    tap: TunTapInterface,
    seen: Rc<RefCell<Seen>>,
}

struct Token<T> {
    token: T,
    seen: Rc<RefCell<Seen>>,
}

impl<T: RxToken> RxToken for Token<T> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, use_it: F) -> R {
        self.token.consume(|frame| {
            self.seen.borrow_mut().left(frame);
            use_it(frame)
        })
    }
}

impl<T: TxToken> TxToken for Token<T> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        if self.seen.borrow_mut().loses(length) {
            let mut frame = vec![0; length];
            let result = fill(&mut frame);
            self.seen.borrow_mut().came(&frame);
            return result;
        }
        self.token.consume(length, |frame| {
            let result = fill(frame);
            self.seen.borrow_mut().came(frame);
            result
        })
    }
}

impl Device for Watched {
    type RxToken<'a> = Token<<TunTapInterface as Device>::RxToken<'a>>;
    type TxToken<'a> = Token<<TunTapInterface as Device>::TxToken<'a>>;

    fn receive(&mut self, now: StackInstant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let (from, to) = self.tap.receive(now)?;
        let seen = || Rc::clone(&self.seen);
        Some((
            Token {
                token: from,
                seen: seen(),
            },
            Token {
                token: to,
                seen: seen(),
            },
        ))
    }

    fn transmit(&mut self, now: StackInstant) -> Option<Self::TxToken<'_>> {
        let token = self.tap.transmit(now)?;
        let seen = Rc::clone(&self.seen);
        Some(Token { token, seen })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.tap.capabilities()
    }
}

/// Sends ascending bytes to each client of 10.0.9.2, port 19, until it is ended; returns the
/// observations. Each `every`-th segment is lost, unless that is 0.
fn serve(end: &Receiver<()>, every: usize) -> Seen {
    let tap = TunTapInterface::new("wan0", Medium::Ethernet).expect("a device");
    let handle = tap.as_raw_fd();
    let seen = Rc::new(RefCell::new(Seen {
        every,
        ..Seen::default()
    }));
    let mut device = Watched {
        tap,
        seen: Rc::clone(&seen),
    };
    let address = EthernetAddress([2, 0, 0, 0, 0, 9]);
    let mut interface = Interface::new(
        Config::new(address.into()),
        &mut device,
        StackInstant::now(),
    );
    interface.update_ip_addrs(|addresses| {
        let own = IpCidr::new(IpAddress::v4(10, 0, 9, 2), 24);
        addresses.push(own).expect("room for an address");
    });
    let room = |bytes| SocketBuffer::new(vec![0; bytes]);
    let mut sockets = SocketSet::new(Vec::new());
    // smoltcp's segments end at the end of its ring buffer, so its size is a multiple of them.
    let socket = sockets.add(Socket::new(room(4_096), room(1_460 * 700)));
    sockets
        .get_mut::<Socket<'_>>(socket)
        .listen(19)
        .expect("a port");
    let mut next = 0_u8;
    while end.try_recv() == Err(TryRecvError::Empty) {
        let now = StackInstant::now();
        interface.poll(now, &mut device, &mut sockets);
        let stream = sockets.get_mut::<Socket<'_>>(socket);
        while stream.can_send() {
            let filled = stream.send(|space| {
                for byte in space.iter_mut() {
                    *byte = next;
                    next = next.wrapping_add(1);
                }
                (space.len(), space.len())
            });
            if filled.expect("a connection") == 0 {
                break;
            }
        }
        let pause = interface
            .poll_delay(now, &sockets)
            .map_or(Wait::from_millis(100), |wait| {
                wait.min(Wait::from_millis(100))
            });
        wait_for(handle, Some(pause)).expect("a device");
    }
    seen.borrow().clone()
}

/// Returns how much arrives in each second after the third, and whether the content is right.
fn received(seconds: usize) -> (Vec<f64>, bool) {
    let mut stream = TcpStream::connect("10.0.9.2:19").expect("a connection");
    let mut space = vec![0; 1 << 16];
    let mut each = vec![0.0; seconds];
    let (mut next, mut whole) = (0_u8, true);
    let start = Instant::now();
    loop {
        let count = stream.read(&mut space).expect("data");
        let second = start.elapsed().as_secs() as usize;
        if second >= seconds + 3 {
            return (each, whole);
        }
        for byte in &space[..count] {
            whole &= *byte == next;
            next = next.wrapping_add(1);
        }
        if second >= 3 {
            each[second - 3] += count as f64;
        }
    }
}

/// At a rate of many segments per poll of the sender, and at one below one segment per poll:
/// smoltcp sends at the rate, in full segments, without retransmissions, and no acknowledgement
/// takes anything back.
#[test]
#[ignore = "runs in the lab's kernel"]
fn accepts() {
    for rate in [1_000_000, 120_000, 12_000] {
        let (mean, seen) = held(rate, 0);
        assert!((0.95..=1.05).contains(&mean), "{mean}");
        assert_eq!((seen.again, seen.partial), (0, 0), "{seen:?}");
    }
}

/// With each 300th segment lost. smoltcp counts an acknowledgement as a duplicate only if its
/// window is unchanged, and retransmits after three duplicates. Otherwise it waits for its timer,
/// which is at least a second: at most nine segments could be lost in nine seconds. Unnecessary
/// retransmissions of smoltcp are a part of its rate.
#[test]
#[ignore = "runs in the lab's kernel"]
fn recovers() {
    let (mean, seen) = held(1_000_000, 300);
    assert!(seen.lost > 12, "{seen:?}");
    assert!(mean > 0.5, "{mean}");
}

/// Returns the received part of `rate` bytes a second, and the observations.
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn held(rate: u64, every: usize) -> (f64, Seen) {
    let folder = Path::new("/sys/fs/bpf/second");
    drop(weirgate_bpf::Store::open().expect("a BPF file system"));
    net::run("ip tuntap add dev wan0 mode tap");
    net::run("ip addr add 10.0.9.1/24 dev wan0");
    net::run("ip link set wan0 up");
    net::run("ip neigh replace 10.0.9.2 lladdr 02:00:00:00:00:09 dev wan0 nud permanent");
    net::run("tc qdisc replace dev wan0 root fq");
    net::run("tc qdisc replace dev wan0 clsact");
    let mut control = control(&Windows {
        hold: Span::from_millis(500),
        initial: Size::bytes(14_600),
        ..edge(rate)
    });
    fs::create_dir(folder).expect("a folder");
    control.pin(folder).expect("pins");
    for side in ["ingress", "egress"] {
        let program = if side == "ingress" { "in" } else { "out" };
        net::run(&format!(
            "tc filter add dev wan0 {side} bpf da object-pinned /sys/fs/bpf/second/window_{program}"
        ));
    }
    let (end, ended) = channel();
    let sender = thread::spawn(move || serve(&ended, every));
    // The device has a carrier after smoltcp has opened it.
    thread::sleep(Duration::from_millis(100));
    let (each, whole) = received(6);
    end.send(()).expect("the sender");
    let seen = sender.join().expect("the sender");
    let mean = each.iter().sum::<f64>() / each.len() as f64 / rate as f64;
    println!("{rate} bytes/s: {mean:.3} of it; {seen:?}");
    net::run("tc qdisc del dev wan0 clsact");
    fs::remove_dir_all(folder).expect("a folder");
    net::run("ip link del wan0");
    assert!(whole, "other bytes came than were sent");
    assert!(seen.acknowledgements > 10 && seen.sent > 10, "{seen:?}");
    assert_eq!((seen.wrong, seen.taken_back), (0, 0), "{seen:?}");
    (mean, seen)
}
