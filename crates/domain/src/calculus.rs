// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The worst-case delay through several routers, by network calculus, port by port in the direction
//! of the traffic.
//!
//! # Derivation
//!
//! A service s that keeps to its profile sends at most `b_s + r_s t` wire bytes
//! in any time t (a leaky bucket). At a port, the services of one class share a
//! queue, so that together they send at most `B + R t`, B and R being the sums.
//! Crate `compile` derives the wait W of a packet of a class that keeps to that
//! (`bounds`): the packet being sent, what other classes are owed before it, and
//! the burst B itself, at the rate at which the class is served. It holds where
//! R is at most the class's guarantee, which admission makes sure of.
//!
//! Packets of one queue leave in their order, and each between 0 and W after it
//! came; so what s sends in a time t after this port it sent in `t + W` before
//! it: at most `b_s + r_s W + r_s t`. At the next port its burst therefore is
//! `b_s + r_s W` (Cruz, IEEE Trans. Inf. Theory 37(1), 1991, part II; RFC 3246
//! and 2598 leave the method open).
//!
//! The end-to-end delay is the time on the sender's own line, and the sum over
//! ports of the wait, the time of the packet itself on the line, and the line's
//! own delay. All but the waits is
//! the same for packets of one size, so that the sum of waits bounds the
//! variation as well.
//!
//! Each port needs the bursts that come to it, so that ports are taken in an
//! order in which every service meets them. Where services chase each other in
//! a circle there is no such order: the domain is then not analysable by this
//! method, and the circle is named.

use crate::node::{NodeError, scheduled};
use crate::{Domain, Path, Port, PortId, Service};
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use weirgate_compile::{ClassReport, check_report};
use weirgate_units::Inserted as _;
use weirgate_units::{Rate, Span};

/// The worst case of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delay {
    /// The packet's own time on the sender's line.
    pub first_sending: Span,
    /// The time that a bit travels there.
    pub first_travelling: Span,
    /// Port by port.
    pub hops: Vec<Hop>,
}

/// What one port adds at worst.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The port.
    pub port: PortId,
    /// The wait until the gate lets the packet go.
    pub wait: Span,
    /// The packet's own time on the line.
    pub sending: Span,
    /// The time that a bit travels.
    pub travelling: Span,
    /// Wire bytes of the service that may come to the port at once.
    pub burst: u64,
    /// The steps of the wait, in words.
    pub steps: Vec<(String, Span)>,
}

impl Delay {
    /// The longest time from the sender's machine to the receiver's, where
    /// nothing waits on the sender's line.
    #[must_use]
    pub fn worst(&self) -> Span {
        let each = |hop: &Hop| hop.wait + hop.sending + hop.travelling;
        let hops = self.hops.iter().map(each);
        hops.fold(self.first_line(), |a, b| a + b)
    }

    /// The time on the sender's line, which no router of the domain has a queue
    /// for.
    #[must_use]
    pub fn first_line(&self) -> Span {
        self.first_sending + self.first_travelling
    }

    /// The most by which two packets of one size differ.
    #[must_use]
    pub fn variation(&self) -> Span {
        let waits = self.hops.iter().map(|hop| hop.wait);
        waits.fold(Span::ZERO, |a, b| a + b)
    }
}

/// Why there is no worst case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoDelay {
    /// Services chase each other through these ports.
    Circle(Vec<PortId>),
    /// A port cannot be what the domain asks for.
    Node(NodeError),
    /// A class has no bound at a port, for this reason.
    Unbounded(PortId, String),
}

/// The worst cases of all services that have a path; the ports' loads must be
/// within what classes are guaranteed.
pub(crate) fn delays(
    domain: &Domain,
    ports: &[Port],
    paths: &[Option<Path>],
) -> Result<Vec<Option<Delay>>, NoDelay> {
    let begun = domain.services.iter().zip(paths);
    let begun = begun.map(|(service, path)| path.as_ref().map(|_| begun_at(domain, service)));
    let mut delays: Vec<Option<Delay>> = begun.collect();
    // What each service has gained on its way so far, in time: its burst at
    // the next port is its profile's and what it sends in that time.
    for id in order(ports, paths).map_err(NoDelay::Circle)? {
        let port = &ports[id.0];
        let here: Vec<usize> = (0..paths.len())
            .filter(|at| paths[*at].as_ref().is_some_and(|path| path.contains(&id)))
            .collect();
        if here.is_empty() {
            continue;
        }
        let mut bursts: BTreeMap<String, u64> = BTreeMap::new();
        let mut lines: BTreeMap<(&str, Option<PortId>), Arrivals> = BTreeMap::new();
        let mut own: BTreeMap<usize, u64> = BTreeMap::new();
        for at in &here {
            let service = &domain.services[*at];
            let rate = service.wire_rate(&port.layer.layer);
            let waited = delays[*at].as_ref().map_or(Span::ZERO, Delay::variation);
            let burst = service
                .wire_burst(&port.layer.layer)
                .saturating_add(grown(rate, waited));
            own.insert(*at, burst);
            let sum = bursts.entry(service.class.clone()).or_default();
            *sum = sum.saturating_add(burst);
            let from = paths[*at].as_ref().and_then(|path| before(path, id));
            let line = lines.entry((&service.class, from)).or_default();
            line.add(
                service,
                port,
                from.map(|from| &ports[from.0]),
                (rate, burst),
            );
        }
        let (policy, _) = scheduled(domain, port, &bursts).map_err(NoDelay::Node)?;
        let report = check_report(&policy);
        let classes = report
            .directions
            .first()
            .map_or(&[][..], |one| &one.classes);
        for at in here {
            let service = &domain.services[at];
            let class = classes.iter().find(|class| class.name == service.class);
            let Some(class) = class else { continue };
            let groups = lines.iter().filter(|((name, _), _)| *name == service.class);
            let groups: Vec<&Arrivals> = groups.map(|(_, line)| line).collect();
            let waiting = waiting(&groups, class.turns);
            let hop = hop(
                id,
                port,
                class,
                (own[&at], waiting),
                service.packet.as_bytes(),
            )?;
            if let Some(delay) = &mut delays[at] {
                delay.hops.push(hop);
            }
        }
    }
    Ok(delays)
}

/// The delay of a service before the first port.
fn begun_at(domain: &Domain, service: &Service) -> Delay {
    let packet = u32::try_from(service.packet.as_bytes()).unwrap_or(u32::MAX);
    let customer = domain.customers.get(&service.from);
    let sending = customer.and_then(|customer| {
        let layer = &customer.layer.layer;
        layer.serialisation(customer.rate_from, packet)
    });
    Delay {
        first_sending: sending.unwrap_or(Span::ZERO),
        first_travelling: customer.map_or(Span::ZERO, |customer| customer.delay),
        hops: Vec::new(),
    }
}

/// The port before another on a path.
fn before(path: &Path, id: PortId) -> Option<PortId> {
    let at = path.iter().position(|one| *one == id)?;
    Some(path[at.checked_sub(1)?])
}

/// The services of one class that one line brings to a port, in the port's own
/// wire bytes.
#[derive(Debug, Default)]
struct Arrivals {
    /// Their sum of rates, bit/s.
    rate: u128,
    /// Their sum of bursts.
    burst: u128,
    /// The largest packet.
    packet: u128,
    /// The most that the line brings, bit/s; none where it is not known.
    most: Option<u128>,
}

impl Arrivals {
    fn add(
        &mut self,
        service: &Service,
        port: &Port,
        from: Option<&Port>,
        (rate, burst): (Rate, u64),
    ) {
        let packet = u32::try_from(service.packet.as_bytes()).unwrap_or(u32::MAX);
        let here = u128::from(port.layer.layer.wire_bytes(packet));
        self.rate += u128::from(rate.as_bits_per_second());
        self.burst += u128::from(burst);
        self.packet = self.packet.max(here);
        // What the line brings in its own wire bytes is more or less in those
        // of this port; of services that differ, the one that makes it most.
        if let Some(from) = from {
            let there = u128::from(from.layer.layer.wire_bytes(packet)).max(1);
            let bits = u128::from(from.rate.as_bits_per_second()) * here;
            let most = bits.div_ceil(there);
            self.most = Some(self.most.map_or(most, |other| other.max(most)));
        }
    }

    /// Bytes that it brings at most in a time, rounded up.
    fn brought(&self, ns: u128) -> u128 {
        let bytes = |bits: u128| (bits * ns).div_ceil(8_000_000_000);
        let profile = self.burst + bytes(self.rate);
        match self.most {
            Some(most) => profile.min(self.packet + bytes(most)),
            None => profile,
        }
    }

    /// When its burst is in at the latest, in nanoseconds rounded up.
    fn end(&self) -> u128 {
        let Some(most) = self.most else { return 0 };
        let faster = most.saturating_sub(self.rate).max(1);
        let bits = self.burst.saturating_sub(self.packet) * 8_000_000_000;
        bits.div_ceil(faster)
    }
}

/// The most bytes that wait before a packet of a class served at a rate.
fn waiting(groups: &[&Arrivals], served: Rate) -> u64 {
    let served = u128::from(served.as_bits_per_second());
    let ends = groups.iter().map(|line| line.end());
    let at = |ns: u128| {
        let brought: u128 = groups.iter().map(|line| line.brought(ns)).sum();
        brought.saturating_sub(served * ns / 8_000_000_000)
    };
    let most = ends.chain([0]).map(at).max().unwrap_or(0);
    u64::try_from(most).unwrap_or(u64::MAX)
}

fn hop(
    id: PortId,
    port: &Port,
    class: &ClassReport,
    (burst, waiting): (u64, u64),
    packet: u64,
) -> Result<Hop, NoDelay> {
    let bound = class
        .within_of(waiting)
        .map_err(|reason| NoDelay::Unbounded(id, reason.to_owned()))?;
    let packet = u32::try_from(packet).unwrap_or(u32::MAX);
    let sending = port.layer.layer.serialisation(port.rate, packet);
    let steps = bound.steps.into_iter();
    Ok(Hop {
        port: id,
        wait: bound.wait,
        sending: sending.unwrap_or(Span::ZERO),
        travelling: port.delay,
        burst,
        steps: steps.map(|step| (step.what, step.time)).collect(),
    })
}

/// Bytes that come at a rate in a time, rounded up.
fn grown(rate: Rate, span: Span) -> u64 {
    let bits = u128::from(rate.as_bits_per_second()) * u128::from(span.as_nanos());
    u64::try_from(bits.div_ceil(8_000_000_000)).unwrap_or(u64::MAX)
}

/// The ports in an order in which every service meets them; or a circle.
fn order(ports: &[Port], paths: &[Option<Path>]) -> Result<Vec<PortId>, Vec<PortId>> {
    let mut after: BTreeMap<PortId, BTreeSet<PortId>> = BTreeMap::new();
    let mut before: BTreeMap<PortId, usize> = BTreeMap::new();
    for path in paths.iter().flatten() {
        for pair in path.windows(2) {
            if after.entry(pair[0]).or_default().insert(pair[1]) {
                *before.entry(pair[1]).or_default() += 1;
            }
        }
    }
    let mut ready: BTreeSet<PortId> = (0..ports.len())
        .map(PortId)
        .filter(|id| !before.contains_key(id))
        .inserted();
    let mut order = Vec::new();
    while let Some(id) = ready.pop_first() {
        order.push(id);
        for next in after.get_mut(&id).map(mem::take).unwrap_or_default() {
            if let Some(count) = before.get_mut(&next) {
                *count -= 1;
                if *count == 0 {
                    ready.insert(next);
                }
            }
        }
    }
    if order.len() == ports.len() {
        return Ok(order);
    }
    Err(circle(&after, &order))
}

/// One circle among the ports that could not be ordered: each of them comes
/// after another of them, so that going back from any of them must return.
fn circle(after: &BTreeMap<PortId, BTreeSet<PortId>>, done: &[PortId]) -> Vec<PortId> {
    let before = |id: PortId| {
        let mut sources = after.iter().filter(|(from, _)| !done.contains(from));
        sources
            .find(|(_, to)| to.contains(&id))
            .map(|(from, _)| *from)
    };
    let first = after.values().flatten().find(|id| !done.contains(id));
    let mut way: Vec<PortId> = first.copied().into_iter().collect();
    while let Some(previous) = way.last().and_then(|id| before(*id)) {
        if let Some(at) = way.iter().position(|id| *id == previous) {
            let mut found = way.split_off(at);
            found.reverse();
            let first = (0..found.len()).min_by_key(|at| found[*at]);
            found.rotate_left(first.unwrap_or(0));
            return found;
        }
        way.push(previous);
    }
    way
}
