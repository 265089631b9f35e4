// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limits of conditioners at the edge, and what the file leaves open about customers and
//! packets.

use crate::{Domain, Finding, contracts};
use std::collections::BTreeSet;
use weirgate_units::Inserted as _;

/// The largest number of conditioners of one device and direction (`CONDITIONERS` of
/// `bpf/inbound/condition.bpf.c`).
const MOST: usize = 32;

/// The conditioners for traffic without promises: the default and lower effort, and everything
/// else.
const OTHERS: usize = 2;

/// Returns findings about customers with more contracts than their port supports.
pub(crate) fn findings(domain: &Domain) -> Vec<Finding> {
    let found = domain.customers.iter().filter_map(|(name, customer)| {
        let contracts = contracts(domain, name);
        let count = contracts.len();
        let over = (count + OTHERS)
            .checked_sub(MOST)
            .filter(|over| *over > 0)?;
        let selecting = contracts
            .iter()
            .filter(|one| !one.select.is_empty())
            .count();
        Some(Finding {
            service: None,
            line: customer.position.line,
            what: format!(
                "{} of {} has to tell {count} promises of `{name}` apart, by class and receiver \
                 ({}) or by what is selected ({selecting}), and has room for {}",
                customer.device,
                customer.router,
                count - selecting,
                MOST - OTHERS
            ),
            changes: vec![
                format!("promise {over} less"),
                "connect some of his hosts as a customer of their own, at another device"
                    .to_owned(),
            ],
        })
    });
    found.collect()
}

/// Returns notes on weaker guarantees because of missing information, one line for each kind.
pub(crate) fn notes(domain: &Domain) -> Vec<String> {
    let mut notes = Vec::new();
    let joined_to_nothing: BTreeSet<&str> = domain
        .routers
        .keys()
        .map(String::as_str)
        .filter(|name| {
            let mut links = domain.links.iter().flat_map(|link| &link.between);
            let mut customers = domain.customers.values();
            !links.any(|router| router == name)
                && !customers.any(|customer| customer.router == *name)
        })
        .inserted();
    if !joined_to_nothing.is_empty() {
        notes.push(format!(
            "No link or customer is at {}, which gets no policy.",
            joined(&joined_to_nothing)
        ));
    }
    let receivers: BTreeSet<&str> = domain
        .services
        .iter()
        .map(|service| service.to.as_str())
        .filter(|name| {
            let customer = domain.customers.get(*name);
            customer.is_some_and(|customer| customer.scope().is_empty())
        })
        .inserted();
    if !receivers.is_empty() {
        notes.push(format!(
            "No `networks` are set for {}: packets count against promises to them wherever they \
             are sent.",
            joined(&receivers)
        ));
    }
    let single: BTreeSet<&str> = domain
        .services
        .iter()
        .map(|service| service.to.as_str())
        .filter(|name| {
            let customer = domain.customers.get(*name);
            customer.is_some_and(|one| one.networks.is_empty() && one.address.is_some())
        })
        .inserted();
    if !single.is_empty() {
        notes.push(format!(
            "No `networks` are set for {}: promises to them hold only for their `address`.",
            joined(&single)
        ));
    }
    let open: BTreeSet<&str> = domain
        .services
        .iter()
        .filter(|service| service.smallest.is_none())
        .map(|service| service.name.as_str())
        .inserted();
    if !open.is_empty() {
        notes.push(format!(
            "No smallest `packet` is set for {}: the sums below assume the stated sizes, or 1500 B \
             without one, and smaller packets take more of each line.",
            joined(&open)
        ));
    }
    notes
}

/// Joins names, but only the first of many.
fn joined(names: &BTreeSet<&str>) -> String {
    const SHOWN: usize = 8;
    let first: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect();
    match names.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{} and {more} more", first.join(", ")),
        _ => first.join(", "),
    }
}
