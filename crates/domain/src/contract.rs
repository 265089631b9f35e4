// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a customer may send, as the boundary router distinguishes it. Services whose packets it
//! cannot distinguish are metered together.

use crate::{Behaviour, Domain, Select, Service};
use std::collections::BTreeMap;
use weirgate_policy::Prefix;
use weirgate_units::{Rate, Size};

/// Services of one sender that are measured together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    /// What they are called there: by their class and receiver, or by the one
    /// service that selects its packets.
    pub name: String,
    /// How their packets are treated.
    pub behaviour: Behaviour,
    /// The services, as numbers in [`Domain::services`].
    pub services: Vec<usize>,
    /// To whom their packets go; anywhere where nothing is known of that.
    pub to: Vec<Prefix>,
    /// What their packets are found by; by the class's code points where this
    /// looks at nothing.
    pub select: Select,
    /// The sum of their rates, of IP packets.
    pub rate: Rate,
    /// The sum of their bursts, in IP bytes.
    pub burst: u64,
    /// What a smaller packet counts as, in IP bytes.
    pub smallest: Option<Size>,
}

/// What a customer was promised, in the order in which his packets are looked
/// at: services that select their packets, as written; then class by class, by
/// receivers of whom it is known where they are; then all else of a class.
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
        // Whole bytes, rounded up, as the meter counts.
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

/// Gives each service the size that small packets count as where it is measured,
/// which is that of the smallest of its contract: a meter cannot tell of which
/// service a small packet is.
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
