// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paths of devices to the internet, and sockets that are bound to one device.

use super::message;
use crate::Kernel;
use crate::error::KernelError;
use crate::link::{self, IFF_UP, IFINFOMSG};
use crate::netlink::wire::{self, Attrs};
use crate::observe::network::default_routes;
use libc::{
    AF_INET, AF_INET6, IFF_LOWER_UP, IFF_POINTOPOINT, IFF_RUNNING, IFLA_IFNAME, RTM_GETROUTE,
};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use weirgate_state::{DeviceName, IpVersion, LinkPath};
use weirgate_units::{Arrange as _, Inserted as _};

impl Kernel {
    /// Returns how each device leads to the internet: by the next hop that is stated for it,
    /// otherwise by the main table's default route with the lowest metric. Without such a route, a
    /// point-to-point device leads there directly, if it has an address that is not link-local:
    /// each such device has a link-local one for IPv6, whatever the provider offers.
    pub async fn link_paths(
        &self,
        devices: &[(&DeviceName, &[IpAddr])],
    ) -> Result<Vec<LinkPath>, KernelError> {
        let what = "listing network devices";
        let links = self.route.get(&link::list(), what, false).await?;
        let numbered: BTreeMap<DeviceName, (u32, u32)> = links
            .iter()
            .filter_map(|payload| {
                let name = Attrs::after(payload, IFINFOMSG).text(IFLA_IFNAME)?;
                let numbers = (wire::u32_at(payload, 4)?, wire::u32_at(payload, 8)?);
                Some((DeviceName::new(name)?, numbers))
            })
            .inserted();
        let names = self.names().await?;
        let mut defaults = Vec::new();
        for (version, family) in [(IpVersion::V4, AF_INET), (IpVersion::V6, AF_INET6)] {
            let ask = message::asking(RTM_GETROUTE, family);
            let routes = self.route.get(&ask, "listing routes", false).await?;
            // A kernel without this family lists all others instead.
            let own = routes
                .iter()
                .filter(|one| wire::u8_at(one, 0).map(i32::from) == Some(family));
            let found = own.flat_map(|one| default_routes(one, &names));
            defaults.extend(found.map(|route| (version, route)));
        }
        defaults.arrange_by_key(|(_, route)| route.metric);
        let subnets = self.subnets().await?;
        let path = |(device, stated): &(&DeviceName, &[IpAddr])| {
            let (index, flags) = numbered.get(*device).copied().unzip();
            let flags = flags.unwrap_or(0);
            let has = |flag: i32| flags & flag as u32 != 0;
            let mut path = LinkPath {
                index,
                up: flags & IFF_UP != 0 && has(IFF_LOWER_UP),
                running: has(IFF_RUNNING),
                ..LinkPath::default()
            };
            let own = subnets.iter().filter(|one| one.device == device.as_str());
            path.addresses.extend(own.map(|subnet| subnet.own));
            for version in IpVersion::BOTH {
                let is_of = |address: &IpAddr| address.is_ipv4() == (version == IpVersion::V4);
                let known = defaults
                    .iter()
                    .find(|(of, route)| *of == version && route.device == **device);
                let is_local = |address: &IpAddr| match address {
                    IpAddr::V4(_) => false,
                    IpAddr::V6(address) => address.is_unicast_link_local(),
                };
                let mut own = path.addresses.iter();
                let direct = has(IFF_POINTOPOINT) && own.any(|one| is_of(one) && !is_local(one));
                let hop = match stated.iter().find(|one| is_of(one)) {
                    Some(stated) => Some(Some(*stated)),
                    None if !stated.is_empty() => None,
                    None => known
                        .map(|(_, route)| route.gateway)
                        .or(direct.then_some(None)),
                };
                path.hops.extend(hop.map(|hop| (version, hop)));
            }
            path
        };
        Ok(devices.iter().map(path).collect())
    }
}

/// Binds a socket to one device (socket(7), `SO_BINDTODEVICE`). Changing an existing binding needs
/// CAP_NET_RAW.
///
/// # Errors
/// If the kernel refuses: there is no such device, or it is not permitted.
pub fn bind_to_device(socket: &impl AsFd, device: &DeviceName) -> io::Result<()> {
    let name = device.as_str().as_bytes();
    set_option(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name)
}

/// `ICMPV6_FILTER` (include/uapi/linux/icmpv6.h).
const ICMPV6_FILTER: i32 = 1;

/// Lets a raw socket of `ICMPv6` receive messages of one type only (RFC 3542 section 3.2).
///
/// # Errors
/// If the kernel refuses: it is another kind of socket.
pub fn receive_only(socket: &impl AsFd, kind: u8) -> io::Result<()> {
    // A bit for each type, in words of the host's order; those that are set are not received.
    let mut words = [u32::MAX; 8];
    words[usize::from(kind / 32)] &= !(1 << (kind % 32));
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    set_option(socket, libc::SOL_ICMPV6, ICMPV6_FILTER, &bytes)
}

#[expect(unsafe_code, reason = "no crate of the tree has these options")]
fn set_option(socket: &impl AsFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the kernel reads `value.len()` bytes.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns whether the kernel drops packets that arrive through this device if replies would leave
/// through another one (`rp_filter` of 1, networking/ip-sysctl.rst), in the calling thread's
/// namespace.
#[must_use]
pub fn checks_sources(device: &DeviceName) -> bool {
    let value = |name: &str| -> u8 {
        let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
        let text = fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    value("all").max(value(device.as_str())) == 1
}
