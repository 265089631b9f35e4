// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Promiscuous mode of a device, for as long as a value lives.

use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Keeps a device promiscuous: it receives frames for other Ethernet addresses, too.
///
/// The mode belongs to a packet socket (`PACKET_MR_PROMISC`, packet(7)). The kernel therefore ends
/// it with the process, however that ends, and counts it beside the mode that others set.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Makes the device with this number promiscuous. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// What the kernel says: no capability, or no such device.
    #[expect(unsafe_code, reason = "rustix does not have this socket option")]
    pub fn on(ifindex: u32) -> io::Result<Self> {
        // Without a protocol the socket itself receives nothing.
        let socket = net::socket_with(
            AddressFamily::PACKET,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let wanted = libc::packet_mreq {
            mr_ifindex: ifindex.cast_signed(),
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        // SAFETY: the option's value is a `packet_mreq` that lives through the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_ADD_MEMBERSHIP,
                (&raw const wanted).cast(),
                size_of_val(&wanted) as libc::socklen_t,
            )
        };
        if result == 0 {
            Ok(Self { _socket: socket })
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
