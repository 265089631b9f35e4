// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network of an address, as far as the address shows it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the network that the owner of an address may have as a whole: the /24 of an IPv4
/// address, the /64 of an IPv6 address. Limits per peer are counted by network.
#[must_use]
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => Ipv4Addr::from(u32::from(address) & 0xffff_ff00).into(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::network;

    #[test]
    fn a_network_is_its_lowest_address() {
        for (address, lowest) in [
            ("192.0.2.77", "192.0.2.0"),
            ("::ffff:192.0.2.77", "192.0.2.0"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ] {
            let [address, lowest] = [address, lowest].map(|text| text.parse().unwrap());
            assert_eq!(network(address), lowest);
        }
    }
}
