// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packets of a service, as texts: one for each alternative of the service, and one with its
//! protocol and port but nothing else.

use std::fmt::Write as _;
use std::net::IpAddr;
use weirgate_console::exit::Failure;
use weirgate_document::nearest;
use weirgate_policy::{
    CodePoints, Conditions, Connection, ConnectionState, Direction, EitherPorts, Flags, IcmpTypes,
    Kind, LocalAddresses, LocalPorts, PacketLengths, Payloads, Policy, Protocols, PureAck,
    RemoteAddresses, RemotePorts,
};

/// The first client port in these packets.
const CLIENT: u16 = 40_000;

/// The length of a packet with IP and TCP headers and a few bytes of data, in bytes.
const SHORT: u16 = 80;

/// Returns whether an argument must be a service's name: packets contain spaces.
pub fn is_name(argument: &str) -> bool {
    !argument.contains([' ', '\t', '>', '\n'])
}

/// Returns texts of packets of a service, in each direction that the policy shapes.
pub fn packets(policy: &Policy, name: &str) -> Result<Vec<String>, Failure> {
    let Some(alternatives) = policy.services.get(name) else {
        let known = policy.services.keys().map(String::as_str);
        let right = match nearest(name, known.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the services are {}", known.collect::<Vec<_>>().join(", ")),
        };
        return Err(Failure::Input(format!(
            "weirgate: there is no service `{name}`; {right} (a packet is written as \
             `\"tcp 192.168.1.10:40000 > 203.0.113.5:22 syn\"`)"
        )));
    };
    let mut packets = Vec::new();
    let shaped = Direction::BOTH.into_iter();
    for direction in shaped.filter(|direction| policy.line_rate(*direction).is_some()) {
        let mut add = |conditions: &Conditions, marked: bool, remark: &str| {
            // A different client port gives each packet its own connection.
            let client = CLIENT.saturating_add(u16::try_from(packets.len()).unwrap_or(0));
            if let Some(text) = packet(conditions, direction, client, marked) {
                packets.push(format!("{text} # {name}{remark}"));
            }
        };
        for conditions in alternatives {
            add(conditions, true, "");
        }
        // Many programs send packets with the service's port but without its other marks.
        if let Some(plain) = alternatives.iter().find(|conditions| has_port(conditions))
            && alternatives.iter().all(has_more)
        {
            add(plain, false, ", its port alone");
        }
    }
    if packets.is_empty() {
        return Err(Failure::Input(format!(
            "weirgate: {name}: what its packets look like cannot be told from its conditions; write \
             one, or give a capture with --from"
        )));
    }
    Ok(packets)
}

/// Returns the services that match the same port without any further condition.
pub fn wider<'a>(policy: &'a Policy, name: &str) -> Vec<&'a str> {
    let ports = |conditions: &Conditions| conditions.find::<EitherPorts>().map(first_port);
    let own: Vec<Option<u16>> = policy
        .services
        .get(name)
        .into_iter()
        .flatten()
        .map(ports)
        .collect();
    if policy
        .services
        .get(name)
        .is_none_or(|alternatives| !alternatives.iter().all(has_more))
    {
        return Vec::new();
    }
    let wide = |conditions: &Conditions| {
        ports(conditions).is_some() && own.contains(&ports(conditions)) && !has_more(conditions)
    };
    let all = policy.services.iter();
    all.filter(|(_, alternatives)| alternatives.iter().any(wide))
        .map(|(other, _)| other.as_str())
        .collect()
}

fn first_port(ports: &EitherPorts) -> u16 {
    ports.0.first().map_or(0, |ports| ports.value.from)
}

fn has_port(conditions: &Conditions) -> bool {
    has::<EitherPorts>(conditions)
        || has::<LocalPorts>(conditions)
        || has::<RemotePorts>(conditions)
}

/// Returns whether the conditions test more than a protocol and ports.
fn has_more(conditions: &Conditions) -> bool {
    has::<CodePoints>(conditions)
        || has::<PacketLengths>(conditions)
        || has::<Connection>(conditions)
        || has::<Flags>(conditions)
        || has::<Payloads>(conditions)
}

fn has<T: Kind>(conditions: &Conditions) -> bool {
    conditions.find::<T>().is_some()
}

/// Returns a packet that matches the conditions, or if not `marked` only their protocol and ports.
/// Returns `None` if a text cannot express the packet.
fn packet(
    conditions: &Conditions,
    direction: Direction,
    client: u16,
    marked: bool,
) -> Option<String> {
    if marked && has::<Payloads>(conditions) {
        return None;
    }
    let protocol = conditions
        .find::<Protocols>()
        .and_then(|list| list.0.first());
    let icmp = conditions
        .find::<IcmpTypes>()
        .and_then(|list| list.0.first());
    let protocol = match (protocol.map(|one| one.value.0), icmp) {
        (Some(protocol), _) => protocol,
        (None, Some(_)) => 1,
        (None, None) => 6,
    };
    let inside = conditions
        .find::<LocalAddresses>()
        .and_then(|list| list.0.first());
    let outside = conditions
        .find::<RemoteAddresses>()
        .and_then(|list| list.0.first());
    let (inside, outside) = (
        inside.map(|one| one.value.address),
        outside.map(|one| one.value.address),
    );
    let six = protocol == 58 || [inside, outside].iter().flatten().any(IpAddr::is_ipv6);
    let (own, other) = if six {
        ("2001:db8:1::10", "2001:db8:9::5")
    } else {
        ("192.168.1.10", "203.0.113.5")
    };
    let local = inside.map_or_else(|| own.to_owned(), |address| address.to_string());
    let remote = outside.map_or_else(|| other.to_owned(), |address| address.to_string());
    let from = |list: Option<&Vec<_>>| -> Option<u16> {
        let ports: &weirgate_document::Value<weirgate_policy::Ports> = list?.first()?;
        Some(ports.value.from)
    };
    let local_port = from(conditions.find::<LocalPorts>().map(|list| &list.0));
    let remote_port = from(conditions.find::<RemotePorts>().map(|list| &list.0))
        .or_else(|| from(conditions.find::<EitherPorts>().map(|list| &list.0)));
    let end = |address: String, port: Option<u16>| match protocol {
        6 | 17 | 33 | 132 => {
            let port = port.unwrap_or(client);
            if six {
                format!("[{address}]:{port}")
            } else {
                format!("{address}:{port}")
            }
        }
        _ => address,
    };
    let (local, remote) = (end(local, local_port), end(remote, remote_port));
    let (source, destination) = match direction {
        Direction::Up => (local, remote),
        Direction::Down => (remote, local),
    };
    let protocol = match protocol {
        1 | 58 => "icmp".to_owned(),
        number => crate::whole::flows::protocol(number),
    };
    let mut text = format!("{direction} {protocol} {source} > {destination}");
    if let Some(kind) = icmp {
        let kind = if six { kind.value.v6 } else { kind.value.v4 };
        // Writing to a String cannot fail.
        let _ = write!(text, " type {}", kind?);
    }
    if marked {
        text.push_str(&words(conditions));
    }
    // Without data, it would be an acknowledgement, and `[ack]` would take it.
    let bare = has::<PureAck>(conditions) || has::<Flags>(conditions);
    if protocol == "tcp" && !(marked && (bare || has::<PacketLengths>(conditions))) {
        let _ = write!(text, " len {SHORT}");
    }
    Some(text)
}

/// Returns the text for the conditions besides addresses, protocol and ports.
fn words(conditions: &Conditions) -> String {
    let mut text = String::new();
    if let Some(flags) = conditions.find::<Flags>() {
        let named = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
        let set = named
            .iter()
            .enumerate()
            .filter(|(bit, _)| flags.0.value.value & (1 << bit) != 0);
        let set: Vec<&str> = set.map(|(_, name)| *name).collect();
        text.push(' ');
        text.push_str(&if set.is_empty() {
            "none".to_owned()
        } else {
            set.join(",")
        });
    }
    // Writing to a String cannot fail.
    if let Some(code) = conditions
        .find::<CodePoints>()
        .and_then(|list| list.0.first())
    {
        let _ = write!(text, " dscp {}", code.value);
    }
    if let Some(lengths) = conditions
        .find::<PacketLengths>()
        .and_then(|list| list.0.first())
    {
        let length = SHORT.clamp(lengths.value.from, lengths.value.to.max(lengths.value.from));
        let _ = write!(text, " len {length}");
    }
    if let Some(connection) = conditions.find::<Connection>() {
        text.push_str(&connection_words(connection));
    }
    text
}

fn connection_words(connection: &Connection) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    match connection.states.first().map(|state| state.value) {
        Some(ConnectionState::Established) => text.push_str(" established"),
        Some(ConnectionState::Related) => text.push_str(" related"),
        _ => {}
    }
    if let Some(helper) = &connection.helper {
        let _ = write!(text, " helper {}", helper.value);
    }
    let over = connection
        .packets_over
        .as_ref()
        .map_or(0, |packets| packets.value);
    let mean = connection
        .mean_size
        .as_ref()
        .map(|mean| u64::from(mean.value.to.min(1_400)));
    let bytes = connection
        .bytes_over
        .as_ref()
        .map(|size| size.value.as_bytes().saturating_add(1));
    // So many packets that this packet does not change the mean.
    let packets = (over > 0 || mean.is_some()).then(|| over.saturating_add(1_000));
    let by_mean = mean
        .zip(packets)
        .map(|(mean, packets)| mean.saturating_mul(packets));
    if let Some(bytes) = bytes.max(by_mean) {
        let _ = write!(text, " ct-bytes {bytes}");
    }
    if let Some(packets) = packets {
        let _ = write!(text, " ct-packets {packets}");
    }
    text
}
