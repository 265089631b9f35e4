// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists for tests: circuits by number.

use std::fmt::Write as _;
use std::fs;

/// The first line of ShapedDevices.csv.
const HEADER: &str = "Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,\
                      Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment,\
                      VLAN,PPPoE Session\n";

/// Sites of every list.
pub const SITES: u32 = 10;

/// A circuit of a list.
pub struct CircuitLine {
    pub number: u32,
    /// The maximum rate in kbit/s.
    pub kbit: u32,
    /// Whether it has one address instead of prefixes of both versions.
    pub is_host: bool,
    /// The set of addresses, out of several for one number.
    pub variant: u8,
    /// Whether it has a MAC, a VLAN and a session too.
    pub has_frames: bool,
}

impl CircuitLine {
    /// Returns the IPv4 address or prefix.
    pub fn ipv4(&self) -> String {
        let [_, _, high, low] = self.number.to_be_bytes();
        let first = u32::from(self.variant) * 16 + (self.number >> 16);
        if self.is_host {
            return format!("100.{}.{high}.{low}", 64 + first);
        }
        // Eight addresses for each.
        let [_, _, high, low] = (self.number << 3).to_be_bytes();
        let first = u32::from(self.variant) * 16 + (self.number >> 13);
        format!("10.{}.{high}.{low}/29", 64 + first)
    }

    /// Returns the IPv6 prefix; empty for a circuit with one address.
    pub fn ipv6(&self) -> String {
        if self.is_host {
            return String::new();
        }
        let [_, first, high, low] = self.number.to_be_bytes();
        format!(
            "2001:db8:{:x}{first:02x}:{high:x}{low:02x}::/64",
            self.variant
        )
    }
}

impl CircuitLine {
    /// Returns the MAC, the VLAN and the session.
    fn frames(&self) -> [String; 3] {
        if !self.has_frames {
            return Default::default();
        }
        let [_, _, high, low] = self.number.to_be_bytes();
        let mac = format!("02:00:5e:{:02x}:{high:02x}:{low:02x}", self.variant);
        let vlan = format!("{}.{}", 100 + self.number / 4_000, 1 + self.number % 4_000);
        // Some of them are identified by the MAC, too.
        let session = match self.number % 3 {
            0 => self.number.to_string(),
            _ => format!("{}:{mac}", 10_000 + self.number % 7),
        };
        [mac, vlan, session]
    }
}

/// Writes a list of circuits below ten sites, whose rates are in Mbit/s; returns the
/// command's arguments.
pub fn written(name: &str, lines: &[CircuitLine], site_mbit: u32) -> String {
    let mut text = HEADER.to_owned();
    for line in lines {
        let [mac, vlan, session] = line.frames();
        let _ = writeln!(
            text,
            "{0},\"Street {0}, Town\",{0},router,site-{1},{mac},{2},{3},0,0,{4},1,,{vlan},{session}",
            line.number,
            line.number % SITES,
            line.ipv4(),
            line.ipv6(),
            f64::from(line.kbit) / 1e3,
        );
    }
    let sites: Vec<String> = (0..SITES)
        .map(|site| {
            format!(
                "\"site-{site}\": {{ \"downloadBandwidthMbps\": {site_mbit}, \
                 \"uploadBandwidthMbps\": {site_mbit} }}"
            )
        })
        .collect();
    let (devices, network) = (format!("/tmp/{name}.csv"), format!("/tmp/{name}.json"));
    fs::write(&devices, text).expect("a file");
    fs::write(&network, format!("{{ {} }}", sites.join(",\n"))).expect("a file");
    format!("{devices} {network}")
}
