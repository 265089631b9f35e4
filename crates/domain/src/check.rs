// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks whether a domain can keep its promises: the sum on every port, and the worst case of
//! every service. If it cannot, it finds the smallest sufficient change.

use crate::calculus::{NoDelay, delays};
use crate::mend::{self, TIMED};
use crate::{Behaviour, Delay, Domain, Finding, Load, Path, Port, PortId, Service};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use weirgate_policy::{Direction, in_kbit};
use weirgate_units::{Arrange as _, Rate, Span};

/// The promises of a domain, and whether it can keep them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Every port, indexed by [`PortId`].
    pub ports: Vec<Port>,
    /// The path of every service.
    pub paths: Vec<Option<Path>>,
    /// The promises on each port in each class.
    pub loads: Vec<Load>,
    /// The worst case of each service, if there is one.
    pub delays: Vec<Option<Delay>>,
    /// The promises that cannot be kept.
    pub findings: Vec<Finding>,
    /// Notes on weaker guarantees because of missing information.
    pub notes: Vec<String>,
}

/// The outcome of a promise of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was promised.
    Unpromised,
    /// The worst case is within the promise.
    Kept,
    /// The worst case exceeds the promise.
    Broken,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unpromised => "not promised",
            Self::Kept => "kept",
            Self::Broken => "broken",
        })
    }
}

impl Outcome {
    /// Compares a promise with the worst case.
    #[must_use]
    pub fn of(promised: Option<Span>, worst: Span) -> Self {
        match promised {
            None => Self::Unpromised,
            Some(promised) if worst <= promised => Self::Kept,
            Some(_) => Self::Broken,
        }
    }
}

/// For how many late services to look for changes of the domain; each takes some twenty
/// derivations of the whole domain.
const SEARCHED: usize = 2;

/// Calculates sums and worst cases, and compares them with the promises.
#[must_use]
pub fn check(domain: &Domain) -> Check {
    let ports = domain.ports();
    let paths = domain.paths();
    let mut findings = Vec::new();
    let loads = loads(domain, &ports, &paths, &mut findings);
    for load in &loads {
        findings.extend(overload(domain, &ports, load));
    }
    findings.extend(own_lines(domain));
    let mut worst = vec![None; paths.len()];
    let mut notes = crate::scope::notes(domain);
    // A class with more promises than guarantee has no worst case. It does not delay other
    // classes: their bounds hold for any traffic beside them.
    let crowded = crowded(&loads);
    notes.extend(crate::scope::crowded(&ports, &crowded));
    if findings.is_empty() {
        let services = domain.services.iter().zip(&paths);
        let bounded = services.map(|(service, path)| {
            let path = path.as_ref();
            path.filter(|_| !crowded.contains_key(service.class.as_str()))
                .cloned()
        });
        let bounded: Vec<Option<Path>> = bounded.collect();
        match delays(domain, &ports, &bounded) {
            Ok(found) => worst = found,
            Err(NoDelay::Circle(circle))
                if !domain.services.iter().any(|one| bound(domain, one)) =>
            {
                notes.push(format!("{}.", in_circle(domain, &ports, &paths, &circle)));
            }
            Err(reason) => findings.push(no_delay(domain, &ports, &paths, &reason)),
        }
    }
    findings.extend(late(domain, &worst));
    for (at, service) in domain.services.iter().enumerate() {
        findings.extend(unbounded(domain, at, service));
        findings.extend(oversubscribed(domain, &ports, &crowded, at));
    }
    findings.extend(unfit(domain, &ports));
    findings.extend(crate::scope::findings(domain));
    findings.arrange_by_key(|finding| finding.line);
    Check {
        ports,
        paths,
        loads,
        delays: worst,
        findings,
        notes,
    }
}

/// Calculates the sums on every port that a service passes.
fn loads(
    domain: &Domain,
    ports: &[Port],
    paths: &[Option<Path>],
    findings: &mut Vec<Finding>,
) -> Vec<Load> {
    let mut sums: BTreeMap<(PortId, &str), Vec<usize>> = BTreeMap::new();
    for (at, path) in paths.iter().enumerate() {
        for id in path.iter().flatten() {
            let class = domain.services[at].class.as_str();
            sums.entry((*id, class)).or_default().push(at);
        }
    }
    let mut loads = Vec::new();
    let mut refused: Option<PortId> = None;
    for ((id, class), services) in sums {
        let port = &ports[id.0];
        let guaranteed = match crate::node::scheduled(domain, port, &BTreeMap::new()) {
            Ok((policy, _)) => policy
                .share_out(Direction::Up)
                .and_then(|shares| shares.classes.into_iter().find(|one| one.name == class))
                .map_or(Rate::default(), |class| class.rate),
            Err(error) => {
                if refused != Some(id) {
                    refused = Some(id);
                    findings.push(unusable(domain, id, &error));
                }
                continue;
            }
        };
        let bits = services.iter().map(|at| {
            let rate = domain.services[*at].wire_rate(&port.layer.layer);
            rate.as_bits_per_second()
        });
        loads.push(Load {
            port: id,
            class: class.to_owned(),
            promised: Rate::bits_per_second(bits.fold(0, u64::saturating_add)),
            services,
            guaranteed,
            allowed: allowed(domain, class, guaranteed),
        });
    }
    loads
}

/// Returns how much may be promised in a class with this guarantee.
fn allowed(domain: &Domain, class: &str, guaranteed: Rate) -> Rate {
    let class = domain.classes.get(class);
    class.map_or(guaranteed, |class| class.oversubscription.of(guaranteed))
}

/// Returns the classes that are over-subscribed somewhere, each with its most loaded port.
fn crowded(loads: &[Load]) -> BTreeMap<&str, &Load> {
    let mut crowded: BTreeMap<&str, &Load> = BTreeMap::new();
    for load in loads.iter().filter(|load| load.is_oversubscribed()) {
        let most = crowded.entry(&load.class).or_insert(load);
        if load.factor() > most.factor() {
            *most = load;
        }
    }
    crowded
}

/// Returns a finding about a promise in an over-subscribed class that needs a worst case.
fn oversubscribed(
    domain: &Domain,
    ports: &[Port],
    crowded: &BTreeMap<&str, &Load>,
    at: usize,
) -> Option<Finding> {
    let service = &domain.services[at];
    let load = crowded.get(service.class.as_str())?;
    let port = &ports[load.port.0];
    (load.promised <= load.allowed && bound(domain, service)).then(|| Finding {
        service: Some(at),
        line: service.position.line,
        what: format!(
            "`{}` is promised a time or a loss in `{}`, which is over-subscribed at {} of {}: {} \
             are promised there, {} guaranteed; no worst case is derived for it",
            service.name,
            service.class,
            port.device,
            port.router,
            in_kbit(load.promised),
            in_kbit(load.guaranteed)
        ),
        changes: vec![
            "promise it in a class that is not over-subscribed".to_owned(),
            format!(
                "promise no `delay`, `jitter` and `loss` to `{}`",
                service.name
            ),
        ],
    })
}

fn overload(domain: &Domain, ports: &[Port], load: &Load) -> Option<Finding> {
    if load.promised <= load.allowed {
        return None;
    }
    let port = &ports[load.port.0];
    let class = domain.classes.get(&load.class)?;
    let names: Vec<&str> = load
        .services
        .iter()
        .map(|at| domain.services[*at].name.as_str())
        .collect();
    let limit = if load.allowed == load.guaranteed {
        String::new()
    } else {
        format!(
            ", {} allowed by its over-subscription",
            in_kbit(load.allowed)
        )
    };
    let what = format!(
        "{} of {} towards {}: {} are promised in `{}`, which has {} there{limit}; the sum of {}",
        port.device,
        port.router,
        port.towards,
        in_kbit(load.promised),
        load.class,
        in_kbit(load.guaranteed),
        names.join(", ")
    );
    let changes = mend::overload(domain, port, load);
    Some(Finding {
        service: None,
        line: class.position.line,
        what,
        changes,
    })
}

/// Returns findings about customers whose own line cannot carry the promises to them. The
/// customer manages its queue, so the sum over all classes counts.
fn own_lines(domain: &Domain) -> Vec<Finding> {
    let over = domain.customers.iter().filter_map(|(name, customer)| {
        let own = domain.services.iter().filter(|one| one.from == *name);
        let rates = own.map(|one| one.wire_rate(&customer.layer.layer).as_bits_per_second());
        let sum = Rate::bits_per_second(rates.fold(0, u64::saturating_add));
        (sum > customer.rate_from).then(|| Finding {
            service: None,
            line: customer.position.line,
            what: format!(
                "the line of `{name}` carries {} from there, but {} are promised to its packets",
                in_kbit(customer.rate_from),
                in_kbit(sum)
            ),
            changes: vec![
                format!("a line of {} from `{name}`", in_kbit(sum)),
                "promise less to packets from there".to_owned(),
            ],
        })
    });
    over.collect()
}

/// Returns whether a promise needs a worst case. Promises of time do. Those of loss do, because
/// queues must have room for bursts. Expedited forwarding does, because its bound at each port
/// is a burst.
fn bound(domain: &Domain, service: &Service) -> bool {
    let class = domain.classes.get(&service.class);
    let expedited = class.is_some_and(|class| class.behaviour == Behaviour::Ef);
    expedited || service.delay.is_some() || service.jitter.is_some() || service.loss.is_some()
}

/// Returns findings about promises of time that the worst case breaks.
fn late(domain: &Domain, worst: &[Option<Delay>]) -> Vec<Finding> {
    let broken = domain.services.iter().zip(worst).enumerate();
    let broken = broken.flat_map(|(at, (service, delay))| {
        let over = TIMED.iter().filter_map(move |timed| {
            let (stated, found) = ((timed.promised)(service)?, (timed.worst)(delay.as_ref()?));
            (Outcome::of(Some(stated), found) == Outcome::Broken).then_some((timed, stated, found))
        });
        over.map(move |(timed, stated, found)| (at, service, timed, stated, found))
    });
    broken
        .enumerate()
        .map(|(number, (at, service, timed, stated, found))| Finding {
            service: Some(at),
            line: service.position.line,
            what: format!(
                "`{}` is promised a {} of {stated}; at worst it is {:.2} ms",
                service.name,
                timed.field,
                found.as_millis_f64()
            ),
            changes: mend::late((domain, worst), at, *timed, number < SEARCHED),
        })
        .collect()
}

/// Returns a finding about a promise of time whose queue also contains packets beyond profiles:
/// no bound is derived for that.
fn unbounded(domain: &Domain, at: usize, service: &Service) -> Option<Finding> {
    let behaviour = domain.classes.get(&service.class)?.behaviour;
    let levelled = matches!(behaviour, Behaviour::Af(_) | Behaviour::Drt { .. });
    let timed = service.delay.is_some() || service.jitter.is_some();
    (levelled && timed && domain.tells_levels()).then(|| Finding {
        service: Some(at),
        line: service.position.line,
        what: format!(
            "`{}` is promised a time in `{}` ({behaviour}), whose queue also holds packets \
             beyond the promises; no worst case is derived for it",
            service.name, service.class
        ),
        changes: vec![
            "promise times in a class of EF or a class selector".to_owned(),
            "leave `engine = \"kit\"` out at one router: packets beyond the promises are then \
             dropped at the edge"
                .to_owned(),
        ],
    })
}

/// Returns findings about routers with the kit that cannot have all classes of the domain. One
/// port of each suffices, because all ports have the same classes.
fn unfit(domain: &Domain, ports: &[Port]) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let kits = ports.iter().enumerate().filter(|(_, port)| {
        let router = domain.routers.get(&port.router);
        router.is_some_and(|router| router.kit)
    });
    let first = kits.filter(|(_, port)| seen.insert(port.router.clone()));
    let refused = first.filter_map(|(at, port)| {
        let error = crate::node::scheduled(domain, port, &BTreeMap::new()).err()?;
        Some(unusable(domain, PortId(at), &error))
    });
    refused.collect()
}

fn no_delay(domain: &Domain, ports: &[Port], paths: &[Option<Path>], reason: &NoDelay) -> Finding {
    let line = domain.services.first().map_or(1, |one| one.position.line);
    match reason {
        NoDelay::Circle(circle) => Finding {
            service: None,
            line,
            what: in_circle(domain, ports, paths, circle),
            changes: vec![
                "take one of these services away, or change a link's `delay` so that one of them \
                 goes another way"
                    .to_owned(),
                "promise rates alone, and nothing of EF: they need no worst case".to_owned(),
            ],
        },
        NoDelay::Node(error) => Finding {
            service: None,
            line,
            what: error.to_string(),
            changes: Vec::new(),
        },
        NoDelay::Unbounded(id, reason) => Finding {
            service: None,
            line,
            what: format!(
                "{} of {} has no worst case: {reason}",
                ports[id.0].device, ports[id.0].router
            ),
            changes: Vec::new(),
        },
    }
}

/// Describes a cycle in words.
fn in_circle(domain: &Domain, ports: &[Port], paths: &[Option<Path>], circle: &[PortId]) -> String {
    let hops: Vec<String> = circle
        .iter()
        .map(|id| format!("{} to {}", ports[id.0].router, ports[id.0].towards))
        .collect();
    let turns = |path: &Path| {
        let mut pairs = path.windows(2);
        pairs.any(|pair| circle.contains(&pair[0]) && circle.contains(&pair[1]))
    };
    let names = domain.services.iter().zip(paths);
    let names: Vec<&str> = names
        .filter(|(_, path)| path.as_ref().is_some_and(turns))
        .map(|(service, _)| service.name.as_str())
        .collect();
    format!(
        "the worst case cannot be derived: {} follow one another in a circle, {}",
        names.join(", "),
        hops.join(", ")
    )
}

fn unusable(domain: &Domain, id: PortId, error: &crate::NodeError) -> Finding {
    let customers = domain.customers.values();
    let line = match domain.links.get(id.0 / 2) {
        Some(link) => Some(link.position.line),
        None => customers
            .skip(id.0 - domain.links.len() * 2)
            .map(|customer| customer.position.line)
            .next(),
    };
    Finding {
        service: None,
        line: line.unwrap_or(1),
        what: error.to_string(),
        changes: Vec::new(),
    }
}
