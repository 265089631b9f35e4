// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Promises beside measurements, service by service; for a broken promise, the routers that can be
//! the cause.

use crate::{Behaviour, Check, Domain, PortId, Service};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use weirgate_units::Inserted as _;
use weirgate_units::{Dscp, Share, Span};

/// The part of what was sent that may be missing where no less is promised: a
/// datagram in a hundred is what a measurement of some seconds can tell from none.
const MISSING: Share = Share::percent(1);

/// A service's traffic as it is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// IP packets that were sent.
    pub sent: u64,
    /// Those that arrived.
    pub received: u64,
    /// How long they were sent, in seconds.
    pub seconds: f64,
    /// The shortest round trip of the same packets before, while nothing else
    /// was measured.
    pub round_trip: Span,
    /// By how much the slowest packet took longer than the fastest.
    pub variation: Span,
}

impl Measured {
    /// The slowest packet's time from end to end: half the shortest round trip
    /// and what was added to it. Clocks need not agree; where the way back
    /// takes another time than the way there, half the difference is unknown.
    #[must_use]
    pub fn worst(&self) -> Span {
        Span::from_nanos(self.round_trip.as_nanos() / 2) + self.variation
    }

    /// What arrived, in bits of IP packets a second.
    #[must_use]
    pub fn rate_bits(&self, packet: u64) -> f64 {
        self.received as f64 * packet as f64 * 8.0 / self.seconds.max(1e-9)
    }

    /// The part that did not arrive, 1 for all of it.
    #[must_use]
    pub fn lost(&self) -> f64 {
        let lost = self.sent.saturating_sub(self.received);
        lost as f64 / self.sent.max(1) as f64
    }
}

/// What was promised of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// That so much arrives.
    Rate,
    /// The longest time.
    Delay,
    /// The most by which times differ.
    Jitter,
    /// The most that is lost.
    Loss,
}

impl Quantity {
    /// In what it is measured.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Rate => "kbit/s",
            Self::Delay | Self::Jitter => "ms",
            Self::Loss => "%",
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rate => "rate",
            Self::Delay => "delay",
            Self::Jitter => "jitter",
            Self::Loss => "loss",
        })
    }
}

/// A specification beside its figure, both in the unit of the quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// What of the service.
    pub quantity: Quantity,
    /// What was promised.
    pub promised: f64,
    /// What was measured.
    pub measured: f64,
    /// Whether it is kept.
    pub kept: bool,
}

/// The code point that a service's packets are sent with: that of its class,
/// of assured forwarding the one with the lowest drop precedence. Those that the
/// edge selects need none.
#[must_use]
pub fn code_point(domain: &Domain, service: &Service) -> Dscp {
    let class = domain.classes.get(&service.class);
    let class = class.filter(|_| service.select.is_empty());
    let behaviour = class.map_or(Behaviour::Default, |class| class.behaviour);
    let first = behaviour.code_points().into_iter().next();
    let point = first.and_then(|name| name.parse().ok());
    point.unwrap_or_default()
}

/// Every specification of a service beside what was measured. A rate is kept
/// where what was sent arrived: a sender that stays strictly within its profile
/// may send a little less than it.
#[must_use]
pub fn comparisons(service: &Service, measured: &Measured) -> Vec<Comparison> {
    let any = measured.received > 0;
    let lost = measured.lost();
    let may_be_lost = service.loss.map_or(MISSING, |loss| loss.max(MISSING));
    let mut all = vec![Comparison {
        quantity: Quantity::Rate,
        promised: service.rate.as_bits_per_second() as f64 / 1e3,
        measured: measured.rate_bits(service.packet.as_bytes()) / 1e3,
        kept: any && lost <= may_be_lost.as_f64(),
    }];
    let times = [
        (Quantity::Delay, service.delay, measured.worst()),
        (Quantity::Jitter, service.jitter, measured.variation),
    ];
    for (quantity, promised, found) in times {
        if let Some(promised) = promised {
            all.push(Comparison {
                quantity,
                promised: promised.as_millis_f64(),
                measured: found.as_millis_f64(),
                kept: any && found <= promised,
            });
        }
    }
    if let Some(promised) = service.loss {
        all.push(Comparison {
            quantity: Quantity::Loss,
            promised: promised.as_f64() * 100.0,
            measured: lost * 100.0,
            kept: any && lost <= promised.as_f64(),
        });
    }
    all
}

/// What a router was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// As the domain file says.
    AsPlanned,
    /// It differs: what would have to be changed, line by line.
    Differs(Vec<String>),
    /// It could not be asked.
    Unknown(String),
}

/// The result of a service.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// Its specifications beside what was measured.
    Judged(Vec<Comparison>),
    /// It was not measured, for this reason.
    NotMeasured(String),
}

impl Fate {
    /// Whether one of its specifications is broken.
    #[must_use]
    pub fn broken(&self) -> bool {
        matches!(self, Self::Judged(comparisons) if comparisons.iter().any(|one| !one.kept))
    }
}

/// Since when something is as it is, by service and quantity.
pub type Since = BTreeMap<(String, Quantity), State>;

/// How a promise was found, measurement after measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Whether it is kept.
    pub kept: bool,
    /// What was promised, in the unit of its quantity. Another promise is
    /// another matter.
    pub promised: f64,
    /// The first of the measurements in a row that found so, in words.
    pub when: String,
}

/// Everything that was found, to be shown.
#[derive(Debug, Clone)]
pub struct Verification<'d> {
    /// The domain.
    pub domain: &'d Domain,
    /// Its check.
    pub check: &'d Check,
    /// When it was measured, in words.
    pub when: String,
    /// Each router.
    pub routers: BTreeMap<String, Found>,
    /// Each service, in the order of the domain.
    pub services: Vec<Fate>,
    /// Since when.
    pub since: Since,
}

impl Verification<'_> {
    /// Whether everything is as it should be.
    #[must_use]
    pub fn sound(&self) -> bool {
        let routers = self.routers.values().all(|one| *one == Found::AsPlanned);
        routers
            && self
                .services
                .iter()
                .all(|one| matches!(one, Fate::Judged(_)) && !one.broken())
    }

    /// The ports that every measurement leaves as a cause: those that some
    /// broken service passes, and no kept service of the same class.
    #[must_use]
    pub fn suspects(&self) -> Vec<PortId> {
        let mut cleared: BTreeSet<(&str, PortId)> = BTreeSet::new();
        let mut passed: BTreeSet<(&str, PortId)> = BTreeSet::new();
        let all = self.domain.services.iter().zip(&self.services);
        for ((service, fate), path) in all.zip(&self.check.paths) {
            let Fate::Judged(_) = fate else { continue };
            let list = if fate.broken() {
                &mut passed
            } else {
                &mut cleared
            };
            let ports = path.iter().flatten();
            list.extend(ports.map(|port| (service.class.as_str(), *port)));
        }
        let left: BTreeSet<PortId> = passed
            .difference(&cleared)
            .map(|(_, port)| *port)
            .inserted();
        left.into_iter().collect()
    }

    /// What is stored for the next time: since when each verdict of this time holds, and the former
    /// record of everything else.
    pub fn remember(&mut self, before: Since) {
        let mut since = before;
        for (service, fate) in self.domain.services.iter().zip(&self.services) {
            let Fate::Judged(comparisons) = fate else {
                continue;
            };
            for comparison in comparisons {
                let key = (service.name.clone(), comparison.quantity);
                let same = since.get(&key).is_some_and(|state| {
                    (state.kept, state.promised) == (comparison.kept, comparison.promised)
                });
                if !same {
                    let state = State {
                        kept: comparison.kept,
                        promised: comparison.promised,
                        when: self.when.clone(),
                    };
                    since.insert(key, state);
                }
            }
        }
        let known = |name: &String| self.domain.services.iter().any(|one| one.name == *name);
        since.retain(|(name, _), _| known(name));
        self.since = since;
    }
}
