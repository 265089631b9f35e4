// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of inside hosts, from the leases of the local DHCP server and from `/etc/hosts`. There
//! are no lookups over the network.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use weirgate_units::Inserted as _;

/// The lease files of dnsmasq in Debian and OpenWrt. A line has expiry, hardware address,
/// address, name and client (`dnsmasq(8)`, `--dhcp-leasefile`).
const DNSMASQ: [&str; 3] = [
    "/var/lib/misc/dnsmasq.leases",
    "/var/lib/dnsmasq/dnsmasq.leases",
    "/tmp/dhcp.leases",
];
/// The lease files of Kea: CSV whose first line names the columns (Kea ARM, "Lease Storage").
const KEA: [&str; 2] = [
    "/var/lib/kea/kea-leases4.csv",
    "/var/lib/kea/kea-leases6.csv",
];
/// The largest file that is read; that of a home or a dormitory is smaller.
const LONGEST: u64 = 4 << 20;

/// Returns the known names by address. Unreadable files are ignored.
pub(crate) fn host_names() -> BTreeMap<IpAddr, String> {
    let text = |path: &str| {
        let short = std::fs::metadata(Path::new(path)).is_ok_and(|file| file.len() <= LONGEST);
        let text = short.then(|| std::fs::read_to_string(path).ok());
        text.flatten().unwrap_or_default()
    };
    let mut names = hosts(&text("/etc/hosts"));
    names.extend(KEA.iter().flat_map(|path| kea(&text(path))));
    names.extend(DNSMASQ.iter().flat_map(|path| dnsmasq(&text(path))));
    names
}

/// Returns a name that is safe to display; `None` otherwise.
fn name(text: &str) -> Option<String> {
    let text = text.trim_end_matches('.');
    let letter = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
    let fine = !text.is_empty() && text.len() <= 253 && text.chars().all(letter);
    fine.then(|| text.to_owned())
}

fn dnsmasq(text: &str) -> BTreeMap<IpAddr, String> {
    let lease = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        Some((words.next()?.parse().ok()?, name(words.next()?)?))
    };
    text.lines().filter_map(lease).inserted()
}

fn kea(text: &str) -> BTreeMap<IpAddr, String> {
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let columns = lines.next().unwrap_or_default();
    let column = |wanted| columns.iter().position(|name| *name == wanted);
    let Some((address, host)) = column("address").zip(column("hostname")) else {
        return BTreeMap::new();
    };
    let lease = |line: Vec<&str>| {
        let address = line.get(address)?.parse().ok()?;
        Some((address, name(line.get(host)?)?))
    };
    lines.filter_map(lease).inserted()
}

/// Parses `/etc/hosts` (hosts(5)): the first name of each address, except those of this machine.
fn hosts(text: &str) -> BTreeMap<IpAddr, String> {
    let host = |line: &str| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        let one = !address.is_loopback() && !address.is_multicast();
        Some((address, name(words.next()?)?)).filter(|_| one)
    };
    text.lines().filter_map(host).inserted()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(names: BTreeMap<IpAddr, String>) -> Vec<String> {
        let pairs = names.into_iter();
        pairs
            .map(|(address, name)| format!("{address} {name}"))
            .collect()
    }

    #[test]
    fn names_are_read_from_leases_and_hosts() {
        let leases = "1764000000 02:00:00:00:00:01 192.168.1.20 anna-laptop 01:02\n\
             1764000000 02:00:00:00:00:02 192.168.1.21 * *\n\
             1764000000 1 2001:db8::20 telephone 00:01\nduid 00:01\n";
        let found = pairs(dnsmasq(leases));
        assert_eq!(
            found,
            ["192.168.1.20 anna-laptop", "2001:db8::20 telephone"]
        );
        let leases = "address,hwaddr,valid_lifetime,hostname\n\
             192.0.2.9,02:00,4000,printer.example.\n192.0.2.10,02:01,4000,\n";
        assert_eq!(pairs(kea(leases)), ["192.0.2.9 printer.example"]);
        assert!(kea("no,columns\n1,2\n").is_empty());
        let text = "127.0.0.1 localhost\nff02::1 all-nodes\n# 192.0.2.1 old\n\
             192.0.2.3 nas nas.example\n192.0.2.4 \u{1b}[31m\n";
        assert_eq!(pairs(hosts(text)), ["192.0.2.3 nas"]);
    }
}
