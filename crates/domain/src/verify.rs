// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares promises with measurements, service by service. For a broken promise, it finds the
//! routers that can be the cause.

use crate::{Behaviour, Check, Domain, PortId, Service};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use weirgate_units::{Dscp, Inserted as _, Share, Span};

/// The loss that is tolerated if no limit was promised: in some seconds, a measurement cannot
/// distinguish one lost datagram in a hundred from none.
const MISSING: Share = Share::percent(1);

/// The measured traffic of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The number of IP packets sent.
    pub sent: u64,
    /// The number of IP packets received.
    pub received: u64,
    /// The duration of sending in seconds.
    pub seconds: f64,
    /// The shortest round trip of the same packets before, while nothing else was measured.
    pub round_trip: Span,
    /// The difference between the longest and the shortest delay.
    pub variation: Span,
}

impl Measured {
    /// Returns the longest one-way delay: half the shortest round trip, plus the variation.
    /// Clocks need not agree. If the two directions differ, half of the difference is unknown.
    #[must_use]
    pub fn worst(&self) -> Span {
        Span::from_nanos(self.round_trip.as_nanos() / 2) + self.variation
    }

    /// Returns the received rate in bits of IP packets per second.
    #[must_use]
    pub fn rate_bits(&self, packet: u64) -> f64 {
        self.received as f64 * packet as f64 * 8.0 / self.seconds.max(1e-9)
    }

    /// Returns the lost fraction, from 0 to 1.
    #[must_use]
    pub fn lost(&self) -> f64 {
        let lost = self.sent.saturating_sub(self.received);
        lost as f64 / self.sent.max(1) as f64
    }
}

/// A promised quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// The rate that arrives.
    Rate,
    /// The longest delay.
    Delay,
    /// The largest difference between delays.
    Jitter,
    /// The largest loss.
    Loss,
}

impl Quantity {
    /// Returns the unit of measurement.
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

/// A specification and its measurement, both in the unit of the quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The quantity.
    pub quantity: Quantity,
    /// The promise.
    pub promised: f64,
    /// The measurement.
    pub measured: f64,
    /// Whether the promise is kept.
    pub kept: bool,
}

/// Returns the code point with which a service's packets are sent: that of its class; for
/// assured forwarding, the one with the lowest drop precedence. Packets that the edge selects
/// need none.
#[must_use]
pub fn code_point(domain: &Domain, service: &Service) -> Dscp {
    let class = domain.classes.get(&service.class);
    let class = class.filter(|_| service.select.is_empty());
    let behaviour = class.map_or(Behaviour::Default, |class| class.behaviour);
    let first = behaviour.code_points().into_iter().next();
    let point = first.and_then(|name| name.parse().ok());
    point.unwrap_or_default()
}

/// Compares every specification of a service with its measurement. A rate is kept if the sent
/// packets arrived, because a sender that stays within its profile may send slightly less.
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

/// The state of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It agrees with the domain file.
    AsPlanned,
    /// It differs; the necessary changes, line by line.
    Differs(Vec<String>),
    /// It could not be queried.
    Unknown(String),
}

/// The result for a service.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// Its specifications with their measurements.
    Judged(Vec<Comparison>),
    /// It was not measured, for this reason.
    NotMeasured(String),
}

impl Fate {
    /// Returns whether one of its specifications is broken.
    #[must_use]
    pub fn broken(&self) -> bool {
        matches!(self, Self::Judged(comparisons) if comparisons.iter().any(|one| !one.kept))
    }
}

/// The state of each service and quantity, with the time since when it holds.
pub type Since = BTreeMap<(String, Quantity), State>;

/// The result of consecutive measurements of a promise.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Whether it is kept.
    pub kept: bool,
    /// The promise in the unit of its quantity; if it changes, the state starts again.
    pub promised: f64,
    /// The time of the first measurement in a row with this result, in words.
    pub when: String,
}

/// All results, for display.
#[derive(Debug, Clone)]
pub struct Verification<'d> {
    /// The domain.
    pub domain: &'d Domain,
    /// Its check.
    pub check: &'d Check,
    /// The time of the measurement, in words.
    pub when: String,
    /// The state of each router.
    pub routers: BTreeMap<String, Found>,
    /// The result of each service, in the order of the domain.
    pub services: Vec<Fate>,
    /// Since when each state holds.
    pub since: Since,
}

impl Verification<'_> {
    /// Returns whether everything is in order.
    #[must_use]
    pub fn sound(&self) -> bool {
        let routers = self.routers.values().all(|one| *one == Found::AsPlanned);
        routers
            && self
                .services
                .iter()
                .all(|one| matches!(one, Fate::Judged(_)) && !one.broken())
    }

    /// Returns the ports that can be the cause: those that a broken service passes, but no kept
    /// service of the same class.
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

    /// Returns what to store for the next time: since when each present verdict holds, and
    /// earlier records of everything else.
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
