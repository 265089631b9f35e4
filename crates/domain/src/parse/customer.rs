// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[customer.NAME]`.

use super::field::{self, MOST, Rates};
use super::topology;
use crate::codes;
use crate::{Customer, Link, Position, Role, Router};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use weirgate_document::registry::{Field, Own, Table, Text, Texts};
use weirgate_document::{Reader, Value};
use weirgate_policy::Prefix;

pub(super) const CUSTOMER: Field<Own> =
    Field::new("customer", Own("a table for each name"), "The customers")
        .required("add a table `[customer.NAME]`");

const ROUTER: Field<Text> = Field::new(
    "router",
    Text,
    "The boundary router that connects the customer",
)
.required("name the router");
const DEVICE: Field<Text> = Field::new("device", Text, "The router's device towards the customer")
    .required("name the router's device towards the customer");
const RATE: Field<Rates> = Field::new(
    "rate",
    field::RATES,
    "The rate of the customer's line; one rate, or one towards the customer and one from there",
)
.required("write what the line carries towards the customer, and from there where that differs");
const NETWORKS: Field<Texts> = Field::new(
    "networks",
    Texts("prefixes of IPv4 and IPv6, 8 at most"),
    "The customer's networks, which no other customer has. Promises to the customer hold for these",
)
.default("`address` alone");
const HOST: Field<Text> = Field::new(
    "host",
    Text,
    "A machine of the customer that can send and receive, by its address for ssh; for `verify`",
);
const ADDRESS: Field<Own> = Field::new(
    "address",
    Own("address of IPv4 or IPv6"),
    "The address of that machine within the domain, in `networks`",
);

pub(super) const OF_CUSTOMER: Table = Table::new(
    "[customer.NAME]",
    "A customer",
    &[
        &ROUTER,
        &DEVICE,
        &RATE,
        &field::LAYER,
        &field::DELAY,
        &NETWORKS,
        &HOST,
        &ADDRESS,
    ],
);

/// The largest number of networks of a customer, which is that of each side of a conditioner
/// (`CONDITION_NETS`).
const MOST_NETWORKS: usize = 8;

/// Reads the customers, and returns the names of all, including those with errors.
pub(super) fn customers(
    root: &mut Reader<'_, '_>,
    routers: &BTreeMap<String, Router>,
    links: &[Link],
) -> (BTreeMap<String, Customer>, BTreeSet<String>) {
    let mut customers = BTreeMap::new();
    let mut names = BTreeSet::new();
    let mut used: BTreeSet<(String, String)> = BTreeSet::new();
    for link in links {
        let ends = link.between.iter().zip(&link.devices);
        used.extend(ends.map(|(router, device)| (router.clone(), device.clone())));
    }
    for (name, mut table) in field::named_tables(root, &CUSTOMER, MOST) {
        let position = Position {
            span: name.span.clone(),
            line: name.line,
        };
        names.insert(name.value.clone());
        if routers.contains_key(&name.value) {
            let message = format!("`{}` is a router as well", name.value);
            let hint = "give the customer another name: each is a machine";
            let at = name.span.clone();
            table.problems().error(codes::NAME, at, message, hint);
        }
        if let Some(customer) = customer(&mut table, routers, &mut used, &customers, position) {
            customers.insert(name.value, customer);
        }
    }
    measured_once(root, &customers);
    (customers, names)
}

/// Reports two customers whose services would be measured at the same machine under two
/// addresses, so that one measurement would be wrong.
fn measured_once(root: &Reader<'_, '_>, customers: &BTreeMap<String, Customer>) {
    let mut reached: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, customer) in customers {
        let Some(host) = customer.host.as_deref() else {
            continue;
        };
        if let Some(other) = reached.insert(host, name) {
            let message = format!("`{other}` and `{name}` are both the machine `{host}`");
            let hint = "write a machine of each customer's own as `host`, or leave it out";
            let span = customer.position.span.clone();
            root.problems().error(codes::NAME, span, message, hint);
        }
    }
}

fn customer(
    table: &mut Reader<'_, '_>,
    routers: &BTreeMap<String, Router>,
    used: &mut BTreeSet<(String, String)>,
    others: &BTreeMap<String, Customer>,
    position: Position,
) -> Option<Customer> {
    let names = routers.keys().map(String::as_str);
    let router = ROUTER.get(table);
    let router = router.filter(|name| field::exists(table, name, "router", names));
    let device = DEVICE.get(table);
    let rates = RATE.get(table);
    let delay = field::delay(table);
    let layer = field::layer(table);
    let host = HOST.get(table);
    let host = field::host(table, host);
    let address = table.parsed::<IpAddr>(ADDRESS.name);
    let networks = networks(table, address.as_ref(), others);
    let (router, device) = (router?, device?);
    if routers.get(&router.value).map(|one| one.role) == Some(Role::Interior) {
        let message = format!("`{}` is an interior router", router.value);
        let hint = "customers are connected to routers with `role = \"boundary\"`";
        let at = router.span.clone();
        table.problems().error(codes::LINK, at, message, hint);
    }
    let port = (router.value.clone(), device.value.clone());
    if !field::device(table, &device) || !topology::unused(table, used, port, &device) {
        return None;
    }
    Some(Customer {
        router: router.value,
        device: device.value,
        rate: rates?[0],
        rate_from: rates?[1],
        layer: layer?,
        delay,
        host,
        address: address.map(|address| address.value),
        networks: networks.into_iter().map(|network| network.value).collect(),
        position,
    })
}

/// Reads the networks of a customer, which must not overlap with others and must contain the
/// measuring machine.
fn networks(
    table: &mut Reader<'_, '_>,
    address: Option<&Value<IpAddr>>,
    others: &BTreeMap<String, Customer>,
) -> Vec<Value<Prefix>> {
    let networks = field::several(
        table,
        NETWORKS.name,
        codes::NETWORK,
        MOST_NETWORKS,
        Prefix::of_text,
    );
    let own = address.map(|address| (Prefix::single(address.value), address.span.clone()));
    if let Some((own, span)) = &own
        && !networks.is_empty()
        // The address may be in a network that could not be parsed.
        && !table.problems().has_errors()
        && !networks.iter().any(|network| network.value.contains(*own))
    {
        let message = format!("`address` {} is in none of `networks`", own.address);
        let hint = "write an address that is, or add its network";
        let problems = table.problems();
        problems.error(codes::NETWORK, span.clone(), message, hint);
    }
    let stated = networks.iter().map(|one| (one.value, one.span.clone()));
    let scope: Vec<_> = match own {
        Some(own) if networks.is_empty() => vec![own],
        _ => stated.collect(),
    };
    for (network, span) in scope {
        let shared = others.iter().find_map(|(name, other)| {
            let other = other.scope().into_iter();
            let mut met = other.filter(|one| one.contains(network) || network.contains(*one));
            met.next().map(|met| (name, met))
        });
        if let Some((name, met)) = shared {
            let message = format!("{network} and {met} of `{name}` overlap");
            let hint = "what is sent there is measured by whose address it is; write each \
                        customer's own networks";
            table.problems().error(codes::NETWORK, span, message, hint);
        }
    }
    networks
}
