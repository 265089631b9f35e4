// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Captures the beginning of every packet to and from one host as a pcap file, by a packet
//! socket (packet(7)). The link type is RAW: packets begin with the IP header.

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The number of bytes captured of each packet.
const KEPT: usize = 100;
/// The longest wait before checking whether to stop.
const TURN: Duration = Duration::from_millis(200);
/// `ETH_P_ALL` (linux/if_ether.h).
const ALL: u16 = 3;
const LINKTYPE_RAW: u32 = 101;

/// A running capture.
#[derive(Debug)]
pub struct Capture {
    socket: OwnedFd,
    host: IpAddr,
}

impl Capture {
    /// Starts a capture on all devices of this network namespace. A packet that passes two
    /// devices appears twice. Needs CAP_NET_RAW.
    pub fn open(host: IpAddr) -> io::Result<Self> {
        let protocol = NonZeroU32::new(u32::from(ALL.to_be())).map(Protocol::from_raw);
        let socket = net::socket_with(
            AddressFamily::PACKET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(TURN))?;
        Ok(Self { socket, host })
    }

    /// Writes arriving packets until the capture ends, and returns their number.
    pub fn write(&self, to: &mut impl Write, over: impl Fn() -> bool) -> io::Result<u64> {
        // The header of a pcap file: magic for microseconds, version 2.4, UTC.
        for word in [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, KEPT as u32, LINKTYPE_RAW] {
            to.write_all(&u32::to_ne_bytes(word))?;
        }
        let mut count = 0;
        let mut packet = [0; KEPT];
        while !over() {
            let (kept, length) = match net::recv(&self.socket, &mut packet, RecvFlags::TRUNC) {
                Ok(read) => read,
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let Some(packet) = packet.get(..kept) else {
                continue;
            };
            if !is_of(packet, self.host) {
                continue;
            }
            let time = SystemTime::now().duration_since(UNIX_EPOCH);
            let time = time.unwrap_or_default();
            // The format has 32 bits for seconds.
            for word in [
                time.as_secs() as u32,
                time.subsec_micros(),
                packet.len() as u32,
                length as u32,
            ] {
                to.write_all(&word.to_ne_bytes())?;
            }
            to.write_all(packet)?;
            count += 1;
        }
        to.flush()?;
        Ok(count)
    }
}

/// Returns whether a packet comes from a host or goes to it.
fn is_of(packet: &[u8], host: IpAddr) -> bool {
    let v4 = |at: usize| {
        let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(IpAddr::V4(Ipv4Addr::from(bytes)))
    };
    let v6 = |at: usize| {
        let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::V6(Ipv6Addr::from(bytes)))
    };
    let ends = match packet.first().map(|byte| byte >> 4) {
        Some(4) => [v4(12), v4(16)],
        Some(6) => [v6(8), v6(24)],
        _ => return false,
    };
    ends.contains(&Some(host))
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn packets_of_a_host_are_told_from_others() {
        let mut packet = [0_u8; 40];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&[192, 0, 2, 1]);
        assert!(is_of(&packet, "192.0.2.1".parse().unwrap()));
        assert!(!is_of(&packet, "192.0.2.2".parse().unwrap()));
        assert!(!is_of(&packet[..18], "192.0.2.1".parse().unwrap()));
        packet[0] = 0x60;
        packet[8] = 0x20;
        packet[16] = 0;
        packet[17..20].fill(0);
        assert!(is_of(&packet, "2000::".parse().unwrap()));
        assert!(!is_of(&[], "2000::".parse().unwrap()));
    }
}
