// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[[service]]`: the promises.

use super::field::{self, MOST};
use crate::codes;
use crate::{Behaviour, Class, Domain, Position, Select, Service};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_document::registry::{Field, FieldType, Own, Table, Text, Texts, Within};
use weirgate_document::{Problems, Reader, Value};
use weirgate_policy::{Ports, Prefix, Protocol};
use weirgate_units::{Rate, Share, Size, Span};

/// Reports services between customers whose known addresses have no IP version in common.
pub(super) fn of_one_version(domain: &Domain, problems: &Problems) {
    for service in &domain.services {
        let ends = [&service.from, &service.to].map(|name| domain.customers.get(name));
        let [Some(from), Some(to)] = ends else {
            continue;
        };
        let (sent, received) = (from.scope(), to.scope());
        let six = |prefix: &Prefix| prefix.address.is_ipv6();
        let apart = !sent.is_empty()
            && !received.is_empty()
            && !sent
                .iter()
                .any(|one| received.iter().any(|other| six(one) == six(other)));
        if apart {
            let message = format!(
                "`{}` and `{}` have no IP version in common",
                service.from, service.to
            );
            let hint = "add networks or an address of the other version to one of them";
            let span = service.position.span.clone();
            problems.error(codes::PATH, span, message, hint);
        }
    }
}

pub(super) const SERVICE: Field<Own> =
    Field::new("service", Own("tables"), "The promises to customers");

const NAME: Field<Text> = Field::new(
    "name",
    Text,
    "Small letters, digits and hyphens, a letter first, at most 32",
)
.required("give the service a name");
const FROM: Field<Text> =
    Field::new("from", Text, "The customer who may send").required("name the customer");
const TO: Field<Text> =
    Field::new("to", Text, "The customer who receives").required("name the customer");
const CLASS: Field<Text> =
    Field::new("class", Text, "The class of its packets").required("name the class");
const PROTOCOL: Field<Texts> = Field::new(
    "protocol",
    Texts("`tcp` and `udp`"),
    "The protocols that, with the ports, identify the service's packets, which are marked at the \
     boundary",
);
const PORTS: Field<Texts> = Field::new(
    "ports",
    Texts("ports and ranges, 8 at most"),
    "Ports at the receiver",
);
const FROM_PORTS: Field<Texts> = Field::new(
    "from-ports",
    Texts("ports and ranges, 8 at most"),
    "Ports at the sender",
);
const RATE: Field<Within<Rate>> = Field::new(
    "rate",
    field::rate(Rate::kbit(1), Rate::kbit(100_000_000)),
    "The rate that may be sent, in IP bytes",
)
.required("write what may be sent, such as `rate = \"1mbit\"`");

/// The largest IP packet of a service in bytes.
const LARGEST: Size = Size::bytes(1500);
const PACKET: Field<Within<Size>> = Field::new(
    "packet",
    field::size(Size::bytes(20), LARGEST),
    "The size of the service's IP packets, which decides what they cost on the wire; the \
     smallest, where sizes differ. If it is stated, smaller packets count as that size. Times \
     hold for packets of at most this size",
)
.default("`\"1500B\"`");

/// The largest burst.
const MOST_BURST: Size = Size::bytes(1_000_000_000);
const BURST: Field<Own> = Field::new(
    "burst",
    Own("size, `packet` to 1GB"),
    "The burst, in IP bytes, that may be sent at once",
)
.default("one packet");

/// The longest delay that can be promised.
const LONGEST: Span = Span::from_secs(60);
const DELAY: Field<Within<Span>> = Field::new(
    "delay",
    field::time(Span::from_micros(1), LONGEST),
    "The longest promised time from the sender's machine to the receiver's",
);
const JITTER: Field<Within<Span>> = Field::new(
    "jitter",
    field::time(Span::ZERO, LONGEST),
    "The largest promised difference between the times of two packets",
);
const LOSS: Field<Within<Share>> = Field::new(
    "loss",
    Within::new("share", codes::LIMIT, Share::millionths(0), Share::WHOLE),
    "The largest promised loss, `\"0%\"` for none; every port has room for all bursts within the \
     promises",
);
const AVAILABILITY: Field<Within<Share>> = Field::new(
    "availability",
    Within::new("share", codes::LIMIT, Share::percent(1), Share::WHOLE),
    "The promised share of each calendar month (UTC) in which everything else that was promised \
     is kept; `domain audit` judges it",
);

/// The longest outage that can be promised.
const LONGEST_OUTAGE: Span = Span::from_secs(31 * 24 * 60 * 60);
const OUTAGE: Field<Within<Span>> = Field::new(
    "outage",
    field::time(Span::ZERO, LONGEST_OUTAGE),
    "The promised longest time in a row in which something else that was promised is broken; \
     `domain audit` judges it",
);

pub(super) const OF_SERVICE: Table = Table::new(
    "[[service]]",
    "A promise: who may send how much to whom in which class",
    &[
        &NAME,
        &FROM,
        &TO,
        &CLASS,
        &PROTOCOL,
        &PORTS,
        &FROM_PORTS,
        &RATE,
        &PACKET,
        &BURST,
        &DELAY,
        &JITTER,
        &LOSS,
        &AVAILABILITY,
        &OUTAGE,
    ],
);

/// The largest number of elements in a list of selectors (`CONDITION_PORTS`).
const MOST_SELECTED: usize = 8;

pub(super) fn services(
    root: &mut Reader<'_, '_>,
    customers: &BTreeSet<String>,
    classes: &BTreeMap<String, Class>,
) -> Vec<Service> {
    let (mut tables, excess) = root.tables_up_to(SERVICE.name, MOST);
    if let Some(span) = excess {
        let message = format!("there are more than {MOST} services");
        root.problems()
            .error(codes::LIMIT, span, message, "divide the domain");
    }
    let mut used = BTreeSet::new();
    let services = tables.iter_mut();
    services
        .filter_map(|table| service(table, customers, classes, &mut used))
        .collect()
}

fn service(
    table: &mut Reader<'_, '_>,
    customers: &BTreeSet<String>,
    classes: &BTreeMap<String, Class>,
    used: &mut BTreeSet<String>,
) -> Option<Service> {
    let position = Position {
        span: table.span(),
        line: table.line(),
    };
    let name = name(table, used);
    let ends = customers.iter().map(String::as_str);
    let [from, to] = [FROM.get(table), TO.get(table)]
        .map(|name| name.filter(|name| field::exists(table, name, "customer", ends.clone())));
    let names = classes.keys().map(String::as_str);
    let class = CLASS.get(table);
    let class = class.filter(|name| field::exists(table, name, "class", names));
    let rate = RATE.get(table);
    let stated = PACKET.get(table);
    let packet = stated.unwrap_or(LARGEST);
    let burst = field::size(packet, MOST_BURST).read(table, BURST.name);
    let burst = burst.unwrap_or(packet);
    let delay = DELAY.get(table);
    let jitter = JITTER.get(table);
    let loss = LOSS.get(table);
    let (availability, outage) = (AVAILABILITY.get(table), OUTAGE.get(table));
    let select = select(table);
    let (from, to, class) = (from?, to?, class?);
    if from.value == to.value {
        let message = format!("`{}` sends to itself", from.value);
        let hint = "name two customers";
        table.problems().error(codes::PATH, to.span, message, hint);
        return None;
    }
    // Traffic of customers in these two is not limited.
    let free = [Behaviour::Default, Behaviour::LowerEffort];
    let behaviour = classes.get(&class.value).map(|one| one.behaviour);
    if behaviour.is_some_and(|behaviour| free.contains(&behaviour)) {
        let message = format!("nothing can be promised in `{}`", class.value);
        let hint = "name a class of EF, AF, a class selector or DRT: what others send there is held \
                    to what they were promised";
        let at = class.span.clone();
        table.problems().error(codes::SHARE, at, message, hint);
    }
    Some(Service {
        name: name?,
        from: from.value,
        to: to.value,
        class: class.value,
        rate: rate?,
        burst,
        packet,
        smallest: stated,
        select,
        delay,
        jitter,
        loss,
        availability,
        outage,
        position,
    })
}

/// Reads `protocol`, `ports` and `from-ports`.
fn select(table: &mut Reader<'_, '_>) -> Select {
    let measured = |text: &str| {
        let protocol = Protocol::read(text)?;
        if [Protocol::TCP, Protocol::UDP].contains(&protocol) {
            return Ok(protocol);
        }
        // Other packets cannot be sent for a verification.
        Err((
            format!("a service's packets are not selected by {protocol}"),
            "write `tcp` or `udp`; other packets are marked where they are sent".to_owned(),
        ))
    };
    let protocols = field::several(table, PROTOCOL.name, codes::SELECT, MOST_SELECTED, measured);
    let mut ports = |key| field::several(table, key, codes::SELECT, MOST_SELECTED, Ports::read);
    let (to, from) = (ports(PORTS.name), ports(FROM_PORTS.name));
    Select {
        protocols: plain(protocols),
        ports: plain(to),
        from_ports: plain(from),
    }
}

fn plain<T>(list: Vec<Value<T>>) -> Vec<T> {
    list.into_iter().map(|one| one.value).collect()
}

/// Reports services of one sender that select the same packets, because a packet has one class.
pub(super) fn apart(domain: &Domain, problems: &Problems) {
    let selecting = domain.services.iter().enumerate();
    for (at, service) in selecting.filter(|(_, service)| !service.select.is_empty()) {
        let anywhere = |name: &String| {
            let customer = domain.customers.get(name);
            customer.is_none_or(|customer| customer.scope().is_empty())
        };
        let same = |other: &&Service| {
            let one_place = other.to == service.to || anywhere(&other.to) || anywhere(&service.to);
            let selects = !other.select.is_empty() && other.select.meets(&service.select);
            other.from == service.from && one_place && selects
        };
        if let Some(other) = domain.services[..at].iter().find(same) {
            let message = format!(
                "packets that `{}` selects may belong to `{}` on line {} as well",
                service.name, other.name, other.position.line
            );
            let hint = "give them ports of their own, or `networks` to their receivers";
            let span = service.position.span.clone();
            problems.error(codes::SELECT, span, message, hint);
        }
    }
}

fn name(table: &mut Reader<'_, '_>, used: &mut BTreeSet<String>) -> Option<String> {
    let name = NAME.get(table)?;
    field::well_formed(table, &name);
    if !used.insert(name.value.clone()) {
        let message = format!("the name `{}` is taken", name.value);
        let hint = "give each service a name of its own";
        table
            .problems()
            .error(codes::NAME, name.span, message, hint);
        return None;
    }
    Some(name.value)
}
