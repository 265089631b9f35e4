// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The contracts of a customer, as the boundary router distinguishes them. Services whose
//! packets it cannot distinguish are metered together.

use crate::{Behaviour, Domain, Select, Service};
use std::collections::BTreeMap;
use weirgate_policy::Prefix;
use weirgate_units::{Rate, Size};

/// Services of one sender that are metered together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    /// The name: from class and receiver, or that of the single service that selects its
    /// packets.
    pub name: String,
    /// The per-hop behaviour.
    pub behaviour: Behaviour,
    /// The services, as indices into [`Domain::services`].
    pub services: Vec<usize>,
    /// The receivers' networks; empty if they are unknown, so that any destination matches.
    pub to: Vec<Prefix>,
    /// The selectors of its packets; if empty, they are classified by the class's code points.
    pub select: Select,
    /// The sum of the rates, in IP bytes.
    pub rate: Rate,
    /// The sum of the bursts, in IP bytes.
    pub burst: u64,
    /// The size as which smaller packets count, in IP bytes.
    pub smallest: Option<Size>,
}

/// Returns the contracts of a customer in the order of classification. Services with selectors
/// come first, in the order of the file. Then follow the classes with known receivers, and
/// finally all other traffic of each class.
#[must_use]
pub fn contracts(domain: &Domain, customer: &str) -> Vec<Contract> {
    let mut selecting = Vec::new();
    let mut classes: BTreeMap<(Behaviour, bool, &str), Contract> = BTreeMap::new();
    for (at, service) in domain.services.iter().enumerate() {
        let class = domain.classes.get(&service.class);
        let Some(class) = class.filter(|_| service.from == customer) else {
            continue;
        };
        let to = domain.customers.get(&service.to);
        let to = to.map(crate::Customer::scope).unwrap_or_default();
        let anywhere = to.is_empty();
        let receiver = if anywhere { "" } else { service.to.as_str() };
        let new = |last: &str| Contract {
            name: named(class.behaviour, last),
            behaviour: class.behaviour,
            services: Vec::new(),
            to,
            select: service.select.clone(),
            rate: Rate::default(),
            burst: 0,
            smallest: Some(service.packet),
        };
        if service.select.is_empty() {
            let key = (class.behaviour, anywhere, receiver);
            let contract = classes.entry(key).or_insert_with(|| new(receiver));
            contract.add(at, service);
        } else {
            let mut contract = new(&service.name);
            contract.add(at, service);
            selecting.push(contract);
        }
    }
    let mut all: Vec<Contract> = selecting.into_iter().chain(classes.into_values()).collect();
    for at in 0..all.len() {
        let taken = all[..at].iter().any(|other| other.name == all[at].name);
        if taken || all[at].name.len() > LONGEST_NAME {
            all[at].name = named(all[at].behaviour, &at.to_string());
        }
    }
    all
}

/// The longest name of a conditioner.
const LONGEST_NAME: usize = 31;

fn named(behaviour: Behaviour, last: &str) -> String {
    let behaviour = behaviour.to_string().to_lowercase();
    match last {
        "" => format!("in-{behaviour}"),
        last => format!("in-{behaviour}-{last}"),
    }
}

impl Contract {
    fn add(&mut self, at: usize, service: &Service) {
        // Whole bytes, rounded up, like those of the meter.
        let bytes = service.rate.as_bits_per_second().div_ceil(8);
        let bits = self.rate.as_bits_per_second();
        self.rate = Rate::bits_per_second(bits.saturating_add(bytes.saturating_mul(8)));
        self.burst = self.burst.saturating_add(service.burst.as_bytes());
        self.smallest = self
            .smallest
            .zip(service.smallest)
            .map(|(one, other)| one.min(other));
        self.services.push(at);
    }
}

/// Gives each service the size as which small packets are metered: that of the smallest packet
/// in its contract, because a meter cannot tell to which service a small packet belongs.
pub(crate) fn settle_smallest(domain: &mut Domain) {
    let customers: Vec<String> = domain.customers.keys().cloned().collect();
    for customer in customers {
        for contract in contracts(domain, &customer) {
            for at in contract.services {
                domain.services[at].smallest = contract.smallest;
            }
        }
    }
}
