// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables as nft(8) would take them, for the reader of a plan.

use std::fmt::Write as _;
use weirgate_state::{Chain, Hook, IpVersion, Match, PROTOCOLS_WITH_PORTS, Rule, Table};

/// The file that `nft -f` would take for the table.
pub(crate) fn table_text(table: &Table) -> String {
    let name = crate::action::table_name(table.netdev, &table.name);
    let mut text = format!("table {name}\ndelete table {name}\ntable {name} {{\n");
    let rules = || table.chains.iter().flat_map(|chain| &chain.rules);
    for (version, set) in [
        (IpVersion::V4, "ip length . ip hdrlength . tcp doff"),
        (IpVersion::V6, "ip6 length . tcp doff"),
    ] {
        let empty = Match::TcpPayloadEmpty(version);
        if rules().any(|rule| rule.matches.contains(&empty)) {
            let number = if version == IpVersion::V4 { 4 } else { 6 };
            let _ = writeln!(
                text,
                "  # set tcp_empty_v{number}: each {set} of a segment without payload"
            );
        }
    }
    for chain in &table.chains {
        chain_text(&mut text, chain, table.netdev);
    }
    text.push_str("}\n");
    text
}

fn chain_text(text: &mut String, chain: &Chain, netdev: bool) {
    let (hook, first, end, last) = match &chain.hook {
        Hook::Postrouting { device } => (
            String::from("type filter hook postrouting priority mangle; policy accept;"),
            Some(format!("oifname != \"{device}\" accept")),
            String::from("accept"),
            None,
        ),
        Hook::Ingress {
            device,
            redirect_to,
        } => (
            format!("type filter hook ingress device \"{device}\" priority filter; policy accept;"),
            None,
            format!("fwd to \"{redirect_to}\""),
            Some(format!("fwd to \"{redirect_to}\"")),
        ),
        Hook::Other(text) => (text.clone(), None, String::from("accept"), None),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  chain {} {{\n    {hook}", chain.name);
    if let Some(line) = first {
        let _ = writeln!(text, "    {line}");
    }
    for rule in &chain.rules {
        let origin = rule.origin.to_string().replace('"', "'");
        let comment = match origin.as_str() {
            "" => String::new(),
            words => format!(" comment \"{words}\""),
        };
        let _ = writeln!(text, "    {} {end}{comment}", rule_text(rule, netdev));
    }
    if let Some(line) = last {
        let _ = writeln!(text, "    {line}");
    }
    text.push_str("  }\n");
}

/// One rule without its ending.
pub(crate) fn rule_text(rule: &Rule, netdev: bool) -> String {
    let rule = rule.canonical();
    let mut words: Vec<String> = Vec::new();
    let tests_port = rule
        .matches
        .iter()
        .any(|m| matches!(m, Match::SourcePort(..) | Match::DestinationPort(..)));
    let names_protocol = rule.matches.iter().any(|m| m.protocol().is_some());
    if tests_port && !names_protocol {
        let list = PROTOCOLS_WITH_PORTS.map(|number| number.to_string());
        words.push(format!("meta l4proto {{ {} }}", list.join(", ")));
    }
    words.extend(rule.matches.iter().map(|m| match_text(m, netdev)));
    words.push(format!("meta priority set {}", class_text(rule.class)));
    words.join(" ")
}

fn class_text(class: weirgate_units::Handle) -> String {
    format!("{:x}:{:x}", class.major, class.minor)
}

fn range(from: u16, to: u16) -> String {
    if from == to {
        from.to_string()
    } else {
        format!("{from}-{to}")
    }
}

fn match_text(candidate: &Match, netdev: bool) -> String {
    let ip = |version: &IpVersion| match version {
        IpVersion::V4 => "ip",
        IpVersion::V6 => "ip6",
    };
    let of = |address: &std::net::IpAddr| if address.is_ipv4() { "ip" } else { "ip6" };
    match candidate {
        Match::Version(version) => match (netdev, version) {
            (true, version) => format!("meta protocol {}", ip(version)),
            (false, IpVersion::V4) => String::from("meta nfproto ipv4"),
            (false, IpVersion::V6) => String::from("meta nfproto ipv6"),
        },
        Match::Protocol(number) => format!("meta l4proto {number}"),
        Match::Source { address, prefix } => {
            format!("{} saddr {address}/{prefix}", of(address))
        }
        Match::Destination { address, prefix } => {
            format!("{} daddr {address}/{prefix}", of(address))
        }
        Match::SourcePort(from, to) => format!("th sport {}", range(*from, *to)),
        Match::DestinationPort(from, to) => format!("th dport {}", range(*from, *to)),
        Match::Dscp(version, dscp) => format!("{} dscp {:#04x}", ip(version), dscp.value()),
        Match::Length(IpVersion::V4, from, to) => format!("ip length {}", range(*from, *to)),
        Match::Length(IpVersion::V6, from, to) => format!(
            "ip6 length {}",
            range(from.saturating_sub(40), to.saturating_sub(40))
        ),
        Match::TcpFlags { mask, value } => {
            format!("meta l4proto 6 tcp flags & {mask:#04x} == {value:#04x}")
        }
        Match::TcpPayloadEmpty(IpVersion::V4) => {
            String::from("ip length . ip hdrlength . tcp doff @tcp_empty_v4")
        }
        Match::TcpPayloadEmpty(IpVersion::V6) => {
            String::from("ip6 length . tcp doff @tcp_empty_v6")
        }
        Match::Icmpv6Type(from, to) => {
            format!(
                "meta l4proto 58 icmpv6 type {}",
                range(u16::from(*from), u16::from(*to))
            )
        }
        Match::InputDevice(device) => format!("iifname \"{device}\""),
        Match::NotInputDevice(device) => format!("iifname != \"{device}\""),
        Match::Other(text) => text.clone(),
    }
}
