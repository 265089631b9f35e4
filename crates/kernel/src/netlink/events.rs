// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Notifications of the kernel about changes of devices, addresses, qdiscs and weirgate's own
//! tables. The caller then reads the present state, because notifications may be lost when there
//! are too many.

use crate::error::KernelError;
use crate::link::{self, MARK};
#[cfg(feature = "played")]
use crate::netlink::played::{Played, PlayedAnswer};
use crate::netlink::socket::Socket;
use crate::netlink::wire::{self, Attrs};
use crate::nft::NFGENMSG;
use libc::{NDA_DST, NUD_FAILED, RTM_NEWNEIGH, RTNLGRP_LINK, RTNLGRP_NEIGH};
use nlink::netlink::nftables::NFTA_TABLE_NAME;
use nlink::netlink::{MessageIter, NetlinkSocket, Protocol};
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use weirgate_state::DeviceName;

/// The notifications to receive, in addition to those about weirgate's own tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Devices, their addresses and qdiscs.
    Devices,
    /// Devices, their addresses, routes and routing rules.
    Routes,
}

impl Topic {
    /// Returns the multicast groups (linux/rtnetlink.h).
    const fn groups(self) -> &'static [u32] {
        match self {
            // RTNLGRP_LINK, _TC, _IPV4_IFADDR, _IPV6_IFADDR.
            Self::Devices => &[1, 4, 5, 9],
            // RTNLGRP_LINK, _IPV4_IFADDR, _IPV4_ROUTE, _IPV4_RULE, _IPV6_IFADDR,
            // _IPV6_ROUTE, _IPV6_RULE.
            Self::Routes => &[1, 5, 7, 8, 9, 11, 19],
        }
    }
}

/// linux/neighbour.h.
const NDMSG: usize = 12;

/// The notifications of nf_tables (`NFNLGRP_NFTABLES`, linux/netfilter/nfnetlink.h). A firewall
/// that is reloaded may flush the tables of other programs.
const TABLES: u32 = 7;

/// A listener in the calling thread's namespace.
pub struct Events {
    route: Socket,
    tables: Socket,
}

impl Events {
    /// Subscribes to notifications. Needs a tokio runtime.
    pub fn open(topic: Topic) -> Result<Self, KernelError> {
        let failed = |error| KernelError::socket("listening for changes of devices", &error);
        let socket = NetlinkSocket::new(Protocol::Route).map_err(failed)?;
        for group in topic.groups() {
            socket.add_membership(*group).map_err(failed)?;
        }
        let tables = NetlinkSocket::new(Protocol::Netfilter).map_err(failed)?;
        tables.add_membership(TABLES).map_err(failed)?;
        Ok(Self {
            route: Socket::Netlink(socket),
            tables: Socket::Netlink(tables),
        })
    }

    /// Creates a listener that receives these notifications.
    #[cfg(feature = "played")]
    #[must_use]
    pub fn played(route: Vec<PlayedAnswer>, tables: Vec<PlayedAnswer>) -> Self {
        Self {
            route: Socket::Played(Played::new(route)),
            tables: Socket::Played(Played::new(tables)),
        }
    }

    /// Waits until something has changed. A loss of notifications counts as a change.
    pub async fn next(&self) {
        loop {
            // An error here is ENOBUFS, or the kernel closed the socket. In both cases it is right
            // to read the present state.
            let concerns = tokio::select! {
                _ = self.route.word() => true,
                message = self.tables.word() => message.map_or(true, |message| of_ours(&message)),
            };
            if concerns {
                while let Ok(Some(_)) = self.route.queued_word() {}
                while let Ok(Some(_)) = self.tables.queued_word() {}
                return;
            }
        }
    }
}

/// A listener for devices only, which returns their names.
pub struct DeviceNews(Socket);

impl DeviceNews {
    /// Subscribes in the calling thread's namespace. Needs a tokio runtime.
    pub fn open() -> Result<Self, KernelError> {
        member(RTNLGRP_LINK, "listening for devices").map(Self)
    }

    /// Creates a listener that receives these notifications.
    #[cfg(feature = "played")]
    #[must_use]
    pub fn played(words: Vec<PlayedAnswer>) -> Self {
        Self(Socket::Played(Played::new(words)))
    }

    /// Waits for devices that appeared, disappeared or changed. Returns `None` if notifications
    /// were lost, so that any device may have changed. Cancel-safe: it may be dropped and called
    /// again.
    pub async fn next(&self) -> Option<BTreeSet<DeviceName>> {
        heard(&self.0, |_, payload| Some(link::read(payload)?.name)).await
    }
}

/// A listener for neighbours that do not answer ARP requests or neighbour solicitations.
pub struct LostNeighbours(Socket);

impl LostNeighbours {
    /// Subscribes in the calling thread's namespace. Needs a tokio runtime.
    pub fn open() -> Result<Self, KernelError> {
        member(RTNLGRP_NEIGH, "listening for neighbours").map(Self)
    }

    /// Waits for changes of neighbours. Returns those that were lost, each as interface index and
    /// address; often none. Cancel-safe: it may be dropped and called again.
    pub async fn next(&self) -> BTreeSet<(u32, IpAddr)> {
        heard(&self.0, lost).await.unwrap_or_default()
    }
}

/// Opens a socket that is a member of this group.
fn member(group: u32, doing: &'static str) -> Result<Socket, KernelError> {
    let failed = |error| KernelError::socket(doing, &error);
    let socket = NetlinkSocket::new(Protocol::Route).map_err(failed)?;
    socket.add_membership(group).map_err(failed)?;
    Ok(Socket::Netlink(socket))
}

/// Waits for messages. Returns what `read` finds in these and in the queued ones, from the type and
/// the payload of each; `None` if messages were lost.
async fn heard<T: Ord>(
    socket: &Socket,
    read: impl Fn(u16, &[u8]) -> Option<T>,
) -> Option<BTreeSet<T>> {
    let mut found = BTreeSet::new();
    let mut message = socket.word().await.ok()?;
    loop {
        let messages = MessageIter::new(&message).map_while(Result::ok);
        found.extend(messages.filter_map(|(header, payload)| read(header.nlmsg_type, payload)));
        match socket.queued_word() {
            Ok(Some(more)) => message = more,
            Ok(None) => return Some(found),
            Err(_) => return None,
        }
    }
}

/// Returns the interface index and the address of a neighbour that was lost (`struct ndmsg`,
/// linux/neighbour.h). An entry that the kernel deletes (`RTM_DELNEIGH`) keeps its last state, so
/// it is ignored.
fn lost(kind: u16, payload: &[u8]) -> Option<(u32, IpAddr)> {
    let (device, state) = (wire::u32_at(payload, 4)?, wire::u16_at(payload, 8)?);
    let address = wire::address(Attrs::after(payload, NDMSG).bytes(NDA_DST)?)?;
    (kind == RTM_NEWNEIGH && state & NUD_FAILED != 0).then_some((device, address))
}

/// Returns whether a datagram of nf_tables is about a table of weirgate's; those of other programs
/// may change all the time. In every message the first attribute is the table.
fn of_ours(datagram: &[u8]) -> bool {
    MessageIter::new(datagram)
        .map_while(Result::ok)
        .any(|(_, payload)| {
            let table = Attrs::after(payload, NFGENMSG).text(NFTA_TABLE_NAME);
            table.is_some_and(|name| name.starts_with(MARK))
        })
}

/// Registers a non-blocking descriptor in the event loop, for reading. This is also used for other
/// notifications of the kernel, such as timers and inotify.
#[expect(
    unsafe_code,
    reason = "tokio wants the stability of the descriptor asserted"
)]
pub fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is valid and stays the same descriptor until it is dropped. The
    // `AsyncFd` that owns it drops it after deregistering.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{NUD_REACHABLE, RTM_DELNEIGH};
    use std::net::Ipv4Addr;

    const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 1);

    /// Returns a neighbour message of the kernel.
    fn neighbour(device: u32, state: u16) -> Vec<u8> {
        let mut bytes = vec![libc::AF_INET as u8, 0, 0, 0];
        bytes.extend(device.to_ne_bytes());
        bytes.extend(state.to_ne_bytes());
        bytes.extend([0_u8; 2]);
        bytes.extend(8_u16.to_ne_bytes());
        bytes.extend(NDA_DST.to_ne_bytes());
        bytes.extend(ROUTER.octets());
        bytes
    }

    /// Next hops of two links may have the same address.
    #[test]
    fn a_neighbour_is_lost_on_its_device_alone() {
        for device in [2, 3] {
            let found = lost(RTM_NEWNEIGH, &neighbour(device, NUD_FAILED));
            assert_eq!(found, Some((device, IpAddr::V4(ROUTER))));
        }
        assert_eq!(lost(RTM_NEWNEIGH, &neighbour(2, NUD_REACHABLE)), None);
        assert_eq!(lost(RTM_DELNEIGH, &neighbour(2, NUD_FAILED)), None);
        let whole = neighbour(2, NUD_FAILED);
        for end in 0..whole.len() {
            assert_eq!(lost(RTM_NEWNEIGH, &whole[..end]), None);
        }
    }
}
