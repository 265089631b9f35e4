// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device through which this machine reaches a host, for the `device` field of a policy.
//!
//! It comes from the main routing table. Rules that select another table (ip-rule(8)) are not
//! followed.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `RTF_REJECT` (linux/ipv6_route.h): a route that rejects the packets it matches.
const REJECT: u32 = 0x0200;

/// Returns the device through which a host is reached, if a route leads to it.
pub fn towards(host: IpAddr) -> Option<String> {
    match host {
        IpAddr::V4(host) => read("/proc/net/route").and_then(|table| of_route(&table, host)),
        IpAddr::V6(host) => {
            read("/proc/net/ipv6_route").and_then(|table| of_ipv6_route(&table, host))
        }
    }
}

/// Returns the line `device = ...` of a policy for the link towards a host.
pub fn line(host: IpAddr) -> String {
    match towards(host) {
        Some(device) => format!("device = \"{device}\" # towards {host}"),
        None => "device = \"wan\" # write the device towards the line".to_owned(),
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Returns the device in `/proc/net/route` with the longest prefix, and among equals the smallest
/// metric.
///
/// The file prints addresses in network order as numbers in host order.
fn of_route(table: &str, host: Ipv4Addr) -> Option<String> {
    let host = u32::from_ne_bytes(host.octets());
    let routes = table.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [device, to, _, flags, _, _, metric, mask, ..] = words[..] else {
            return None;
        };
        let hex = |word| u32::from_str_radix(word, 16).ok();
        let (to, mask, metric) = (hex(to)?, hex(mask)?, metric.parse::<u32>().ok()?);
        let fits = host & mask == to && hex(flags)? & REJECT == 0;
        fits.then_some((mask.count_ones(), u32::MAX - metric, device))
    });
    routes.max().map(|(_, _, device)| device.to_owned())
}

/// Returns the device in `/proc/net/ipv6_route`, by the same rules.
fn of_ipv6_route(table: &str, host: Ipv6Addr) -> Option<String> {
    let routes = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [to, length, _, _, _, metric, _, _, flags, device] = words[..] else {
            return None;
        };
        let hex = |word| u32::from_str_radix(word, 16).ok();
        let (to, length) = (u128::from_str_radix(to, 16).ok()?, hex(length)?);
        let differ = u128::from(host) ^ to;
        let fits = differ.leading_zeros() >= length && hex(flags)? & REJECT == 0;
        fits.then_some((length, u32::MAX - hex(metric)?, device))
    });
    routes.max().map(|(_, _, device)| device.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_and_the_least_metric_decide() {
        let hex = |address: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(address));
        let (any, own) = (hex([0; 4]), hex([192, 0, 2, 0]));
        let (gateway, mask) = (hex([192, 0, 2, 1]), hex([255, 255, 255, 0]));
        let table = format!(
            "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
             wwan0 {any} {gateway} 0003 0 0 700 {any} 0 0 0\n\
             eth1 {any} {gateway} 0003 0 0 100 {any} 0 0 0\n\
             lan {own} {any} 0001 0 0 0 {mask} 0 0 0\n"
        );
        let device = |host: [u8; 4]| of_route(&table, Ipv4Addr::from(host));
        assert_eq!(device([198, 51, 100, 7]).as_deref(), Some("eth1"));
        assert_eq!(device([192, 0, 2, 9]).as_deref(), Some("lan"));
        assert_eq!(of_route("Iface\n", Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn refused_destinations_have_no_device() {
        let zero = "0".repeat(32);
        let own = "20010db8000000000000000000000000";
        let table = format!(
            "{own} 20 {zero} 00 {zero} 00000100 00000001 00000000 00000001 lan\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200 lo\n"
        );
        let device = |host: &str| of_ipv6_route(&table, host.parse().expect("an address"));
        assert_eq!(device("2001:db8::7").as_deref(), Some("lan"));
        assert_eq!(device("2001:db9::7"), None);
    }
}
