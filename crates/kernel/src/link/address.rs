// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The addresses of the namespace's devices (linux/if_addr.h).

use crate::Kernel;
use crate::error::KernelError;
use crate::netlink::wire::{self, Attrs};
use libc::{IFA_ADDRESS, IFA_F_OPTIMISTIC, IFA_F_TENTATIVE, IFA_LOCAL, RTM_GETADDR};
use nlink::netlink::MessageBuilder;
use nlink::netlink::message::NLM_F_REQUEST;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `sizeof(struct ifaddrmsg)`.
const IFADDRMSG: usize = 8;

/// An address of a device, with its subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    /// The device.
    pub device: String,
    /// Its own address.
    pub own: IpAddr,
    /// The length of the prefix in bits.
    pub length: u8,
}

impl Subnet {
    /// Returns whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.own, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32_u32.saturating_sub(self.length.into());
                let part = |address: Ipv4Addr| u32::from(address).checked_shr(shift);
                part(own) == part(other)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128_u32.saturating_sub(self.length.into());
                let part = |address: Ipv6Addr| u128::from(address).checked_shr(shift);
                part(own) == part(other)
            }
            _ => false,
        }
    }
}

impl Kernel {
    /// Returns every address of every device, except those under duplicate address detection, from
    /// which nothing is sent (RFC 4862 section 5.4). Needs no privilege.
    pub async fn subnets(&self) -> Result<Vec<Subnet>, KernelError> {
        let links = self.links().await?;
        let mut message = MessageBuilder::new(RTM_GETADDR, NLM_F_REQUEST);
        message.append_bytes(&[0; IFADDRMSG]);
        let listed = self.route.get(&message, "listing addresses", false).await?;
        let read = |payload: &Vec<u8>| {
            let length = wire::u8_at(payload, 1)?;
            let flags = u32::from(wire::u8_at(payload, 2)?);
            if flags & (IFA_F_TENTATIVE | IFA_F_OPTIMISTIC) == IFA_F_TENTATIVE {
                return None;
            }
            let index = wire::u32_at(payload, 4)?;
            let attrs = Attrs::after(payload, IFADDRMSG);
            // On a point-to-point link `IFA_ADDRESS` is the peer's.
            let bytes = attrs
                .bytes(IFA_LOCAL)
                .or_else(|| attrs.bytes(IFA_ADDRESS))?;
            let own = match bytes.len() {
                4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
                16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
                _ => return None,
            };
            let link = links.iter().find(|link| link.index == index)?;
            let device = link.name.to_string();
            Some(Subnet {
                device,
                own,
                length,
            })
        };
        Ok(listed.iter().filter_map(read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_a_subnet() {
        let subnet = |own: &str, length| Subnet {
            device: "lan".to_owned(),
            own: own.parse().unwrap(),
            length,
        };
        let on =
            |own, length, address: &str| subnet(own, length).contains(address.parse().unwrap());
        assert!(on("192.168.1.1", 24, "192.168.1.77"));
        assert!(!on("192.168.1.1", 24, "192.168.2.77"));
        assert!(on("192.168.1.1", 32, "192.168.1.1"));
        assert!(!on("192.168.1.1", 32, "192.168.1.2"));
        assert!(on("2001:db8::1", 64, "2001:db8::9:1"));
        assert!(!on("2001:db8::1", 64, "192.168.1.1"));
        assert!(on("10.0.0.1", 0, "192.168.1.1"));
    }
}
