// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limits of conditioners at the edge, and what the file leaves open about customers and
//! packets.

use crate::{Domain, Finding, Load, Port, contracts};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_units::{Inserted as _, Span};

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
    notes.extend(of_shares(domain));
    notes.extend(of_outages(domain));
    notes
}

/// Returns a note on the shares that follow from precedences.
fn of_shares(domain: &Domain) -> Option<String> {
    let classes = domain.classes.iter().filter(|(_, one)| one.by_precedence);
    let shares = classes.filter_map(|(name, class)| Some(format!("`{name}` {}", class.share?)));
    let shares: Vec<String> = shares.collect();
    (!shares.is_empty()).then(|| format!("Shares by IP precedence: {}.", shares.join(", ")))
}

/// Returns notes on outages that the availability of the longest month does not leave room for.
fn of_outages(domain: &Domain) -> Vec<String> {
    let longer = domain.services.iter().filter_map(|service| {
        let left = service.unavailable(LONGEST_MONTH)?;
        let outage = service.outage.filter(|outage| *outage > left)?;
        Some(format!(
            "`{}` may have an outage of {outage}, but its availability leaves {:.1} min in 31 \
             days.",
            service.name,
            left.as_secs_f64() / 60.0
        ))
    });
    longer.collect()
}

/// The length of the longest month.
const LONGEST_MONTH: Span = Span::from_secs(31 * 24 * 60 * 60);

/// Returns notes on classes with more promises than guarantee, each with its most loaded port.
pub(crate) fn crowded(ports: &[Port], crowded: &BTreeMap<&str, &Load>) -> Vec<String> {
    let each = crowded.iter().map(|(class, load)| {
        let port = &ports[load.port.0];
        format!(
            "`{class}` is over-subscribed: {:.2} times its guarantee is promised at {} of {}. \
             What exceeds the guarantee is sent only while other classes leave room.",
            load.factor(),
            port.device,
            port.router
        )
    });
    each.collect()
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
