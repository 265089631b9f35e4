// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The nft(8) text of tables.

use crate::classify::field::Field;
use crate::classify::frame::Frame;
use crate::classify::frame_text::{bytes_text, map_text, session_text};
use crate::classify::set_text::value_text;
use crate::classify::value::IpVersion;
use crate::classify::{
    Chain, Count, Effect, Hook, Match, Meter, Rule, RuleVerdict, Table, Values, switch_name,
};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use weirgate_units::{Handle, Inserted as _};

/// Returns the name of a table in nft, such as `inet weirgate`.
fn table_name(table: &Table) -> String {
    format!(
        "{} {}",
        if table.netdev { "netdev" } else { "inet" },
        table.name
    )
}

impl Table {
    /// Returns a file for `nft -f` that creates the table.
    #[must_use]
    pub fn nft_text(&self) -> String {
        let name = table_name(self);
        let mut text = format!("table {name}\ndelete table {name}\ntable {name} {{\n");
        let rules = || self.chains.iter().flat_map(|chain| &chain.rules);
        let empties = rules().flat_map(|rule| {
            let empty = |m: &Match| match m {
                Match::TcpPayloadEmpty { version, .. } => Some(empty_text(rule.frame, *version)),
                _ => None,
            };
            rule.matches.iter().filter_map(empty)
        });
        for (set, key) in empties.inserted::<BTreeSet<_>>() {
            let _ = writeln!(
                text,
                "  # set {set}: each {key} of a segment without payload"
            );
        }
        for counter in self.counters() {
            let _ = writeln!(text, "  counter {counter} {{ }}");
        }
        for set in &self.sets {
            let _ = writeln!(text, "  {}", self.set_text(set));
        }
        for chain in &self.chains {
            if let Hook::Switched { on } = chain.hook {
                switch_text(&mut text, self.netdev, &chain.name, on);
            }
        }
        let end = self.ending();
        for chain in &self.chains {
            chain_text(&mut text, chain, self, &end);
        }
        text.push_str("}\n");
        text
    }

    /// Returns a file for `nft -f` that turns `before` into this table in place, as
    /// [`Table::change_to`] says.
    #[must_use]
    pub fn change_text(&self, before: &Self) -> String {
        let Some(change) = before.change_to(self) else {
            return self.nft_text();
        };
        let name = table_name(self);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let mut lines = |what: &str, names: &BTreeSet<String>| {
            for one in names {
                let _ = writeln!(text, "{what} {name} {one}");
            }
        };
        lines("flush chain", &change.emptied);
        let switches = change.gone_switches.iter().map(|name| switch_name(name));
        lines("delete map", &switches.collect());
        lines("delete set", &change.gone_sets);
        lines("delete chain", &change.gone_chains);
        lines("delete counter", &change.gone_counters);
        let _ = writeln!(text, "table {name} {{");
        for counter in &change.counters {
            let _ = writeln!(text, "  counter {counter} {{ }}");
        }
        for set in self
            .sets
            .iter()
            .filter(|set| change.sets.contains(&set.name))
        {
            let _ = writeln!(text, "  {}", self.set_text(set));
        }
        let end = self.ending();
        for chain in &self.chains {
            if change.switches.contains(&chain.name) {
                switch_text(&mut text, self.netdev, &chain.name, false);
            }
            if change.written.contains(&chain.name) {
                chain_text(&mut text, chain, self, &end);
            }
        }
        text.push_str("}\n");
        for (chain, on) in &change.switched {
            let what = if *on { "add" } else { "delete" };
            let map = switch_name(chain);
            for version in switch_keys(self.netdev) {
                let verdict = if *on {
                    format!(" : jump {chain}")
                } else {
                    String::new()
                };
                let _ = writeln!(text, "{what} element {name} {map} {{ {version}{verdict} }}");
            }
        }
        text
    }

    /// Returns the statement for `Final` in this table.
    fn ending(&self) -> String {
        let to = self.chains.iter().find_map(|chain| match &chain.hook {
            Hook::Ingress { redirect_to, .. } => Some(format!("fwd to \"{redirect_to}\"")),
            _ => None,
        });
        to.unwrap_or_else(|| String::from("accept"))
    }
}

/// Returns the keys of a switch: the IP versions, and in `netdev` tables PPPoE sessions.
fn switch_keys(netdev: bool) -> &'static [&'static str] {
    if netdev {
        &["ip", "ip6", "0x8864"]
    } else {
        &["ipv4", "ipv6"]
    }
}

fn switch_text(text: &mut String, netdev: bool, chain: &str, on: bool) {
    let kind = if netdev { "ether_type" } else { "nf_proto" };
    let elements = if on {
        let each = switch_keys(netdev).iter();
        let each: Vec<String> = each.map(|key| format!("{key} : jump {chain}")).collect();
        format!(" elements = {{ {} }};", each.join(", "))
    } else {
        String::new()
    };
    let name = switch_name(chain);
    let _ = writeln!(text, "  map {name} {{ type {kind} : verdict;{elements} }}");
}

fn chain_text(text: &mut String, chain: &Chain, table: &Table, end: &str) {
    let (hook, first, last) = match &chain.hook {
        Hook::Postrouting { device } => (
            String::from("type filter hook postrouting priority mangle; policy accept;"),
            Some(format!("oifname != \"{device}\" accept")),
            None,
        ),
        Hook::Ingress {
            device,
            redirect_to,
        } => (
            format!("type filter hook ingress device \"{device}\" priority filter; policy accept;"),
            None,
            Some(format!("fwd to \"{redirect_to}\"")),
        ),
        Hook::Egress { device } => (
            format!("type filter hook egress device \"{device}\" priority filter; policy accept;"),
            None,
            None,
        ),
        Hook::Prerouting => (
            String::from("type filter hook prerouting priority raw; policy accept;"),
            None,
            None,
        ),
        Hook::Output => (
            String::from("type filter hook output priority mangle; policy accept;"),
            None,
            None,
        ),
        Hook::Called => (String::new(), None, None),
        Hook::Switched { on } => (
            format!("# switched {}", if *on { "on" } else { "off" }),
            None,
            None,
        ),
        Hook::Other(text) => (text.clone(), None, None),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  chain {} {{", chain.name);
    if !hook.is_empty() {
        let _ = writeln!(text, "    {hook}");
    }
    if let Some(line) = first {
        let _ = writeln!(text, "    {line}");
    }
    for rule in &chain.rules {
        let origin = rule.origin.to_string().replace('"', "'");
        let mut words = vec![table.rule_text(rule)];
        if rule.verdict == RuleVerdict::Final {
            words.push(end.to_owned());
        }
        if !origin.is_empty() {
            words.push(format!("comment \"{origin}\""));
        }
        words.retain(|word| !word.is_empty());
        let _ = writeln!(text, "    {}", words.join(" "));
    }
    if let Some(line) = last {
        let _ = writeln!(text, "    {line}");
    }
    text.push_str("  }\n");
}

impl Table {
    /// Returns one rule in nft, without the statement for `Final`.
    #[must_use]
    pub fn rule_text(&self, rule: &Rule) -> String {
        let mut words: Vec<String> = Vec::new();
        words.extend(rule.matches.iter().map(|m| match_text(m, rule, self)));
        if let Some(counter) = &rule.counter {
            words.push(format!("counter name \"{counter}\""));
        }
        for effect in &rule.effects {
            words.push(match effect {
                Effect::Class(class) => {
                    format!("meta priority set {:x}:{:x}", class.major, class.minor)
                }
                Effect::ClassOf { field, map } => {
                    let looked_up = map_text(rule.frame, *field, map, self).unwrap_or_else(|| {
                        format!("{} map @{map}", field_text(*field, self.netdev))
                    });
                    format!("meta priority set {looked_up}")
                }
                Effect::MaxSegment(bytes) => format!("tcp option maxseg size set {bytes}"),
                Effect::Mark { mask, value } => {
                    format!("meta mark set meta mark & {:#x} | {value:#x}", !mask)
                }
                Effect::ConnectionMark { mask, value } => {
                    format!("ct mark set ct mark & {:#x} | {value:#x}", !mask)
                }
                Effect::Dscp(version, dscp) => {
                    format!("{} dscp set {:#04x}", ip(*version), dscp.value())
                }
            });
        }
        match &rule.verdict {
            RuleVerdict::Continue | RuleVerdict::Final => {}
            RuleVerdict::Jump(name) => {
                let switched = self.chains.iter().any(|chain| {
                    chain.name == *name && matches!(chain.hook, Hook::Switched { .. })
                });
                words.push(match (switched, self.netdev) {
                    (true, true) => format!("meta protocol vmap @{}", switch_name(name)),
                    (true, false) => format!("meta nfproto vmap @{}", switch_name(name)),
                    (false, _) => format!("jump {name}"),
                });
            }
            RuleVerdict::Goto(name) => words.push(format!("goto {name}")),
            RuleVerdict::Return => words.push(String::from("return")),
            RuleVerdict::Refuse => {
                words.push(String::from("reject with icmpx type port-unreachable"));
            }
        }
        words.join(" ")
    }
}

const fn ip(version: IpVersion) -> &'static str {
    match version {
        IpVersion::V4 => "ip",
        IpVersion::V6 => "ip6",
    }
}

/// Returns a field's name in nft, with its mask.
pub(crate) fn field_text(field: Field, netdev: bool) -> String {
    let name = field.name();
    match (field, field.mask()) {
        // A netdev table sees packets of every ethertype.
        (Field::Version, _) if netdev => Field::EtherType.name().to_owned(),
        (Field::TcpFlags { .. }, Some(mask)) => format!("{name} & {mask:#04x}"),
        (_, Some(mask)) => format!("{name} & {mask:#x}"),
        (field, None) => match field.level() {
            Some(level) => format!("{name} level {level}"),
            None => name.to_owned(),
        },
    }
}

/// Returns the set of keys of segments without payload, and the key that is looked up in it.
fn empty_text(frame: Frame, version: IpVersion) -> (String, String) {
    let number = version.number();
    if let Some(key) = crate::classify::frame_text::empty_text(frame) {
        return (format!("tcp_empty_session_v{number}"), key);
    }
    let key = match version {
        IpVersion::V4 => "ip length . ip hdrlength . tcp doff",
        IpVersion::V6 => "ip6 length . tcp doff",
    };
    (format!("tcp_empty_v{number}"), key.to_owned())
}

fn match_text(candidate: &Match, rule: &Rule, table: &Table) -> String {
    let frame = rule.frame;
    match candidate {
        Match::Test {
            field,
            negated,
            values,
        } => session_text((rule.frame, merges(rule)), *field, *negated, values, table)
            .unwrap_or_else(|| test_text(*field, *negated, values, (table, merges(rule)))),
        Match::TcpPayloadEmpty { version, negated } => {
            let not = if *negated { "!= " } else { "" };
            let (set, key) = empty_text(frame, *version);
            format!("{key} {not}@{set}")
        }
        Match::Meter(meter) => meter_text(meter, frame, table.netdev),
        Match::Other(text) => text.clone(),
    }
}

/// Returns whether a rule has two negated tests of single values in the packet's bytes. nft 1.0
/// merges tests of adjacent bytes into one comparison, which is another condition; it does not
/// merge ranges.
fn merges(rule: &Rule) -> bool {
    let apart = |one: &&Match| match one {
        Match::Test {
            field,
            negated: true,
            values: Values::Range(from, to),
        } => from == to && in_bytes(*field),
        _ => false,
    };
    rule.matches.iter().filter(apart).count() > 1
}

/// Returns whether a field, plain or in a session, is bytes that may be adjacent to another
/// field's.
fn in_bytes(field: Field) -> bool {
    let whole = field.header_bytes().is_some() && field.bits().is_none();
    // ICMP types have no adjacent field that rules look at.
    field == Field::Protocol || whole && field.protocol().is_none()
}

fn test_text(
    field: Field,
    negated: bool,
    values: &Values,
    (table, merges): (&Table, bool),
) -> String {
    let netdev = table.netdev;
    let name = field_text(field, netdev);
    // A packet that no device received; nft accepts no empty name.
    if let (Field::InputDevice, Values::Text(text)) = (field, values)
        && text.is_empty()
    {
        return format!("iif {}0", if negated { "!= " } else { "" });
    }
    let value = |value: u128| match (field, value) {
        (Field::Version, 4) if netdev => "ip".to_owned(),
        (Field::Version, _) if netdev => "ip6".to_owned(),
        (Field::Version, number) => format!("ipv{number}"),
        (Field::EtherType | Field::PppProtocol, number) => format!("{number:#06x}"),
        (Field::Dscp(_) | Field::TcpFlags { .. }, value) => format!("{value:#04x}"),
        (field, value) if field.mask().is_some() => format!("{value:#x}"),
        (Field::Class, value) => Handle::from_u32(value as u32).to_string(),
        (Field::Length(IpVersion::V6), value) => value.saturating_sub(40).to_string(),
        (field, value) => match field.key() {
            Some(key) => value_text(key, value),
            None => value.to_string(),
        },
    };
    let sign = match (negated, field.mask().is_some()) {
        (true, _) => "!= ",
        (false, true) => "== ",
        (false, false) => "",
    };
    let what = match values {
        Values::Text(text) => format!("\"{text}\""),
        Values::Set(set) => table.looked_up(field, set),
        Values::Range(from, to) if from == to && !(negated && merges && in_bytes(field)) => {
            value(*from)
        }
        Values::Range(from, to) => format!("{}-{}", value(*from), value(*to)),
    };
    format!("{name} {sign}{what}")
}

fn meter_text(meter: &Meter, frame: Frame, netdev: bool) -> String {
    let over = if meter.over { "over " } else { "" };
    let key = bytes_text(frame, meter.field).unwrap_or_else(|| field_text(meter.field, netdev));
    let set = &meter.set;
    match &meter.count {
        Count::Packets { rate, per, burst } => {
            let unit = match per {
                1 => "second",
                60 => "minute",
                3600 => "hour",
                _ => "day",
            };
            format!(
                "update @{set} {{ {key} limit rate {over}{rate}/{unit} burst {burst} packets }}"
            )
        }
        Count::Bytes { rate, burst } => format!(
            "update @{set} {{ {key} limit rate {over}{rate} bytes/second burst {burst} bytes }}"
        ),
        Count::Connections(count) => format!("add @{set} {{ {key} ct count {over}{count} }}"),
    }
}
