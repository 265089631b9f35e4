// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The conditioners of a port, as part of its policy: what customers may send
//! into the domain (RFC 2475 section 2.3.3), and expedited forwarding bounded
//! by what was promised at every port (RFC 3246).

use crate::{Behaviour, Check, Domain, PortId, Service};
use std::collections::BTreeMap;
use std::fmt::Write;
use weirgate_units::Rate;

/// What several services may send together.
#[derive(Debug, Clone, Copy, Default)]
struct Profile {
    /// IP bytes a second.
    rate: u64,
    /// IP bytes at once.
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

    /// The fields of a meter.
    fn text(self) -> String {
        let rate = self.rate();
        format!("rate = \"{rate}\"\nburst = {}\n", self.burst)
    }
}

/// The conditioners of a port as text, to stand behind its policy.
///
/// What enters from a customer is measured class by class against the sum of
/// what he was promised there: expedited forwarding and class selectors beyond
/// it are discarded or lose their class, assured forwarding gets the drop
/// precedence that it has earned, or is discarded where some router does not tell
/// precedences apart ([`Domain::tells_levels`]), and code points of classes in which he was
/// promised nothing become those of the default behaviour. What leaves in
/// expedited forwarding is held to what was promised of it on this port, with
/// what may come at once there, and discarded where nothing was; a packet within
/// its profile, on its service's way, is never discarded, because the bound counts
/// at least its bytes.
#[must_use]
pub fn conditioners(domain: &Domain, check: &Check, port: PortId) -> String {
    let mut text = String::new();
    let Some(own) = check.ports.get(port.0) else {
        return text;
    };
    let mut customers = domain.customers.iter();
    if customers.any(|(_, one)| one.router == own.router && one.device == own.device) {
        entering(&mut text, domain, &own.router, &own.device);
    }
    let mut classes = domain.classes.iter();
    if let Some((name, _)) = classes.find(|(_, class)| class.behaviour == Behaviour::Ef) {
        bound(&mut text, domain, check, port, name);
    }
    text
}

/// What leaves by a port in the class of expedited forwarding.
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

/// What customers at a device may send.
fn entering(text: &mut String, domain: &Domain, router: &str, device: &str) {
    let mut profiles: BTreeMap<Behaviour, Profile> = BTreeMap::new();
    for service in &domain.services {
        let from = domain.customers.get(&service.from);
        let here = from.is_some_and(|from| from.router == router && from.device == device);
        let class = domain.classes.get(&service.class).filter(|_| here);
        if let Some(class) = class {
            let profile = profiles.entry(class.behaviour).or_default();
            profile.add(service, service.burst.as_bytes());
        }
    }
    let mut conditioner = |name: &str, codes: &[String], rest: &str| {
        let codes: Vec<String> = codes.iter().map(|code| format!("\"{code}\"")).collect();
        let _ = write!(
            text,
            "\n[[conditioner]]\nname = \"{name}\"\nat = \"enter\"\ndscp = [{}]\n{rest}",
            codes.join(", ")
        );
    };
    let levels = domain.tells_levels();
    for (behaviour, profile) in profiles {
        let name = format!("in-{}", behaviour.to_string().to_lowercase());
        let codes = behaviour.code_points();
        let meter = profile.text();
        match behaviour {
            Behaviour::Ef => conditioner(&name, &codes, &format!("meter = \"bucket\"\n{meter}")),
            Behaviour::Af(_) | Behaviour::Drt { .. } if !levels => {
                conditioner(&name, &codes, &format!("meter = \"bucket\"\n{meter}"));
            }
            Behaviour::ClassSelector(_) => conditioner(
                &name,
                &codes,
                &format!("meter = \"bucket\"\n{meter}red = \"CS0\"\n"),
            ),
            Behaviour::Af(class) => conditioner(
                &name,
                &codes,
                &format!(
                    "meter = \"srtcm\"\n{meter}excess = {}\ngreen = \"AF{class}1\"\n\
                     yellow = \"AF{class}2\"\nred = \"AF{class}3\"\n",
                    profile.burst
                ),
            ),
            // Within the promise 6, within twice that 4, beyond 2.
            Behaviour::Drt { real_time } => {
                let urgency = if real_time { "real-time" } else { "elastic" };
                let rate = profile.rate();
                conditioner(
                    &name,
                    &codes,
                    &format!(
                        "nominal = \"{rate}\"\nburst = {}\nurgency = \"{urgency}\"\n",
                        profile.burst
                    ),
                );
            }
            // Who exceeds a promise of the default behaviour is as all others
            // are: there is nothing below it that he did not ask for.
            Behaviour::Default | Behaviour::LowerEffort => {}
        }
    }
    let mut free = Behaviour::Default.code_points();
    free.extend(Behaviour::LowerEffort.code_points());
    conditioner("in-free", &free, "green = \"pass\"\n");
    text.push_str(
        "\n# All else was promised nothing.\n[[conditioner]]\nname = \"in-rest\"\n\
         at = \"enter\"\ngreen = \"CS0\"\n",
    );
}
