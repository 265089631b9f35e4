// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads conditions, which rules and services have alike, and finds those that
//! exclude each other.

use crate::codes;
use crate::condition::control_group::ControlGroup;
use crate::condition::drt;
use crate::condition::matching::From;
use crate::condition::matching::{
    FROM, IcmpType, Ids, Lengths, Mac, Mark, NotPrefix, Ports, Prefix, Protocol, STATES, TcpFlags,
};
use crate::model::{Connection, When};
use crate::named::group::{self, Groups};
use crate::read::{choose, device, one_of, understood, understood_list, word};
use weirgate_document::{Reader, Span, Value};
use weirgate_signatures::Signature;
use weirgate_units::{Dscp, Size};

/// The longest packet without TCP payload: two headers of 60 bytes.
const LONGEST_PURE_ACK: u16 = 120;

/// RFC 1349 values of the old type-of-service octet, as code points. The
/// fourth, minimize-cost, was the bit that is now ECN's.
const TOS: [(&str, u8); 3] = [
    ("minimize-delay", 4),
    ("maximize-throughput", 2),
    ("maximize-reliability", 1),
];

/// Fields that are conditions, but for `pure-ack`, which may say no.
const FIELDS: [&str; 22] = [
    "protocol",
    "local-port",
    "remote-port",
    "port",
    "local-address",
    "remote-address",
    "dscp",
    "tos",
    "urgency",
    "importance",
    "length",
    "tcp-flags",
    "icmp-type",
    "local-mac",
    "interface",
    "from",
    "uid",
    "gid",
    "cgroup",
    "mark",
    "payload",
    "connection",
];

/// What a flow's payload may betray, by name.
const SIGNATURES: [(&str, Signature); Signature::ALL.len()] = {
    let mut words = [("", Signature::BitTorrent); Signature::ALL.len()];
    let mut at = 0;
    while at < words.len() {
        let one = Signature::ALL[at];
        words[at] = (one.name(), one);
        at += 1;
    }
    words
};

/// Whether a table has any condition.
pub(crate) fn has_any(table: &mut Reader<'_, '_>, when: &When) -> bool {
    let found = FIELDS.into_iter().any(|key| table.has(key));
    found || when.pure_ack
}

/// Reads the conditions of a rule or service.
pub(crate) fn read(table: &mut Reader<'_, '_>, groups: &Groups) -> When {
    let mut when = read_plain(table, groups);
    when.pure_ack = table.boolean("pure-ack").is_some_and(|flag| flag.value);
    when.users = understood_list(table, "uid", codes::USER, Ids::read);
    when.groups = understood_list(table, "gid", codes::USER, Ids::read);
    when.control_groups =
        understood_list(table, "cgroup", codes::CONTROL_GROUP, ControlGroup::read);
    when.payload = understood_list(table, "payload", codes::PAYLOAD, |text| {
        one_of(text, &SIGNATURES).ok_or_else(|| {
            (
                format!("no signature is known of `{text}`"),
                choose(text, &SIGNATURES),
            )
        })
    });
    when.connection = match table.table("connection") {
        Some(table) => connection(table),
        None => Connection::default(),
    };
    came_in(table, &when);
    for (place, wrong, right) in contradictions(&when) {
        table
            .problems()
            .error(codes::CONTRADICTION, place, wrong, right);
    }
    when
}

/// Reads `not`: conditions each of which is about one field.
pub(crate) fn read_never(mut table: Reader<'_, '_>, groups: &Groups) -> When {
    let when = read_plain(&mut table, groups);
    if table.is_empty() {
        table.problems().error(
            codes::CONTRADICTION,
            table.span(),
            "`not` excludes nothing",
            "name at least one condition, or leave `not` out",
        );
    }
    when
}

fn read_plain(table: &mut Reader<'_, '_>, groups: &Groups) -> When {
    let mut dscp: Vec<Value<Dscp>> = table.parsed_list("dscp").unwrap_or_default();
    if table.has("dscp") && dscp.is_empty() {
        // An empty list must not become "no condition".
        understood_list(table, "dscp", codes::TOS, |_| Ok(()));
    }
    dscp.extend(understood_list(table, "tos", codes::TOS, tos));
    dscp.extend(drt::asked(table));
    let (local_addresses, local_names) = addresses(table, "local-address", groups);
    let (remote_addresses, remote_names) = addresses(table, "remote-address", groups);
    When {
        protocols: understood_list(table, "protocol", codes::PROTOCOL, Protocol::read),
        local_ports: ports(table, "local-port", groups),
        remote_ports: ports(table, "remote-port", groups),
        ports: ports(table, "port", groups),
        local_addresses,
        remote_addresses,
        local_names,
        remote_names,
        dscp,
        lengths: understood_list(table, "length", codes::LENGTH, Lengths::read),
        tcp_flags: understood(table, "tcp-flags", codes::TCP_FLAGS, TcpFlags::read),
        pure_ack: false,
        icmp_types: understood_list(table, "icmp-type", codes::ICMP_TYPE, IcmpType::read),
        macs: macs(table, groups),
        interfaces: understood_list(table, "interface", codes::DEVICE, device),
        from: word(table, "from", &FROM),
        users: Vec::new(),
        groups: Vec::new(),
        control_groups: Vec::new(),
        mark: understood(table, "mark", codes::MARK, Mark::read),
        payload: Vec::new(),
        connection: Connection::default(),
    }
}

fn connection(mut table: Reader<'_, '_>) -> Connection {
    let states = understood_list(&mut table, "state", codes::CONNECTION, |text| {
        one_of(text, &STATES).ok_or_else(|| {
            (
                format!("`{text}` is not a state of a connection"),
                choose(text, &STATES),
            )
        })
    });
    let helper = understood(&mut table, "helper", codes::CONNECTION, |text| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
        if text.is_empty() || text.len() > 15 || !text.bytes().all(plain) {
            let wrong = format!("`{text}` cannot be the name of a conntrack helper");
            let right = "write one such as `ftp`, `sip`, `tftp`, `irc`, `pptp`, `h323`";
            return Err((wrong, right.to_owned()));
        }
        Ok(text.to_owned())
    });
    let bytes_over: Option<Value<Size>> = table.parsed("bytes-over");
    let packets_over = table.integer("packets-over", 1..=i64::MAX);
    let found = Connection {
        states,
        helper,
        bytes_over,
        packets_over: packets_over.map(|value| value.map(|number| number as u64)),
        mean_size: understood(&mut table, "mean-size", codes::LENGTH, Lengths::read),
    };
    if table.is_empty() {
        let known = "state, helper, bytes-over, packets-over, mean-size";
        table.problems().error(
            codes::CONNECTION,
            table.span(),
            "`connection` asks for nothing",
            format!("name at least one of {known}"),
        );
    }
    found
}

/// The elements of a list; one with `@` stands for the members of a group.
fn with_groups<T: Clone>(
    table: &mut Reader<'_, '_>,
    key: &'static str,
    code: &'static str,
    members: impl Fn(&Value<String>) -> Option<Vec<T>>,
    read: impl Fn(&str) -> Result<T, (String, String)>,
) -> Vec<Value<T>> {
    let texts = understood_list(table, key, code, |text| Ok(text.to_owned()));
    let problems = table.problems();
    let mut list = Vec::new();
    for text in texts {
        if text.value.starts_with('@') {
            for member in members(&text).unwrap_or_default() {
                list.push(text.clone().map(|_| member));
            }
            continue;
        }
        match read(&text.value) {
            Ok(found) => list.push(text.map(|_| found)),
            Err((wrong, right)) => problems.error(code, text.span, wrong, right),
        }
    }
    list
}

pub(crate) fn ports(
    table: &mut Reader<'_, '_>,
    key: &'static str,
    groups: &Groups,
) -> Vec<Value<Ports>> {
    let problems = table.problems();
    let members = |text: &Value<String>| {
        group::members(groups, text, "ports", problems, |group| &group.ports)
    };
    with_groups(table, key, codes::PORT, members, Ports::read)
}

fn macs(table: &mut Reader<'_, '_>, groups: &Groups) -> Vec<Value<Mac>> {
    let problems = table.problems();
    let members =
        |text: &Value<String>| group::members(groups, text, "macs", problems, |group| &group.macs);
    with_groups(table, "local-mac", codes::MAC, members, Mac::read)
}

/// The addresses of a list, or the group of names that it is.
pub(crate) fn addresses(
    table: &mut Reader<'_, '_>,
    key: &'static str,
    groups: &Groups,
) -> (Vec<Value<Prefix>>, Option<Value<String>>) {
    let problems = table.problems();
    // Host bits have a code of their own, so the list is read in two steps.
    let texts = understood_list(table, key, codes::ADDRESS, |text| Ok(text.to_owned()));
    let mut list = Vec::new();
    let named = |text: &&Value<String>| {
        let group = text
            .value
            .strip_prefix('@')
            .and_then(|name| groups.get(name));
        group.is_some_and(|group| !group.names.is_empty())
    };
    if let Some(text) = texts.iter().find(named) {
        if texts.len() > 1 {
            problems.error(
                codes::GROUP,
                text.span.clone(),
                format!(
                    "`{}` is a group of DNS names, beside others in one list",
                    text.value
                ),
                "let it stand alone, and make another rule for the rest",
            );
        }
        let group = text
            .clone()
            .map(|text| text.trim_start_matches('@').to_owned());
        return (Vec::new(), Some(group));
    }
    for text in texts {
        if text.value.starts_with('@') {
            let found = group::members(groups, &text, "addresses", problems, |group| {
                &group.addresses
            });
            for member in found.unwrap_or_default() {
                list.push(text.clone().map(|_| member));
            }
        } else if let Some(prefix) = prefix(&text, problems) {
            list.push(text.map(|_| prefix));
        }
    }
    (list, None)
}

/// An address or prefix.
pub(crate) fn prefix(
    text: &Value<String>,
    problems: &weirgate_document::Problems,
) -> Option<Prefix> {
    match Prefix::read(&text.value) {
        Ok(prefix) => return Some(prefix),
        Err(NotPrefix::Unreadable((wrong, right))) => {
            problems.error(codes::ADDRESS, text.span.clone(), wrong, right);
        }
        Err(NotPrefix::HostBits((wrong, right))) => {
            problems.error(codes::HOST_BITS, text.span.clone(), wrong, right);
        }
    }
    None
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

/// Only what this machine sends has a user, a group or a control group.
fn came_in(table: &Reader<'_, '_>, when: &When) {
    let (code, sender) = if !when.control_groups.is_empty() {
        (codes::CONTROL_GROUP, "a control group")
    } else if !when.users.is_empty() || !when.groups.is_empty() {
        (codes::USER, "a user or a group")
    } else {
        return;
    };
    let forwarded = when.from.as_ref();
    let forwarded = forwarded.filter(|from| from.value == From::Forwarded);
    let places = [
        (forwarded.map(|one| &one.span), "`from = \"forwarded\"`"),
        (when.interfaces.first().map(|one| &one.span), "`interface`"),
        (when.macs.first().map(|one| &one.span), "`local-mac`"),
    ];
    for (span, what) in places {
        let Some(span) = span else { continue };
        let wrong = format!(
            "{what} asks for packets that came in; only what this machine sends has {sender}"
        );
        let right = "leave one of them out: mark what comes in at the host that sends it";
        table.problems().error(code, span.clone(), wrong, right);
    }
}

type Finding = (Span, String, String);

/// Everything that makes conditions, or a part of them that the author wrote
/// out, match no packet at all.
fn contradictions(when: &When) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |span: &Span, wrong: String, right: &str| {
        found.push((span.clone(), wrong, right.to_owned()));
    };
    let ports = [&when.local_ports, &when.remote_ports, &when.ports];
    let has_ports = ports.iter().any(|list| !list.is_empty());
    let needs_tcp = when.pure_ack || when.tcp_flags.is_some();
    for protocol in &when.protocols {
        if needs_tcp && protocol.value != Protocol::TCP {
            let what = if when.pure_ack {
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
    if let (Some(payload), false) = (when.payload.first(), when.protocols.is_empty()) {
        let carried = [Protocol::TCP, Protocol::UDP];
        if !when
            .protocols
            .iter()
            .any(|one| carried.contains(&one.value))
        {
            let wrong = "payload is looked at in TCP and UDP only".to_owned();
            add(&payload.span, wrong, "leave `protocol` out");
        }
    }
    if let Some(kind) = when.icmp_types.first() {
        let icmp = |p: &Value<Protocol>| [Protocol::ICMP, Protocol::ICMPV6].contains(&p.value);
        if has_ports || needs_tcp || !when.protocols.iter().all(icmp) {
            let wrong = "only ICMP has types of ICMP".to_owned();
            add(
                &kind.span,
                wrong,
                "leave out the other protocol's conditions",
            );
        }
    }
    versions(when, &mut add);
    if let (true, Some(flags)) = (when.pure_ack, &when.tcp_flags)
        && flags.value.excludes(TcpFlags::PURE_ACK)
    {
        let wrong = "a pure ACK has ACK set and SYN, FIN and RST clear".to_owned();
        add(&flags.span, wrong, "leave out `tcp-flags` or `pure-ack`");
    }
    if let Some(length) = when.lengths.first() {
        let all = |test: &dyn Fn(Lengths) -> bool| when.lengths.iter().all(|l| test(l.value));
        if when.pure_ack && all(&|l| l.from > LONGEST_PURE_ACK) {
            let wrong = format!("a pure ACK has at most {LONGEST_PURE_ACK} bytes");
            add(&length.span, wrong, "leave out `length`");
        }
    }
    found
}

/// Conditions of which one is about IPv4 alone and another about IPv6 alone.
fn versions(when: &When, add: &mut impl FnMut(&Span, String, &str)) {
    let v4_only = |list: &[Value<Prefix>]| !list.is_empty() && list.iter().all(|p| p.value.is_v4());
    let v6_only =
        |list: &[Value<Prefix>]| !list.is_empty() && list.iter().all(|p| !p.value.is_v4());
    let (local, remote) = (&when.local_addresses, &when.remote_addresses);
    if (v4_only(local) && v6_only(remote)) || (v6_only(local) && v4_only(remote)) {
        let wrong = "one side is of IPv4, the other of IPv6".to_owned();
        add(&remote[0].span, wrong, "no packet has both; make two rules");
    }
    let only_v4 = v4_only(local) || v4_only(remote);
    let only_v6 = v6_only(local) || v6_only(remote);
    if let [protocol] = when.protocols.as_slice() {
        if protocol.value == Protocol::ICMP && only_v6 {
            let wrong = "icmp is of IPv4, the addresses are of IPv6".to_owned();
            add(&protocol.span, wrong, "write `icmpv6`");
        }
        if protocol.value == Protocol::ICMPV6 && only_v4 {
            let wrong = "icmpv6 is of IPv6, the addresses are of IPv4".to_owned();
            add(&protocol.span, wrong, "write `icmp`");
        }
    }
    if let Some(length) = when.lengths.first()
        && only_v6
        && when.lengths.iter().all(|l| l.value.to < 40)
    {
        let wrong = "an IPv6 packet has at least 40 bytes".to_owned();
        add(&length.span, wrong, "write a range that reaches 40");
    }
}

/// A warning for ICMP of IPv4 alone, where no address says that it is meant.
pub(crate) fn one_version(table: &Reader<'_, '_>, when: &When) {
    let has = |wanted: Protocol| when.protocols.iter().find(|found| found.value == wanted);
    let anywhere = when.local_addresses.is_empty()
        && when.remote_addresses.is_empty()
        && when.local_names.is_none()
        && when.remote_names.is_none();
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
