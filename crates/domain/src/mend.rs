// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds changes each of which lets a promise be kept, the smallest first. The size of a change
//! is relative: the fraction by which a rate, share, burst or time changes.

use crate::calculus::delays;
use crate::{Delay, Domain, Load, Port, PortId, Service};
use weirgate_policy::in_kbit;
use weirgate_units::{Arrange as _, Rate, Share, Size, Span};

/// The largest factor for a faster link in octaves, and the number of steps in an octave.
const OCTAVES: u32 = 4;
const STEPS: u32 = 8;

/// A change in words, and its size.
struct Change {
    part: f64,
    words: String,
}

fn smallest_first(mut changes: Vec<Change>) -> Vec<String> {
    changes.arrange_by(|one, other| one.part.total_cmp(&other.part));
    changes.into_iter().map(|one| one.words).collect()
}

/// Returns the relative size of the step from `before` to `after`.
fn part(before: u64, after: u64) -> f64 {
    before.abs_diff(after) as f64 / before.max(1) as f64
}

/// Returns changes that reduce the promises in a class on a port to what is allowed there.
pub(crate) fn overload(domain: &Domain, port: &Port, load: &Load) -> Vec<String> {
    let promised = load.promised.as_bits_per_second();
    let allowed = load.allowed.as_bits_per_second();
    let over = promised.saturating_sub(allowed);
    let services = load.services.iter().map(|at| &domain.services[*at]);
    let mut changes = Vec::new();
    // Either the largest service gives up the excess, or all give up a part of it.
    if let Some(largest) = services.clone().max_by_key(|service| service.rate) {
        let wire = largest.wire_rate(&port.layer.layer).as_bits_per_second();
        let rate = largest.rate.as_bits_per_second();
        if wire > over {
            let left = u128::from(rate) * u128::from(wire - over) / u128::from(wire);
            let left = u64::try_from(left).unwrap_or(u64::MAX) / 1000 * 1000;
            changes.push(Change {
                part: part(rate, left),
                words: format!(
                    "promise `{}` {} in place of {}",
                    largest.name,
                    in_kbit(Rate::bits_per_second(left)),
                    in_kbit(largest.rate)
                ),
            });
        } else if allowed > 0 {
            let tenths = u128::from(allowed) * 1000 / u128::from(promised.max(1));
            changes.push(Change {
                part: part(promised, allowed),
                words: format!(
                    "promise each of these {} services {}.{} % of its rate",
                    services.count(),
                    tenths / 10,
                    tenths % 10
                ),
            });
        }
    }
    let share = domain
        .classes
        .get(&load.class)
        .and_then(|class| class.share);
    if let (Some(share), 1..) = (share, allowed) {
        // Shares are parts of the same whole, so the necessary share is proportional.
        let own = u128::from(share.as_millionths());
        let needed = (own * u128::from(promised)).div_ceil(u128::from(allowed));
        // Tenths of a per cent, rounded up.
        let tenths = u32::try_from(needed.div_ceil(1000)).unwrap_or(u32::MAX);
        if tenths.saturating_mul(1000) <= share.as_millionths() + free(domain) {
            changes.push(wider(&load.class, share, Share::millionths(tenths * 1000)));
        }
        let rate = u128::from(port.rate.as_bits_per_second());
        let rate = (rate * u128::from(promised)).div_ceil(u128::from(allowed));
        let kbit = u64::try_from(rate.div_ceil(1000)).unwrap_or(u64::MAX);
        changes.push(faster(port, Rate::kbit(kbit)));
    }
    smallest_first(changes)
}

/// Returns the unassigned share in millionths.
fn free(domain: &Domain) -> u32 {
    let shares = domain.classes.values().filter_map(|class| class.share);
    let taken = shares
        .map(Share::as_millionths)
        .fold(0, u32::saturating_add);
    Share::WHOLE.as_millionths().saturating_sub(taken)
}

fn wider(class: &str, before: Share, after: Share) -> Change {
    Change {
        part: part(before.as_millionths().into(), after.as_millionths().into()),
        words: format!("give `{class}` a share of {after}"),
    }
}

fn faster(port: &Port, rate: Rate) -> Change {
    Change {
        part: part(port.rate.as_bits_per_second(), rate.as_bits_per_second()),
        words: format!(
            "a link of {} at {} of {}",
            in_kbit(rate),
            port.device,
            port.router
        ),
    }
}

/// One of the two promises of time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timed {
    /// Its name.
    pub(crate) field: &'static str,
    /// Returns what was promised.
    pub(crate) promised: fn(&Service) -> Option<Span>,
    /// Returns the worst case.
    pub(crate) worst: fn(&Delay) -> Span,
}

impl Timed {
    fn kept(self, (domain, delays): (&Domain, &[Option<Delay>]), at: usize) -> bool {
        let promised = domain.services.get(at).and_then(self.promised);
        let delay = delays.get(at).and_then(Option::as_ref);
        delay.is_none_or(|delay| promised.is_none_or(|span| (self.worst)(delay) <= span))
    }
}

/// Both promises of time.
pub(crate) const TIMED: [Timed; 2] = [
    Timed {
        field: "delay",
        promised: |service| service.delay,
        worst: Delay::worst,
    },
    Timed {
        field: "jitter",
        promised: |service| service.jitter,
        worst: Delay::variation,
    },
];

/// Returns changes that let a service keep a promise of time that it breaks. `before` has the
/// domain's worst cases. With `search`, it also looks for changes of the domain, each of which
/// costs several derivations of the whole domain.
pub(crate) fn late(
    (domain, before): (&Domain, &[Option<Delay>]),
    at: usize,
    timed: Timed,
    search: bool,
) -> Vec<String> {
    let service = &domain.services[at];
    let delay = before.get(at).and_then(Option::as_ref);
    let (Some(promised), Some(delay)) = ((timed.promised)(service), delay) else {
        return Vec::new();
    };
    let possible = readable((timed.worst)(delay));
    let mut changes = vec![Change {
        part: part(promised.as_nanos(), possible.as_nanos()),
        words: format!("promise a {} of {}", timed.field, in_ms(possible)),
    }];
    if search {
        let enough = |changed: &Domain| keeps((domain, before), changed, at, timed);
        changes.extend(smaller_burst(domain, at, &enough));
        changes.extend(larger_share(domain, at, &enough));
        changes.extend(faster_link(domain, delay, &enough));
    }
    smallest_first(changes)
}

/// Rounds up to three significant digits.
fn readable(span: Span) -> Span {
    let nanos = span.as_nanos();
    let digits = nanos.max(1).ilog10();
    let unit = 10_u64.pow(digits.saturating_sub(2));
    Span::from_nanos(nanos.div_ceil(unit).saturating_mul(unit))
}

/// Formats a time as in a file.
fn in_ms(span: Span) -> String {
    let digits = format!("{:.6}", span.as_millis_f64());
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}ms")
}

fn derived(domain: &Domain) -> Option<Vec<Option<Delay>>> {
    delays(domain, &domain.ports(), &domain.paths()).ok()
}

/// Returns whether the changed domain keeps that promise, and breaks no promise of time that the
/// present domain keeps.
fn keeps(before: (&Domain, &[Option<Delay>]), changed: &Domain, at: usize, timed: Timed) -> bool {
    let Some(after) = derived(changed) else {
        return false;
    };
    let after = (changed, &after[..]);
    let unbroken = (0..changed.services.len()).all(|other| {
        TIMED
            .iter()
            .all(|one| one.kept(after, other) || !one.kept(before, other))
    });
    unbroken && timed.kept(after, at)
}

/// Returns the smallest number in `range` for which `enough` holds, if it also holds for all
/// larger ones.
fn least(range: std::ops::RangeInclusive<u32>, enough: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut low, mut high) = (*range.start(), *range.end());
    if low > high || !enough(high) {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

/// Returns the change to a smaller burst of the service itself.
fn smaller_burst(domain: &Domain, at: usize, enough: &dyn Fn(&Domain) -> bool) -> Option<Change> {
    let service = &domain.services[at];
    let packets = service.burst.as_bytes() / service.packet.as_bytes().max(1);
    let packets = u32::try_from(packets).unwrap_or(u32::MAX);
    let burst = |fewer: u32| {
        let left = u64::from(packets - fewer) * service.packet.as_bytes();
        Size::bytes(left)
    };
    let fewer = least(1..=packets.saturating_sub(1), |fewer| {
        let mut changed = domain.clone();
        changed.services[at].burst = burst(fewer);
        enough(&changed)
    })?;
    Some(Change {
        part: part(service.burst.as_bytes(), burst(fewer).as_bytes()),
        words: format!(
            "a burst of {} for `{}` in place of {}",
            burst(fewer),
            service.name,
            service.burst
        ),
    })
}

/// Returns the change to a larger share, from the unassigned part, in tenths of a per cent.
fn larger_share(domain: &Domain, at: usize, enough: &dyn Fn(&Domain) -> bool) -> Option<Change> {
    let name = &domain.services[at].class;
    let share = domain.classes.get(name)?.share?;
    let with = |tenths: u32| Share::millionths(share.as_millionths() + tenths * 1000);
    let more = least(1..=free(domain) / 1000, |tenths| {
        let mut changed = domain.clone();
        if let Some(class) = changed.classes.get_mut(name) {
            class.share = Some(with(tenths));
        }
        enough(&changed)
    })?;
    Some(wider(name, share, with(more)))
}

/// Returns the change to a faster link where the service waits longest.
fn faster_link(domain: &Domain, delay: &Delay, enough: &dyn Fn(&Domain) -> bool) -> Option<Change> {
    let slowest = delay.hops.iter().max_by_key(|hop| hop.wait + hop.sending)?;
    let ports = domain.ports();
    let port = ports.get(slowest.port.0)?;
    let rate = |step: u32| {
        let factor = (f64::from(step) / f64::from(STEPS)).exp2();
        let kbit = port.rate.as_bits_per_second() as f64 / 1e3 * factor;
        Rate::kbit(kbit.ceil() as u64)
    };
    let step = least(1..=OCTAVES * STEPS, |step| {
        enough(&with_rate(domain, slowest.port, rate(step)))
    })?;
    Some(faster(port, rate(step)))
}

fn with_rate(domain: &Domain, PortId(id): PortId, rate: Rate) -> Domain {
    let mut changed = domain.clone();
    let links = changed.links.len() * 2;
    if let Some(link) = changed.links.get_mut(id / 2) {
        link.rates[id % 2] = rate;
    } else if let Some(customer) = changed.customers.values_mut().nth(id - links) {
        customer.rate = rate;
    }
    changed
}
