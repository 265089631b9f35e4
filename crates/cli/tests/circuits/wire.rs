// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ethernet frames as bytes, and a socket that sends them.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The last byte of the peer's MAC.
pub const PEER: u8 = 0xee;

/// The addresses of the peer.
const FAR4: [u8; 4] = [198, 51, 100, 1];
const FAR6: &str = "2001:db8:ffff::1";

/// A frame between a subscriber and its peer.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The last byte of the subscriber's MAC, which begins with 02:00:5e:10:00.
    pub subscriber: u8,
    /// The EtherType of the payload.
    pub protocol: u16,
    /// The payload. A subscriber's address is the destination here.
    pub within: Vec<u8>,
}

/// Returns the MAC that ends with this byte.
fn mac(last: u8) -> [u8; 6] {
    [2, 0, 0x5e, 0x10, 0, last]
}

/// Returns an IPv4 packet to a subscriber: its EtherType and bytes.
pub fn ipv4(subscriber: [u8; 4]) -> (u16, Vec<u8>) {
    let mut packet = vec![0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend(FAR4);
    packet.extend(subscriber);
    packet.resize(60, 0);
    (0x0800, packet)
}

/// Returns an IPv6 packet to a subscriber.
pub fn ipv6(subscriber: &str) -> (u16, Vec<u8>) {
    let octets = |text: &str| {
        text.parse::<std::net::Ipv6Addr>()
            .expect("an address")
            .octets()
    };
    let mut packet = vec![0x60, 0, 0, 0, 0, 40, 17, 64];
    packet.extend(octets(FAR6));
    packet.extend(octets(subscriber));
    packet.resize(80, 0);
    (0x86dd, packet)
}

/// Returns a VLAN tag with its payload.
pub fn tag(kind: u16, control: u16, (protocol, within): (u16, Vec<u8>)) -> (u16, Vec<u8>) {
    let mut bytes = [control, protocol].map(u16::to_be_bytes).concat();
    bytes.extend(within);
    (kind, bytes)
}

/// Returns a PPPoE session frame. The payload has an EtherType of IP, or a PPP protocol number.
pub fn pppoe(session: u16, (protocol, within): (u16, Vec<u8>)) -> (u16, Vec<u8>) {
    let protocol = match protocol {
        0x0800 => 0x0021,
        0x86dd => 0x0057,
        other => other,
    };
    let length = within.len() as u16 + 2;
    let mut bytes = vec![0x11, 0];
    bytes.extend([session, length, protocol].map(u16::to_be_bytes).concat());
    bytes.extend(within);
    (0x8864, bytes)
}

impl Frame {
    /// Returns the bytes of the frame: to the subscriber, or with `is_up` from it.
    pub fn bytes(&self, is_up: bool) -> Vec<u8> {
        let mut within = self.within.clone();
        if is_up {
            turn(self.protocol, &mut within);
        }
        let (own, peer) = (mac(self.subscriber), mac(PEER));
        let ends = if is_up { [peer, own] } else { [own, peer] };
        let mut bytes = ends.concat();
        bytes.extend(self.protocol.to_be_bytes());
        bytes.extend(within);
        bytes
    }
}

/// Swaps the addresses of a packet below any tags and sessions.
fn turn(protocol: u16, bytes: &mut [u8]) {
    let next = |bytes: &[u8], at: usize| {
        let own = bytes.get(at..at + 2);
        own.map_or(0, |own| u16::from_be_bytes([own[0], own[1]]))
    };
    match protocol {
        0x8100 | 0x88a8 if bytes.len() > 4 => turn(next(bytes, 2), &mut bytes[4..]),
        0x8864 if bytes.len() > 8 => turn(next(bytes, 6), &mut bytes[8..]),
        0x0800 | 0x0021 if bytes.len() >= 20 => bytes[12..20].rotate_left(4),
        0x86dd | 0x0057 if bytes.len() >= 40 => bytes[8..40].rotate_left(16),
        _ => {}
    }
}

/// A socket that sends frames on a device.
pub struct Wire {
    socket: OwnedFd,
    device: u32,
    is_up: bool,
}

impl Wire {
    /// Opens a socket for frames to subscribers, or with `is_up` from them.
    pub fn on(device: &str, is_up: bool) -> Self {
        #[expect(unsafe_code, reason = "std has no such socket")]
        // SAFETY: the call takes numbers and returns a descriptor or an error.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
        assert!(socket >= 0, "a socket for frames");
        #[expect(unsafe_code, reason = "std has no such socket")]
        // SAFETY: the descriptor is new, and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        Self {
            socket,
            device: crate::inside::net::ifindex(device),
            is_up,
        }
    }

    /// Sends a frame.
    pub fn send(&self, frame: &Frame) {
        let bytes = frame.bytes(self.is_up);
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: frame.protocol.to_be(),
            sll_ifindex: self.device as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 6,
            sll_addr: [0; 8],
        };
        #[expect(unsafe_code, reason = "std has no such socket")]
        // SAFETY: both pointers are to what their lengths say.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                0,
                (&raw const address).cast(),
                size_of_val(&address) as u32,
            )
        };
        assert_eq!(sent, bytes.len() as isize, "{frame:?}");
    }
}
