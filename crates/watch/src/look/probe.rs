// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Probes: an ICMP echo every second to hosts that the user named, and to no
//! others. A probe's differentiated-services code point lets the policy put it
//! into a class.
//!
//! The sockets are the kernel's own for echoes (icmp(7)), which need no
//! privilege where `net.ipv4.ping_group_range` allows them. Round trips are those
//! that the kernel notes, from the queue of the device to the arrival of the
//! answer, so that they are right however late this process gets the processor.

use crate::WatchError;
use crate::object::{Number, Object, Sort};
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use weirgate_kernel::{enable_timestamps, receive_timestamped, sent_timestamped, took};

/// After this time an answer counts as lost.
const PATIENCE: Duration = Duration::from_secs(3);
/// Answers that are taken at once: more are none of ours.
const MOST_ANSWERS: usize = 64;
/// Bytes of the echo's data: with IPv4 a packet of 64.
const DATA: usize = 36;

/// A host to probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What the probe is called.
    pub name: String,
    /// Whom it asks.
    pub address: IpAddr,
    /// The code point of its packets, 0 to 63.
    pub dscp: u8,
}

/// Reads `NAME=ADDRESS` or `NAME=ADDRESS,DSCP`.
pub fn target(text: &str) -> Result<Target, String> {
    let wrong = || format!("`{text}` is no probe; say for example `voice=192.0.2.1,46`");
    let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
    let (address, dscp) = match rest.split_once(',') {
        Some((address, dscp)) => (address, dscp.parse().map_err(|_| wrong())?),
        None => (rest, 0),
    };
    if name.is_empty() || name.len() > 40 || name.chars().any(char::is_control) {
        return Err(format!("`{name}` is no name of a probe: 1 to 40 letters"));
    }
    if dscp > 63 {
        return Err(format!("{dscp} is no code point: 0 to 63"));
    }
    let address = address
        .parse()
        .map_err(|_| format!("`{address}` is no address of a host"))?;
    Ok(Target {
        name: name.to_owned(),
        address,
        dscp,
    })
}

/// When an echo was sent: by this process, and by the kernel's note.
struct Sent {
    at: Instant,
    noted_ns: Option<u64>,
}

#[derive(Default)]
struct Count {
    waiting: BTreeMap<u16, Sent>,
    next: u16,
    sent: u64,
    lost: u64,
    rtt: Option<Duration>,
    before: Option<Duration>,
}

/// A probe that is under way.
pub(crate) struct Prober {
    target: Target,
    socket: Arc<AsyncFd<OwnedFd>>,
    count: Arc<Mutex<Count>>,
    listener: tokio::task::JoinHandle<()>,
    /// The socket takes the host's packets alone.
    connected: AtomicBool,
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Prober {
    pub(crate) fn open(target: Target) -> Result<Self, WatchError> {
        let socket = socket(&target).map_err(|source| WatchError::Probe {
            name: target.name.clone(),
            source,
        })?;
        let socket = Arc::new(socket);
        let count = Arc::new(Mutex::new(Count::default()));
        let listener = tokio::spawn(listen(Arc::clone(&socket), Arc::clone(&count)));
        Ok(Self {
            target,
            socket,
            count,
            listener,
            connected: AtomicBool::new(false),
        })
    }

    /// Sends one, and tells what became of those before.
    pub(crate) fn tick(&self) -> Object {
        let now = Instant::now();
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        // What came while this process had to wait is not lost.
        count.take_answers(self.socket.get_ref());
        let late = count
            .waiting
            .values()
            .filter(|sent| now - sent.at > PATIENCE)
            .count();
        count.lost += late as u64;
        count.waiting.retain(|_, sent| now - sent.at <= PATIENCE);
        let number = count.next;
        count.next = number.wrapping_add(1);
        let kind = if self.target.address.is_ipv4() {
            8
        } else {
            128
        };
        let mut echo = vec![kind, 0, 0, 0, 0, 0];
        echo.extend(number.to_be_bytes());
        echo.resize(8 + DATA, 0x77);
        count.sent += 1;
        // What cannot be sent, as without a route, is as lost as any other.
        let sent = Sent {
            at: Instant::now(),
            noted_ns: None,
        };
        count.waiting.insert(number, sent);
        if self.connected() {
            let _ = net::send(self.socket.get_ref(), &echo, SendFlags::DONTWAIT);
        }
        let mut numbers = vec![
            (Number::ProbeSent, count.sent),
            (Number::ProbeLost, count.lost),
        ];
        let micros = |number, time: Duration| (number, time.as_micros() as u64);
        if let Some(rtt) = count.rtt.take() {
            numbers.push(micros(Number::ProbeRtt, rtt));
            let before = count.before.replace(rtt);
            let varied = before.map(|before| rtt.abs_diff(before));
            numbers.extend(varied.map(|varied| micros(Number::ProbeVariation, varied)));
        }
        Object {
            sort: Sort::Probe,
            identity: String::new(),
            begins: false,
            labels: vec![
                ("probe", self.target.name.clone()),
                ("host", self.target.address.to_string()),
            ],
            numbers,
        }
    }
}

impl Prober {
    /// Whether it has a way to the host; else it looks for one. A machine that
    /// starts may not have one yet.
    fn connected(&self) -> bool {
        if !self.connected.load(Ordering::Relaxed) {
            let host = SocketAddr::new(self.target.address, 0);
            let found = net::connect(self.socket.get_ref(), &host).is_ok();
            self.connected.store(found, Ordering::Relaxed);
        }
        self.connected.load(Ordering::Relaxed)
    }
}

fn socket(target: &Target) -> io::Result<AsyncFd<OwnedFd>> {
    let (family, protocol) = match target.address {
        IpAddr::V4(_) => (AddressFamily::INET, net::ipproto::ICMP),
        IpAddr::V6(_) => (AddressFamily::INET6, net::ipproto::ICMPV6),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::DGRAM, flags, Some(protocol))?;
    if target.address.is_ipv4() {
        net::sockopt::set_ip_tos(&socket, target.dscp << 2)?;
    } else {
        net::sockopt::set_ipv6_tclass(&socket, u32::from(target.dscp) << 2)?;
    }
    enable_timestamps(&socket)?;
    weirgate_kernel::watch(socket)
}

async fn listen(socket: Arc<AsyncFd<OwnedFd>>, count: Arc<Mutex<Count>>) {
    while let Ok(mut ready) = socket.readable().await {
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        count.take_answers(socket.get_ref());
        ready.clear_ready();
    }
}

impl Count {
    /// Takes all answers that are there.
    fn take_answers(&mut self, socket: &OwnedFd) {
        let mut bytes = [0; 256];
        for _ in 0..MOST_ANSWERS {
            let came = match receive_timestamped(socket, &mut bytes) {
                Ok(came) => came,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // An ICMP error of a host on the way: no answer.
                Err(_) => continue,
            };
            let now = Instant::now();
            let answer = [0, 129].contains(&bytes[0]) && came.length >= 8;
            let number = u16::from_be_bytes([bytes[6], bytes[7]]);
            self.note_sent(socket);
            if let Some(sent) = self.waiting.remove(&number).filter(|_| answer) {
                self.rtt = Some(took(sent.noted_ns, came.at_ns, now - sent.at));
            }
        }
    }

    /// Takes the kernel's notes of what was sent. The echo is the end of each
    /// packet, whatever headers stand before it.
    fn note_sent(&mut self, socket: &OwnedFd) {
        let mut packet = [0; 256];
        while let Ok(stamped) = sent_timestamped(socket, &mut packet) {
            let sequence = stamped.length.checked_sub(DATA + 2);
            let number = sequence.and_then(|at| packet[at..].first_chunk());
            let sent = number.and_then(|number| self.waiting.get_mut(&u16::from_be_bytes(*number)));
            if let Some(sent) = sent {
                sent.noted_ns = stamped.at_ns;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_mistakes_named() {
        let voice = target("voice=192.0.2.1,46").unwrap();
        assert_eq!(
            (voice.address, voice.dscp),
            ("192.0.2.1".parse().unwrap(), 46)
        );
        assert_eq!(target("bulk=2001:db8::1").unwrap().dscp, 0);
        for wrong in [
            "",
            "voice",
            "voice=example.org",
            "voice=192.0.2.1,64",
            "=192.0.2.1",
            "a\n=192.0.2.1",
        ] {
            target(wrong).unwrap_err();
        }
    }
}
