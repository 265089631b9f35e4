// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Probes: an ICMP echo every second to hosts that the user named, and to no others. A probe's
//! DSCP lets the policy assign it to a class.
//!
//! The sockets are the kernel's ICMP sockets (icmp(7)), which need no privilege if
//! `net.ipv4.ping_group_range` allows them. Round trips are measured by the kernel's timestamps,
//! from the queue of the device to the arrival of the answer. They are therefore correct even if
//! this process is scheduled late.

use crate::WatchError;
use crate::object::{Number, Object, Sort};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use weirgate_kernel::{enable_timestamps, receive_timestamped, sent_timestamped, took};

/// The time after which a probe counts as lost.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time without an answer after which the socket is connected again.
const SILENCE: Duration = Duration::from_secs(5);
/// The largest number of packets that are read at once; more cannot be answers to these probes.
const MOST_ANSWERS: usize = 64;
/// The bytes of the echo's data, which make a packet of 64 bytes with IPv4.
const DATA: usize = 36;

/// A host to probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name of the probe.
    pub name: String,
    /// The address of the host.
    pub address: IpAddr,
    /// The code point of its packets, from 0 to 63.
    pub dscp: u8,
}

/// Parses `NAME=ADDRESS` or `NAME=ADDRESS,DSCP`.
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

/// The send times of an echo: that of this process, and the kernel's timestamp.
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
    /// Whether the socket is connected, so that it receives only packets of the host.
    connected: bool,
    /// Since when all echoes over this connection have been without an answer.
    silent_since: Option<Instant>,
}

/// An active probe.
pub(crate) struct Prober {
    target: Target,
    socket: Arc<AsyncFd<OwnedFd>>,
    count: Arc<Mutex<Count>>,
    listener: tokio::task::JoinHandle<()>,
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
        })
    }

    /// Sends one echo, and reports on earlier ones.
    pub(crate) fn tick(&self) -> Object {
        let now = Instant::now();
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        // Answers that arrived while this process was delayed are not lost.
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
        let sent = Sent {
            at: Instant::now(),
            noted_ns: None,
        };
        count.waiting.insert(number, sent);
        self.send(&mut count, &echo);
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
    /// Sends an echo. One that cannot be sent, for example without a route, counts as lost.
    ///
    /// The kernel selects the source address of a socket when it is connected (ip(7)), and keeps
    /// it. If the machine gets another address, nothing can be sent from the old one, or answers
    /// to it do not arrive. The socket is then connected again. So is one that could not be
    /// connected before: a machine that is booting may not have a route yet.
    fn send(&self, count: &mut Count, echo: &[u8]) {
        let silent = count.silent_since.map(|since| since.elapsed());
        let keeps = count.connected && silent.is_none_or(|silent| silent <= SILENCE);
        if !(keeps && self.can_send(echo)) {
            count.silent_since = None;
            count.connected = self.connect();
            if !(count.connected && self.can_send(echo)) {
                return;
            }
        }
        count.silent_since.get_or_insert_with(Instant::now);
    }

    /// Connects the socket, from an address that the machine has now.
    fn connect(&self) -> bool {
        let socket = self.socket.get_ref();
        // Without this, the source address stays.
        let _ = net::connect_unspec(socket);
        net::connect(socket, &SocketAddr::new(self.target.address, 0)).is_ok()
    }

    /// Sends an echo. Returns `false` if no further one can be sent from this address.
    fn can_send(&self, echo: &[u8]) -> bool {
        let sent = net::send(self.socket.get_ref(), echo, SendFlags::DONTWAIT);
        !matches!(
            sent,
            Err(Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ADDRNOTAVAIL | Errno::INVAL)
        )
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
    /// Reads all available answers.
    fn take_answers(&mut self, socket: &OwnedFd) {
        let mut bytes = [0; 256];
        for _ in 0..MOST_ANSWERS {
            let came = match receive_timestamped(socket, &mut bytes) {
                Ok(came) => came,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // An ICMP error of a router on the path is not an answer.
                Err(_) => continue,
            };
            let now = Instant::now();
            let answer = [0, 129].contains(&bytes[0]) && came.length >= 8;
            let number = u16::from_be_bytes([bytes[6], bytes[7]]);
            self.note_sent(socket);
            if let Some(sent) = self.waiting.remove(&number).filter(|_| answer) {
                self.silent_since = None;
                self.rtt = Some(took(sent.noted_ns, came.at_ns, now - sent.at));
            }
        }
    }

    /// Reads the kernel's transmit timestamps. The echo is the end of each packet, after a
    /// variable number of headers.
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
