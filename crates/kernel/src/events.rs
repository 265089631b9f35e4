// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Word from the kernel that something changed: devices, their addresses,
//! their qdiscs. What changed is then looked up; the words themselves may be
//! lost when there are too many.

use crate::error::KernelError;
use nlink::netlink::{NetlinkSocket, Protocol};
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Multicast groups (linux/rtnetlink.h).
const GROUPS: [u32; 4] = [
    1, // RTNLGRP_LINK
    4, // RTNLGRP_TC
    5, // RTNLGRP_IPV4_IFADDR
    9, // RTNLGRP_IPV6_IFADDR
];

/// A listener in the calling thread's namespace.
pub struct Events(NetlinkSocket);

impl Events {
    /// Listens from now on. Needs a tokio runtime.
    pub fn open() -> Result<Self, KernelError> {
        let failed = |source| KernelError::Socket {
            doing: "listening for changes of devices",
            source,
        };
        let socket = NetlinkSocket::new(Protocol::Route).map_err(failed)?;
        for group in GROUPS {
            socket.add_membership(group).map_err(failed)?;
        }
        Ok(Self(socket))
    }

    /// Waits until something changed. Words that were lost count as one: more
    /// were said than could be kept.
    pub async fn next(&self) {
        // An error here is ENOBUFS, or a socket that the kernel took away,
        // after which looking at what is there is right as well.
        let _ = self.0.recv_msg().await;
        while let Ok(Some(_)) = self.0.try_recv_msg() {}
    }
}

/// Puts a non-blocking file descriptor that is read into the event loop: for
/// other things of the kernel's that tell, such as timers and inotify.
#[expect(
    unsafe_code,
    reason = "tokio wants the stability of the descriptor asserted"
)]
pub fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is valid and stays the same descriptor until it is
    // dropped, which the `AsyncFd` that owns it does after deregistering.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}
