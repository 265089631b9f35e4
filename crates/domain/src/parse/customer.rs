// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[customer.NAME]`.

use super::{MOST, field, topology};
use crate::codes;
use crate::{Customer, Link, Place, Role, Router};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use weirgate_document::Reader;

/// The customers, and the names of all, those with mistakes included.
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
    for (name, mut table) in field::named_tables(root, "customer", MOST) {
        let place = Place {
            span: name.span.clone(),
            line: name.line,
        };
        names.insert(name.value.clone());
        if let Some(customer) = customer(&mut table, routers, &mut used, place) {
            customers.insert(name.value, customer);
        }
    }
    (customers, names)
}

fn customer(
    table: &mut Reader<'_, '_>,
    routers: &BTreeMap<String, Router>,
    used: &mut BTreeSet<(String, String)>,
    place: Place,
) -> Option<Customer> {
    let names = routers.keys().map(String::as_str);
    let router = field::known(table, "router", "router", names);
    let device = table.text("device").or_else(|| {
        let hint = "name the router's device towards the customer";
        (!table.has("device")).then(|| table.missing::<()>("device", hint));
        None
    });
    let rate = field::rate(
        table,
        "rate",
        "write what the line carries towards the customer",
    );
    let delay = field::travelling(table);
    let layer = field::layer(table);
    let host = field::host(table);
    let address = table.parsed::<IpAddr>("address");
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
        rate: rate?,
        layer: layer?,
        delay,
        host,
        address: address.map(|address| address.value),
        place,
    })
}
