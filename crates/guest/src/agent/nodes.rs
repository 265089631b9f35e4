// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The topology's nodes: one network namespace per node, and its addresses.
//!
//! Namespaces have no name. Each exists as long as this process holds its file descriptor, so
//! nothing is left of a run however it ends. Module `topology` creates what is in them.

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use weirgate_experiment::Node;

/// The gateway's device towards the hosts.
pub const LAN: &str = "lan";
/// The gateway's device towards the line.
pub const WAN: &str = "wan";
/// The provider's device towards the line.
pub const LINE: &str = "line";
/// The provider's device towards the servers.
pub const NET: &str = "net";
/// The only device of a host or a server.
pub const ETH: &str = "eth0";

/// The largest number of hosts for which there are addresses.
pub const MAX_HOSTS: u16 = 4_000;
/// The largest number of servers for which there are addresses.
pub const MAX_SERVERS: u16 = 240;

/// The namespaces of a run.
#[derive(Debug)]
pub struct Nodes {
    home: File,
    spaces: BTreeMap<Node, File>,
    modem: Option<File>,
}

impl Nodes {
    /// Creates an empty namespace for every node. Needs `CAP_SYS_ADMIN`.
    pub fn create(hosts: u16, servers: u16) -> Result<Self> {
        anyhow::ensure!(
            (1..=MAX_HOSTS).contains(&hosts),
            "the topology has {hosts} hosts; 1 to {MAX_HOSTS} are possible"
        );
        anyhow::ensure!(
            (1..=MAX_SERVERS).contains(&servers),
            "the topology has {servers} servers; 1 to {MAX_SERVERS} are possible"
        );
        let home = own_namespace().context("open the network namespace this runs in")?;
        let mut nodes = Self {
            home,
            spaces: BTreeMap::new(),
            modem: None,
        };
        let names = [Node::Gateway, Node::Provider]
            .into_iter()
            .chain((1..=hosts).map(Node::Host))
            .chain((1..=servers).map(Node::Server));
        for node in names {
            let space = nodes
                .new_space()
                .with_context(|| format!("make a network namespace for {}", name(node)))?;
            nodes.spaces.insert(node, space);
        }
        Ok(nodes)
    }

    /// Runs `body` with this thread in the node's namespace. Sockets and files that it opens
    /// stay in that namespace.
    pub fn enter<T>(&self, node: Node, body: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.inside(self.space(node)?, body)
    }

    /// Returns the namespace of a node.
    pub fn space(&self, node: Node) -> io::Result<BorrowedFd<'_>> {
        let space = self.spaces.get(&node).ok_or_else(|| {
            let text = format!("{} is not in the topology", name(node));
            io::Error::new(io::ErrorKind::NotFound, text)
        })?;
        Ok(space.as_fd())
    }

    /// Returns all nodes, in the order of [`Node`].
    pub fn all(&self) -> impl Iterator<Item = Node> + '_ {
        self.spaces.keys().copied()
    }

    /// Creates the namespace between gateway and provider, which a line in the kernel needs.
    pub(super) fn make_modem(&mut self) -> Result<()> {
        let space = self.new_space();
        self.modem = Some(space.context("make a network namespace for the modem")?);
        Ok(())
    }

    /// Runs `body` with this thread in the modem's namespace.
    pub(super) fn enter_modem<T>(&self, body: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.inside(self.modem()?, body)
    }

    /// Returns the modem's namespace.
    pub(super) fn modem(&self) -> io::Result<BorrowedFd<'_>> {
        let space = self.modem.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok(space.as_fd())
    }

    fn inside<T>(
        &self,
        space: BorrowedFd<'_>,
        body: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(space, network)?;
        let result = body();
        move_into_link_name_space(self.home.as_fd(), network)?;
        result
    }

    #[expect(
        unsafe_code,
        reason = "rustix marks unshare unsafe for the sake of FILES"
    )]
    fn new_space(&self) -> io::Result<File> {
        // SAFETY: only the network namespace is unshared; no file descriptor
        // or memory of this process changes its meaning.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
        let space = own_namespace();
        move_into_link_name_space(self.home.as_fd(), Some(LinkNameSpaceType::Network))?;
        space
    }
}

fn own_namespace() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

/// Returns the name of a node in texts: `host1`, `gateway`.
#[must_use]
pub fn name(node: Node) -> String {
    match node {
        Node::Host(number) => format!("host{number}"),
        Node::Gateway => "gateway".to_owned(),
        Node::Provider => "provider".to_owned(),
        Node::Server(number) => format!("server{number}"),
    }
}

/// Returns whether a node is the gateway or behind it.
#[must_use]
pub fn is_behind_gateway(node: Node) -> bool {
    matches!(node, Node::Host(_) | Node::Gateway)
}

/// Returns the address at which other nodes reach a node. For the gateway and the provider, it
/// is the address on the line.
#[must_use]
pub fn address(node: Node, ipv6: bool) -> IpAddr {
    if ipv6 {
        address_v6(node).into()
    } else {
        address_v4(node).into()
    }
}

fn address_v4(node: Node) -> Ipv4Addr {
    let after = |first: Ipv4Addr, number: u16| {
        Ipv4Addr::from_bits(first.to_bits() + 10 + u32::from(number))
    };
    match node {
        Node::Host(number) => after(Ipv4Addr::new(10, 0, 0, 0), number),
        Node::Gateway => Ipv4Addr::new(198, 51, 100, 2),
        Node::Provider => Ipv4Addr::new(198, 51, 100, 1),
        Node::Server(number) => after(Ipv4Addr::new(192, 0, 2, 0), number),
    }
}

fn address_v6(node: Node) -> Ipv6Addr {
    match node {
        Node::Host(number) => Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, digits(10 + number)),
        Node::Gateway => Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2),
        Node::Provider => Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1),
        Node::Server(number) => Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, digits(10 + number)),
    }
}

/// Returns the hexadecimal number with the same digits as the decimal one, so that host 1 is
/// `::11` in IPv6 and `.11` in IPv4.
fn digits(number: u16) -> u16 {
    [1_000, 100, 10, 1]
        .into_iter()
        .fold(0, |group, unit| (group << 4) | (number / unit % 10))
}

#[cfg(test)]
mod tests {
    use super::{MAX_HOSTS, MAX_SERVERS, Node, address};

    #[test]
    fn addresses_read_alike_in_both_families() {
        let text = |node, ipv6| address(node, ipv6).to_string();
        assert_eq!(text(Node::Host(1), false), "10.0.0.11");
        assert_eq!(text(Node::Host(1), true), "fd00:0:0:1::11");
        assert_eq!(text(Node::Server(2), false), "192.0.2.12");
        assert_eq!(text(Node::Server(2), true), "2001:db8:2::12");
        assert_eq!(text(Node::Host(290), false), "10.0.1.44");
        assert_eq!(text(Node::Host(290), true), "fd00:0:0:1::300");
        assert_eq!(text(Node::Host(MAX_HOSTS), true), "fd00:0:0:1::4010");
        assert_eq!(text(Node::Server(MAX_SERVERS), false), "192.0.2.250");
    }
}
