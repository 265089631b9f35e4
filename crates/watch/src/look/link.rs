// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The link of the policy, one direction at a time: the rate that the policy allows, the present
//! rate, and the line's rate as `[track]` estimates it.

use crate::legend::{ClassLegend, Legend};
use crate::object::{Number, Object, Sort};
use crate::step::diff::Change;
use weirgate_bpf::{RowTree, Shaper};
use weirgate_kernel::DeviceOverview;
use weirgate_units::Handle;

/// The class that every packet of a direction passes (crate `compile`).
pub(crate) const GATE: Handle = Handle::new(1, 1);

/// The state of `[track]` for one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineNow {
    /// The link's device towards the line; empty if it is not known.
    pub device: String,
    /// `up` or `down`.
    pub direction: String,
    /// The estimated rate of the line, in bits per second on the wire.
    pub rate: u64,
    /// The lowest allowed rate.
    pub floor: u64,
    /// The highest allowed rate.
    pub ceiling: u64,
    /// The reason, in a word or two.
    pub reason: String,
    /// Whether there are no answers, so that the lowest rate is used.
    pub blind: bool,
}

impl LineNow {
    /// Returns whether it is the line of a direction that is shaped on this device.
    pub(crate) fn is_of(&self, legend: &Legend, direction: &str, shaped: &str) -> bool {
        let own = legend.link_devices(&self.device);
        self.direction == direction && (self.device.is_empty() || own.contains(&shaped))
    }
}

/// Returns the rate of a device's gate in bits per second on the wire: that of HTB, of the kit,
/// or of cake; `None` if the device is not shaped.
pub(crate) fn gate(device: &DeviceOverview) -> Option<u64> {
    let known = device.rates.get(&GATE).map(|(_, ceil)| *ceil);
    Some(known.or(device.cake)?.as_bits_per_second())
}

/// Returns whether a BPF qdisc shapes the device: the kit or the engine of rows. Any user can
/// see its kind, but its rate is in maps that only root may read.
fn by_a_program(device: &DeviceOverview) -> bool {
    let own = |kind: &str| Shaper::is_kind(kind) || kind.starts_with(RowTree::KIND);
    let mut qdiscs = device.counters.qdiscs.iter();
    qdiscs.any(|qdisc| qdisc.parent.is_none() && own(&qdisc.kind))
}

/// Returns the objects of the link.
pub(crate) fn objects(
    legend: &Legend,
    devices: &[DeviceOverview],
    lines: &[LineNow],
) -> Vec<Object> {
    let one = |(direction, device, policy): &(String, String, u64)| {
        let mut numbers = vec![(Number::LinkPolicy, *policy)];
        let now = devices.iter().find(|one| one.name == *device);
        let rate = now.and_then(gate);
        numbers.extend(rate.map(|rate| (Number::LinkRate, rate)));
        let shaped = rate.is_some() || now.is_some_and(by_a_program);
        numbers.push((Number::LinkShaped, u64::from(shaped)));
        if let Some(line) = lines
            .iter()
            .find(|line| line.is_of(legend, direction, device))
        {
            numbers.extend([
                (Number::LinkLine, line.rate),
                (Number::LinkFloor, line.floor),
                (Number::LinkCeiling, line.ceiling),
                (Number::LinkBlind, u64::from(line.blind)),
            ]);
        }
        Object {
            sort: Sort::Link,
            identity: String::new(),
            begins: false,
            labels: vec![("device", device.clone()), ("direction", direction.clone())],
            numbers,
        }
    };
    legend.links.iter().map(one).collect()
}

/// Returns a class's promises at the present rate of its link. With a slower line, all
/// guarantees are proportionally lower, and the bounds on waits longer.
pub(crate) fn at_rate(changes: &[Change], class: &ClassLegend) -> ClassLegend {
    let link = changes.iter().find(|one| {
        one.object.sort == Sort::Link
            && one.object.label("device") == class.device
            && one.object.label("direction") == class.direction
    });
    let number = |number| link.and_then(|link| link.object.number(number));
    let mut class = class.clone();
    if let Some((rate, policy)) = number(Number::LinkRate).zip(number(Number::LinkPolicy))
        && (1..policy).contains(&rate)
    {
        let scaled = |value: u64, by: u64, of: u64| {
            let scaled = u128::from(value) * u128::from(by) / u128::from(of);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        class.guaranteed = scaled(class.guaranteed, rate, policy);
        class.bound = class.bound.map(|bound| scaled(bound, policy, rate));
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Differ;
    use std::collections::BTreeMap;
    use weirgate_kernel::{Counters, DeviceCounters, Inside, Traffic};
    use weirgate_units::Rate;

    #[test]
    fn a_link_has_its_rates_and_guarantees_follow() {
        let legend = Legend {
            links: vec![(String::from("up"), String::from("wan"), 1_000_000)],
            ..Legend::default()
        };
        let rate = (Rate::kbit(800), Rate::kbit(800));
        let wan = DeviceOverview {
            index: 2,
            name: String::from("wan"),
            up: true,
            received: Traffic::default(),
            sent: Traffic::default(),
            counters: DeviceCounters::default(),
            rates: BTreeMap::from([(GATE, rate)]),
            cake: None,
        };
        let line = LineNow {
            device: String::from("wan"),
            direction: String::from("up"),
            rate: 810_000,
            floor: 100_000,
            ceiling: 1_010_000,
            reason: String::from("delay"),
            blind: false,
        };
        let shaped = |found: &[Object]| found[0].number(Number::LinkShaped);
        let found = objects(&legend, std::slice::from_ref(&wan), &[line]);
        assert_eq!(found[0].number(Number::LinkRate), Some(800_000));
        assert_eq!(found[0].number(Number::LinkLine), Some(810_000));
        assert_eq!(shaped(&found), Some(1));
        let changes = Differ::default().step(found);
        let mut class = ClassLegend {
            device: String::from("wan"),
            direction: String::from("up"),
            name: String::from("voice"),
            handle: Handle::new(2, 0x10),
            guaranteed: 100_000,
            maximum: 1_000_000,
            bound: Some(40_000),
            objective: None,
        };
        let now = at_rate(&changes, &class);
        assert_eq!((now.guaranteed, now.bound), (80_000, Some(50_000)));
        // Without root, only the existence of the kit's shaper is visible.
        let qdisc = |kind: &str| Counters {
            handle: Handle::new(1, 0),
            parent: None,
            kind: kind.to_owned(),
            bytes: 0,
            packets: 0,
            drops: 0,
            overlimits: 0,
            requeues: 0,
            backlog_bytes: 0,
            queued_packets: 0,
            marks: None,
            borrowed: None,
            inside: Inside::default(),
            tins: Vec::new(),
        };
        for (kind, held) in [(Shaper::KIND, 1), ("fq_codel", 0)] {
            let mut wan = wan.clone();
            wan.rates.clear();
            wan.counters.qdiscs = vec![qdisc(kind)];
            let found = objects(&legend, &[wan], &[]);
            assert_eq!(found[0].number(Number::LinkRate), None);
            assert_eq!(shaped(&found), Some(held), "{kind}");
        }
        class.direction = String::from("down");
        assert_eq!(at_rate(&changes, &class), class);
        // A missing device has no rate.
        let found = objects(&legend, &[], &[]);
        let numbers = [(Number::LinkPolicy, 1_000_000), (Number::LinkShaped, 0)];
        assert_eq!(found[0].numbers, numbers);
    }
}
