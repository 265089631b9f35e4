// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The worst-case delay through several routers, by network calculus: port by port in the
//! direction of the traffic.
//!
//! # Derivation
//!
//! A service s that keeps to its profile sends at most `b_s + r_s t` bytes on the wire in any
//! time t (a leaky bucket). At a port, the services of one class share a queue. Together they
//! send at most `B + R t`, where B and R are the sums. Crate `compile` (`bounds`) derives the
//! wait W of a packet of a class that conforms to this. It consists of the packet in
//! transmission, the guarantees of other classes that go first, and the burst B itself, at the
//! rate at which the class is served. It holds if R is at most the guarantee of the class, which
//! admission control ensures.
//!
//! Packets of one queue leave in order, each between 0 and W after its arrival. Therefore s sent
//! before this port in `t + W` what it sends after it in t: at most `b_s + r_s W + r_s t`. At
//! the next port its burst is thus `b_s + r_s W` (Cruz, IEEE Trans. Inf. Theory 37(1), 1991,
//! part II; RFC 3246 and 2598 do not specify the method).
//!
//! The end-to-end delay is the time on the sender's own line, plus three terms for each port:
//! the wait, the time of the packet itself on the line, and the propagation delay. All except
//! the waits are equal for packets of one size, so the sum of waits also bounds the variation.
//!
//! Each port needs the bursts that arrive there, so ports are processed in an order in which
//! every service passes them. If services form a cycle, there is no such order. The domain
//! cannot be analysed by this method then, and the cycle is reported.

use crate::node::{NodeError, scheduled};
use crate::{Domain, Path, Port, PortId, Service};
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use weirgate_compile::{ClassReport, check_report};
use weirgate_units::{Inserted as _, Rate, Span};

/// The worst case of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delay {
    /// The packet's time on the sender's line.
    pub first_sending: Span,
    /// The propagation delay of that line.
    pub first_travelling: Span,
    /// The worst case at each port.
    pub hops: Vec<Hop>,
}

/// The worst case at one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The port.
    pub port: PortId,
    /// The wait until the gate releases the packet.
    pub wait: Span,
    /// The packet's time on the line.
    pub sending: Span,
    /// The propagation delay.
    pub travelling: Span,
    /// The service's bytes on the wire that may arrive at the port at once.
    pub burst: u64,
    /// The steps of the wait, in words.
    pub steps: Vec<(String, Span)>,
}

impl Delay {
    /// Returns the longest time from the sender's machine to the receiver's, without a queue at
    /// the sender's line.
    #[must_use]
    pub fn worst(&self) -> Span {
        let each = |hop: &Hop| hop.wait + hop.sending + hop.travelling;
        let hops = self.hops.iter().map(each);
        hops.fold(self.first_line(), |a, b| a + b)
    }

    /// Returns the time on the sender's line, for which no router of the domain has a queue.
    #[must_use]
    pub fn first_line(&self) -> Span {
        self.first_sending + self.first_travelling
    }

    /// Returns the largest difference between the delays of two packets of one size.
    #[must_use]
    pub fn variation(&self) -> Span {
        let waits = self.hops.iter().map(|hop| hop.wait);
        waits.fold(Span::ZERO, |a, b| a + b)
    }
}

/// The reason why there is no worst case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoDelay {
    /// Services form a cycle through these ports.
    Circle(Vec<PortId>),
    /// A port cannot do what the domain requires.
    Node(NodeError),
    /// A class has no bound at a port, for this reason.
    Unbounded(PortId, String),
}

/// Returns the worst cases of all services that have a path. The load of each class at a port
/// must not exceed its guarantee.
pub(crate) fn delays(
    domain: &Domain,
    ports: &[Port],
    paths: &[Option<Path>],
) -> Result<Vec<Option<Delay>>, NoDelay> {
    let begun = domain.services.iter().zip(paths);
    let begun = begun.map(|(service, path)| path.as_ref().map(|_| begun_at(domain, service)));
    let mut delays: Vec<Option<Delay>> = begun.collect();
    // The accumulated delay of each service so far. Its burst at the next port is that of its
    // profile, plus what it sends in that time.
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

/// Returns the delay of a service before the first port.
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

/// Returns the port before another one on a path.
fn before(path: &Path, id: PortId) -> Option<PortId> {
    let at = path.iter().position(|one| *one == id)?;
    Some(path[at.checked_sub(1)?])
}

/// The services of one class that one line delivers to a port, in bytes on the wire of that
/// port.
#[derive(Debug, Default)]
struct Arrivals {
    /// The sum of their rates in bit/s.
    rate: u128,
    /// The sum of their bursts.
    burst: u128,
    /// The largest packet.
    packet: u128,
    /// The rate of the line in bit/s; `None` if it is unknown.
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
        // Convert the line's rate to this port's bytes on the wire. If services differ, use the
        // one with the largest ratio.
        if let Some(from) = from {
            let there = u128::from(from.layer.layer.wire_bytes(packet)).max(1);
            let bits = u128::from(from.rate.as_bits_per_second()) * here;
            let most = bits.div_ceil(there);
            self.most = Some(self.most.map_or(most, |other| other.max(most)));
        }
    }

    /// Returns the most bytes that it delivers in a time, rounded up.
    fn brought(&self, ns: u128) -> u128 {
        let bytes = |bits: u128| (bits * ns).div_ceil(8_000_000_000);
        let profile = self.burst + bytes(self.rate);
        match self.most {
            Some(most) => profile.min(self.packet + bytes(most)),
            None => profile,
        }
    }

    /// Returns when its burst has arrived at the latest, in nanoseconds rounded up.
    fn end(&self) -> u128 {
        let Some(most) = self.most else { return 0 };
        let faster = most.saturating_sub(self.rate).max(1);
        let bits = self.burst.saturating_sub(self.packet) * 8_000_000_000;
        bits.div_ceil(faster)
    }
}

/// Returns the most bytes that wait before a packet of a class which is served at a rate.
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

/// Returns the bytes that arrive at a rate in a time, rounded up.
fn grown(rate: Rate, span: Span) -> u64 {
    let bits = u128::from(rate.as_bits_per_second()) * u128::from(span.as_nanos());
    u64::try_from(bits.div_ceil(8_000_000_000)).unwrap_or(u64::MAX)
}

/// Returns the ports in an order in which every service passes them, or a cycle.
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

/// Returns one cycle among the ports that could not be ordered. Each of them has a predecessor
/// among them, so going back from any of them must return.
fn circle(after: &BTreeMap<PortId, BTreeSet<PortId>>, done: &[PortId]) -> Vec<PortId> {
    let before = |id: PortId| {
        let mut sources = after.iter().filter(|(from, _)| !done.contains(from));
        sources
            .find(|(_, to)| to.contains(&id))
            .map(|(from, _)| *from)
    };
    let first = after.values().flatten().find(|id| !done.contains(id));
    let mut path: Vec<PortId> = first.copied().into_iter().collect();
    while let Some(previous) = path.last().and_then(|id| before(*id)) {
        if let Some(at) = path.iter().position(|id| *id == previous) {
            let mut found = path.split_off(at);
            found.reverse();
            let first = (0..found.len()).min_by_key(|at| found[*at]);
            found.rotate_left(first.unwrap_or(0));
            return found;
        }
        path.push(previous);
    }
    path
}
