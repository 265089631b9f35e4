// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The conditioners of a port, as part of its policy. They limit what customers send into the
//! domain (RFC 2475 section 2.3.3), and bound expedited forwarding at every port by the promises
//! (RFC 3246).

use crate::{Behaviour, Check, Contract, Domain, PortId, Service, contracts};
use std::fmt::{Display, Write};
use weirgate_policy::Ports;
use weirgate_units::Rate;

/// The profile of several services together.
#[derive(Debug, Clone, Copy, Default)]
struct Profile {
    /// The rate in IP bytes a second.
    rate: u64,
    /// The burst in IP bytes.
    burst: u64,
}

impl Profile {
    fn add(&mut self, service: &Service, burst: u64) {
        let bits = service.rate.as_bits_per_second();
        self.rate = self.rate.saturating_add(bits.div_ceil(8));
        self.burst = self.burst.saturating_add(burst);
    }

    fn rate(self) -> Rate {
        Rate::bits_per_second(self.rate.saturating_mul(8))
    }

    /// Returns the fields of a meter.
    fn text(self) -> String {
        let rate = self.rate();
        format!("rate = \"{rate}\"\nburst = {}\n", self.burst)
    }
}

/// Returns the conditioners of a port as text, to append to its policy.
///
/// Packets from a customer are metered by each of the customer's [`contracts`]. Expedited
/// forwarding beyond its contract is discarded, and packets of a class selector lose their
/// class. Assured forwarding gets a drop precedence according to its conformance, or is
/// discarded if some router cannot distinguish precedences ([`Domain::tells_levels`]). Code
/// points of classes without a promise to the customer, or to that receiver, become the default
/// one.
///
/// Packets that leave in expedited forwarding are policed to the sum of the promises on this
/// port, with the burst that may arrive there. Without a promise they are discarded. A packet
/// within its profile, on its service's path, is never discarded, because the bound counts at
/// least its bytes.
#[must_use]
pub fn conditioners(domain: &Domain, check: &Check, port: PortId) -> String {
    let mut text = String::new();
    let Some(own) = check.ports.get(port.0) else {
        return text;
    };
    let mut customers = domain.customers.iter();
    let here = customers.find(|(_, one)| one.router == own.router && one.device == own.device);
    if let Some((customer, _)) = here {
        entering(&mut text, domain, customer);
    }
    let mut classes = domain.classes.iter();
    if let Some((name, _)) = classes.find(|(_, class)| class.behaviour == Behaviour::Ef) {
        bound(&mut text, domain, check, port, name);
    }
    text
}

/// Limits what leaves by a port in the class of expedited forwarding.
fn bound(text: &mut String, domain: &Domain, check: &Check, port: PortId, class: &str) {
    let mut profile = Profile::default();
    let mut loads = check.loads.iter();
    let load = loads.find(|load| load.port == port && load.class == class);
    for number in load.iter().flat_map(|load| &load.services) {
        let delay = check.delays.get(*number).and_then(Option::as_ref);
        let hop = delay.and_then(|delay| delay.hops.iter().find(|hop| hop.port == port));
        if let (Some(service), Some(hop)) = (domain.services.get(*number), hop) {
            profile.add(service, hop.burst);
        }
    }
    let conditioner = format!("[[conditioner]]\nname = \"bound\"\nclass = \"{class}\"\n");
    let _ = if profile.rate > 0 {
        write!(
            text,
            "\n# What was promised of {class}, with what may come at once here.\n\
             {conditioner}meter = \"bucket\"\n{}",
            profile.text()
        )
    } else {
        write!(
            text,
            "\n# Nothing was promised of {class} here.\n{conditioner}green = \"drop\"\n"
        )
    };
}

/// Limits what a customer may send.
fn entering(text: &mut String, domain: &Domain, customer: &str) {
    for contract in contracts(domain, customer) {
        let names = contract.services.iter();
        let names = names.filter_map(|at| domain.services.get(*at));
        let names: Vec<&str> = names.map(|service| service.name.as_str()).collect();
        let _ = write!(text, "\n# {}.", names.join(", "));
        conditioner(text, &contract.name);
        whose(text, &contract);
        does(text, &contract, domain.tells_levels());
    }
    let mut free = Behaviour::Default.code_points();
    free.extend(Behaviour::LowerEffort.code_points());
    conditioner(text, "in-free");
    list(text, "dscp", &free);
    text.push_str("green = \"pass\"\n\n# All else was promised nothing.");
    conditioner(text, "in-rest");
    text.push_str("green = \"CS0\"\n");
}

fn conditioner(text: &mut String, name: &str) {
    let _ = write!(
        text,
        "\n[[conditioner]]\nname = \"{name}\"\nat = \"enter\"\n"
    );
}

/// Writes which packets a contract covers. They enter the link's own device, so for its policy
/// the customer is outside and the receiver is inside.
fn whose(text: &mut String, contract: &Contract) {
    list(text, "local-address", &contract.to);
    if contract.select.is_empty() {
        list(text, "dscp", &contract.behaviour.code_points());
        return;
    }
    let protocols = contract.select.protocols.iter();
    let ports = |ports: &[Ports]| -> Vec<String> {
        let each = ports.iter().map(|one| {
            if one.from == one.to {
                one.from.to_string()
            } else {
                format!("{}-{}", one.from, one.to)
            }
        });
        each.collect()
    };
    list(text, "protocol", &protocols.collect::<Vec<_>>());
    list(text, "local-port", &ports(&contract.select.ports));
    list(text, "remote-port", &ports(&contract.select.from_ports));
}

fn list(text: &mut String, key: &str, elements: &[impl Display]) {
    let quoted: Vec<String> = elements.iter().map(|one| format!("\"{one}\"")).collect();
    if !quoted.is_empty() {
        let _ = writeln!(text, "{key} = [{}]", quoted.join(", "));
    }
}

/// Writes the treatment of these packets. Selected packets get the first code point of their
/// behaviour, whatever they have; others already have one of its code points.
fn does(text: &mut String, contract: &Contract, levels: bool) {
    let profile = Profile {
        rate: contract.rate.as_bits_per_second().div_ceil(8),
        burst: contract.burst,
    };
    let first = contract.behaviour.code_points().into_iter().next();
    let green = match first.filter(|_| !contract.select.is_empty()) {
        Some(point) => format!("green = \"{point}\"\n"),
        None => String::new(),
    };
    let meter = profile.text();
    let _ = match contract.behaviour {
        Behaviour::Af(class) if levels => write!(
            text,
            "meter = \"srtcm\"\n{meter}excess-burst = {}\ngreen = \"AF{class}1\"\n\
             yellow = \"AF{class}2\"\nred = \"AF{class}3\"\n",
            profile.burst
        ),
        // Importance 6 within the promise, 4 up to twice the promise, 2 beyond.
        Behaviour::Drt { real_time } if levels => {
            let urgency = if real_time { "real-time" } else { "elastic" };
            write!(
                text,
                "nominal-rate = \"{}\"\nburst = {}\nurgency = \"{urgency}\"\n",
                profile.rate(),
                profile.burst
            )
        }
        Behaviour::Ef | Behaviour::Af(_) | Behaviour::Drt { .. } => {
            write!(text, "meter = \"bucket\"\n{meter}{green}")
        }
        // The parser rejects promises in the last two.
        Behaviour::ClassSelector(_) | Behaviour::Default | Behaviour::LowerEffort => {
            write!(text, "meter = \"bucket\"\n{meter}{green}red = \"CS0\"\n")
        }
    };
    if let Some(smallest) = contract.smallest {
        let _ = writeln!(text, "mpu = {}", smallest.as_bytes());
    }
}
