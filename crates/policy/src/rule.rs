// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[[rule]]` and finds conditions of one rule that exclude each other.
//! Rules that hide each other are found in `reach`.

use crate::codes;
use crate::matching::{Lengths, NotPrefix, Ports, Prefix, Protocol, TcpFlags};
use crate::model::Rule;
use crate::read::{choose, directions, implied, one_of, understood, understood_list};
use weirgate_document::{Reader, Value};
use weirgate_units::Dscp;

/// The longest packet without TCP payload: two headers of 60 bytes.
const LONGEST_PURE_ACK: u16 = 120;

/// RFC 1349 values of the old type-of-service octet, as code points. The
/// fourth, minimize-cost, was the bit that is now ECN's.
const TOS: [(&str, u8); 3] = [
    ("minimize-delay", 4),
    ("maximize-throughput", 2),
    ("maximize-reliability", 1),
];

pub(crate) fn read(mut table: Reader<'_, '_>) -> Rule {
    let class = table.text("class");
    if class.is_none() && !table.has("class") {
        table.missing::<()>("class", "name the class that packets go into");
    }
    let class = class.unwrap_or_else(|| implied(String::new(), &table));
    let mut dscp: Vec<Value<Dscp>> = table.parsed_list("dscp").unwrap_or_default();
    if table.has("dscp") && dscp.is_empty() {
        // An empty list must not become "no condition".
        understood_list(&mut table, "dscp", codes::TOS, |_| Ok(()));
    }
    dscp.extend(understood_list(&mut table, "tos", codes::TOS, tos));
    let rule = Rule {
        line: table.line(),
        span: table.span(),
        class,
        directions: directions(&mut table),
        protocols: understood_list(&mut table, "protocol", codes::PROTOCOL, Protocol::read),
        local_ports: understood_list(&mut table, "local-port", codes::PORT, Ports::read),
        remote_ports: understood_list(&mut table, "remote-port", codes::PORT, Ports::read),
        ports: understood_list(&mut table, "port", codes::PORT, Ports::read),
        local_addresses: prefixes(&mut table, "local-address"),
        remote_addresses: prefixes(&mut table, "remote-address"),
        dscp,
        lengths: understood_list(&mut table, "length", codes::LENGTH, Lengths::read),
        tcp_flags: understood(&mut table, "tcp-flags", codes::TCP_FLAGS, TcpFlags::read),
        pure_ack: table.boolean("pure-ack").is_some_and(|flag| flag.value),
    };
    let conditions = [
        "protocol",
        "local-port",
        "remote-port",
        "port",
        "local-address",
        "remote-address",
        "dscp",
        "tos",
        "length",
        "tcp-flags",
    ];
    let has_condition = conditions.into_iter().any(|key| table.has(key));
    if !has_condition && !rule.pure_ack {
        table.problems().error(
            codes::NO_CONDITION,
            table.span(),
            "a rule without a condition takes every packet",
            "add a condition; what no rule matches goes to the class with `default = true`",
        );
    }
    for (place, wrong, right) in contradictions(&rule) {
        table
            .problems()
            .error(codes::CONTRADICTION, place, wrong, right);
    }
    one_version(&table, &rule);
    rule
}

fn prefixes(table: &mut Reader<'_, '_>, key: &'static str) -> Vec<Value<Prefix>> {
    // Host bits have a code of their own, so the list is read in two steps.
    let problems = table.problems();
    let texts = understood_list(table, key, codes::ADDRESS, |text| Ok(text.to_owned()));
    let mut list = Vec::new();
    for text in texts {
        match Prefix::read(&text.value) {
            Ok(prefix) => list.push(text.map(|_| prefix)),
            Err(NotPrefix::Unreadable((wrong, right))) => {
                problems.error(codes::ADDRESS, text.span, wrong, right);
            }
            Err(NotPrefix::HostBits((wrong, right))) => {
                problems.error(codes::HOST_BITS, text.span, wrong, right);
            }
        }
    }
    list
}

fn tos(text: &str) -> Result<Dscp, (String, String)> {
    let found = one_of(text, &TOS).and_then(Dscp::new);
    found.ok_or_else(|| match text {
        "minimize-cost" => (
            "`minimize-cost` no longer exists".to_owned(),
            "its bit belongs to ECN since RFC 3168; use `dscp`".to_owned(),
        ),
        _ => (
            format!("`{text}` is not a type of service"),
            format!("{} (code points go into `dscp`)", choose(text, &TOS)),
        ),
    })
}

/// A warning for ICMP of IPv4 alone, where no address says that it is meant.
fn one_version(table: &Reader<'_, '_>, rule: &Rule) {
    let has = |wanted: Protocol| rule.protocols.iter().find(|found| found.value == wanted);
    let anywhere = rule.local_addresses.is_empty() && rule.remote_addresses.is_empty();
    if let Some(icmp) = has(Protocol::ICMP)
        && has(Protocol::ICMPV6).is_none()
        && anywhere
    {
        table.problems().warning(
            codes::ONE_VERSION,
            icmp.span.clone(),
            "this is the ICMP of IPv4 only",
            "write `protocol = [\"icmp\", \"icmpv6\"]` for both",
        );
    }
}

type Finding = (weirgate_document::Span, String, String);

/// Everything that makes a rule, or a part of it that the author wrote out,
/// match no packet at all.
fn contradictions(rule: &Rule) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |span: &weirgate_document::Span, wrong: String, right: &str| {
        found.push((span.clone(), wrong, right.to_owned()));
    };
    let ports = [&rule.local_ports, &rule.remote_ports, &rule.ports];
    let has_ports = ports.iter().any(|list| !list.is_empty());
    let needs_tcp = rule.pure_ack || rule.tcp_flags.is_some();
    for protocol in &rule.protocols {
        if needs_tcp && protocol.value != Protocol::TCP {
            let what = if rule.pure_ack {
                "`pure-ack`"
            } else {
                "`tcp-flags`"
            };
            let wrong = format!("{} has no flags, so {what} never matches", protocol.value);
            add(
                &protocol.span,
                wrong,
                "write `protocol = \"tcp\"`, or leave it out",
            );
        } else if has_ports && !protocol.value.has_ports() {
            let wrong = format!("{} has no ports", protocol.value);
            add(&protocol.span, wrong, "make a rule of its own for it");
        }
    }
    let v4_only = |list: &[Value<Prefix>]| !list.is_empty() && list.iter().all(|p| p.value.is_v4());
    let v6_only =
        |list: &[Value<Prefix>]| !list.is_empty() && list.iter().all(|p| !p.value.is_v4());
    let (local, remote) = (&rule.local_addresses, &rule.remote_addresses);
    if (v4_only(local) && v6_only(remote)) || (v6_only(local) && v4_only(remote)) {
        let wrong = "one side is of IPv4, the other of IPv6".to_owned();
        add(&remote[0].span, wrong, "no packet has both; make two rules");
    }
    let only_v4 = v4_only(local) || v4_only(remote);
    let only_v6 = v6_only(local) || v6_only(remote);
    if rule.protocols.len() == 1 {
        let protocol = &rule.protocols[0];
        if protocol.value == Protocol::ICMP && only_v6 {
            let wrong = "icmp is of IPv4, the addresses are of IPv6".to_owned();
            add(&protocol.span, wrong, "write `icmpv6`");
        }
        if protocol.value == Protocol::ICMPV6 && only_v4 {
            let wrong = "icmpv6 is of IPv6, the addresses are of IPv4".to_owned();
            add(&protocol.span, wrong, "write `icmp`");
        }
    }
    if let (true, Some(flags)) = (rule.pure_ack, &rule.tcp_flags)
        && flags.value.excludes(TcpFlags::PURE_ACK)
    {
        let wrong = "a pure ACK has ACK set and SYN, FIN and RST clear".to_owned();
        add(&flags.span, wrong, "leave out `tcp-flags` or `pure-ack`");
    }
    if let Some(length) = rule.lengths.first() {
        let all = |test: &dyn Fn(Lengths) -> bool| rule.lengths.iter().all(|l| test(l.value));
        if rule.pure_ack && all(&|l| l.from > LONGEST_PURE_ACK) {
            let wrong = format!("a pure ACK has at most {LONGEST_PURE_ACK} bytes");
            add(&length.span, wrong, "leave out `length`");
        }
        if only_v6 && all(&|l| l.to < 40) {
            let wrong = "an IPv6 packet has at least 40 bytes".to_owned();
            add(&length.span, wrong, "write a range that reaches 40");
        }
    }
    found
}
