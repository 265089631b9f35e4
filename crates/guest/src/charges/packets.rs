// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends packets on the devices: IP packets of any size, even smaller than a header, which no IP
//! socket would send.
//!
//! For packet sockets of type datagram, the device itself adds the link layer header, as for the
//! IP stack (packet(7)). Only PPPoE's header is written here, in place of a PPP device.

use super::devices;
use anyhow::{Context, Result, ensure};
use nlink::{Connection, Route};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

const ETH_P_IP: u16 = libc::ETH_P_IP as u16;
const ETH_P_PPP_SES: u16 = libc::ETH_P_PPP_SES as u16;

/// Protocol number of PPP for IPv4 (RFC 1332).
const PPP_IP: u16 = 0x0021;

/// Devices on which packets are sent, and whether with PPPoE. The other devices get the packets
/// from these.
const SENDERS: [(&str, bool); 5] = [
    ("veth", false),
    ("vlan", false),
    ("inline", false),
    ("pppoe-lower", true),
    ("tun", false),
];

/// The sockets and files through which packets are sent.
#[derive(Debug)]
pub(super) struct Inlets {
    senders: Vec<Sender>,
    tun: File,
}

#[derive(Debug)]
struct Sender {
    device: &'static str,
    socket: OwnedFd,
    to: libc::sockaddr_ll,
    pppoe: bool,
}

impl Inlets {
    pub(super) async fn open(route: &Connection<Route>, tun: File) -> Result<Self> {
        let flags = fcntl_getfl(&tun).context("read the TUN device's flags")?;
        fcntl_setfl(&tun, flags | OFlags::NONBLOCK).context("set the TUN device's flags")?;
        let mut senders = Vec::new();
        for (device, pppoe) in SENDERS {
            let index = devices::index(route, device).await?;
            // With protocol 0, the socket receives nothing.
            let socket = socket_with(
                AddressFamily::PACKET,
                SocketType::DGRAM,
                SocketFlags::CLOEXEC,
                None,
            );
            senders.push(Sender {
                device,
                socket: socket.context("open a packet socket")?,
                to: everyone(index, if pppoe { ETH_P_PPP_SES } else { ETH_P_IP }),
                pppoe,
            });
        }
        Ok(Self { senders, tun })
    }

    /// Sends a packet of `size` bytes on every sending device, and one into the TUN device.
    pub(super) fn send(&mut self, size: u32) -> Result<()> {
        let packet = ip_packet(size);
        for sender in &self.senders {
            let sent = sender.send(&packet);
            sent.with_context(|| format!("on {}", sender.device))?;
        }
        // Read the packet that was sent on the TUN device, and check that it is complete.
        let mut room = [0; 4_096];
        let length = self.tun.read(&mut room).context("read from tun")?;
        ensure!(
            room[..length] == packet[..],
            "tun carried another packet than the one sent"
        );
        self.tun.write_all(&packet).context("write to tun")
    }
}

impl Sender {
    fn send(&self, packet: &[u8]) -> io::Result<()> {
        if self.pppoe {
            let mut whole = session(packet.len()).to_vec();
            whole.extend_from_slice(packet);
            self.send_whole(&whole)
        } else {
            self.send_whole(packet)
        }
    }

    #[expect(unsafe_code, reason = "rustix has no link-layer socket address")]
    fn send_whole(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the socket is open. The packet and the address are valid for reads of the
        // given lengths, and only read.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                0,
                (&raw const self.to).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        match usize::try_from(sent) {
            Err(_) => Err(io::Error::last_os_error()),
            Ok(sent) if sent == bytes.len() => Ok(()),
            Ok(_) => Err(Errno::MSGSIZE.into()),
        }
    }
}

/// Returns the link's broadcast address, for a protocol.
fn everyone(index: u32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0xff; 8],
    }
}

/// Returns `size` bytes that begin like IPv4, by which TUN detects the protocol. Receivers drop
/// the packet because of its checksum.
fn ip_packet(size: u32) -> Vec<u8> {
    let mut packet = vec![0; size as usize];
    if let Some(first) = packet.first_mut() {
        *first = 0x45;
    }
    packet
}

/// Returns the headers of PPPoE (RFC 2516, section 4: version, type, code, session, length) and
/// PPP for an IP packet.
fn session(ip_len: usize) -> [u8; 8] {
    let [high, low] = (ip_len as u16 + 2).to_be_bytes();
    let [first, second] = PPP_IP.to_be_bytes();
    [0x11, 0, 0, 1, high, low, first, second]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_their_size() {
        assert_eq!(ip_packet(1), [0x45]);
        assert_eq!(ip_packet(2_047).len(), 2_047);
        assert_eq!(session(1_500), [0x11, 0, 0, 1, 0x05, 0xde, 0, 0x21]);
    }
}
