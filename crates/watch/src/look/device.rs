// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device with its qdiscs and classes, as objects.

use crate::legend::Legend;
use crate::object::{Number, Object, Sort};
use std::borrow::Cow;
use weirgate_kernel::{Counters, DeviceOverview, Tin};
use weirgate_units::Handle;

/// The largest number of qdiscs and classes of a device that are observed, for the same reason
/// as the limit on devices.
pub(crate) const MOST_PARTS: usize = 512;

/// Returns the objects of a device.
pub(crate) fn of_device(device: &DeviceOverview, legend: &Legend) -> Vec<Object> {
    let mut objects = vec![Object {
        sort: Sort::Device,
        identity: device.index.to_string(),
        begins: false,
        labels: vec![("device", device.name.clone())],
        numbers: vec![
            (Number::DeviceReceivedBytes, device.received.bytes),
            (Number::DeviceReceivedPackets, device.received.packets),
            (Number::DeviceReceivedDrops, device.received.drops),
            (Number::DeviceSentBytes, device.sent.bytes),
            (Number::DeviceSentPackets, device.sent.packets),
            (Number::DeviceSentDrops, device.sent.drops),
        ],
    }];
    let all = classes(device, legend);
    let named = |handle| legend.class(&device.name, handle).is_some();
    let qdiscs = &device.counters.qdiscs;
    let of_named = |qdisc: &&Counters| qdisc.parent.is_some_and(named);
    for qdisc in observed(qdiscs, of_named) {
        objects.push(Object {
            sort: Sort::Qdisc,
            identity: format!("{} {} {}", device.index, qdisc.kind, qdisc.handle),
            begins: false,
            labels: vec![
                ("device", device.name.clone()),
                ("parent", parent(qdisc)),
                ("kind", qdisc.kind.clone()),
            ],
            numbers: of_qdisc(qdisc),
        });
        objects.extend(of_tins(device, qdisc));
    }
    for class in observed(&all, |class| named(class.handle)) {
        let queue = qdiscs
            .iter()
            .find(|qdisc| qdisc.parent == Some(class.handle));
        let numbers = of_class(class, queue);
        objects.push(class_object(device, class.handle, legend, numbers));
    }
    objects
}

/// Returns at most [`MOST_PARTS`] of these in their order, and all that are the policy's: caps
/// of hosts make hundreds of others.
fn observed<'a>(
    all: &'a [Counters],
    named: impl Fn(&&'a Counters) -> bool,
) -> impl Iterator<Item = &'a Counters> {
    let own = all.iter().filter(&named).count();
    let mut room = MOST_PARTS.saturating_sub(own);
    let keep = move |one: &&'a Counters| {
        let own = named(one);
        let fits = own || room > 0;
        if !own {
            room = room.saturating_sub(1);
        }
        fits
    };
    all.iter().filter(keep).take(MOST_PARTS)
}

/// Returns a class of a device, named as in the legend.
pub(crate) fn class_object(
    device: &DeviceOverview,
    handle: Handle,
    legend: &Legend,
    numbers: Vec<(Number, u64)>,
) -> Object {
    let (direction, name) = match legend.class(&device.name, handle) {
        Some(class) => (class.direction.clone(), class.name.clone()),
        None => (String::new(), handle.to_string()),
    };
    Object {
        sort: Sort::Class,
        identity: format!("{} {handle}", device.index),
        begins: false,
        labels: vec![
            ("device", device.name.clone()),
            ("direction", direction),
            ("class", name),
            ("handle", handle.to_string()),
        ],
        numbers,
    }
}

/// Returns the classes of a device. A cake that shapes has none; if the policy has one class
/// there, the cake stands for it.
fn classes<'a>(device: &'a DeviceOverview, legend: &Legend) -> Cow<'a, [Counters]> {
    let known = &device.counters;
    let mut own = legend
        .classes
        .iter()
        .filter(|class| class.device == device.name);
    let mut qdiscs = known.qdiscs.iter();
    let root = qdiscs.find(|qdisc| qdisc.parent.is_none() && qdisc.kind == "cake");
    match (own.next(), own.next(), root) {
        (Some(class), None, Some(root)) if known.classes.is_empty() => Cow::Owned(vec![Counters {
            handle: class.handle,
            ..root.clone()
        }]),
        _ => Cow::Borrowed(&known.classes),
    }
}

fn of_qdisc(qdisc: &Counters) -> Vec<(Number, u64)> {
    let mut numbers = vec![
        (Number::QdiscSentBytes, qdisc.bytes),
        (Number::QdiscSentPackets, qdisc.packets),
        (Number::QdiscDrops, u64::from(qdisc.drops)),
        (Number::QdiscOverlimits, u64::from(qdisc.overlimits)),
        (Number::QdiscRequeues, u64::from(qdisc.requeues)),
        (Number::QdiscBacklogBytes, u64::from(qdisc.backlog_bytes)),
        (Number::QdiscBacklogPackets, u64::from(qdisc.queued_packets)),
    ];
    numbers.extend(qdisc.marks.map(|marks| (Number::QdiscMarks, marks)));
    let inside = &qdisc.inside;
    let values = [
        (Number::QdiscDelay, inside.delay_us),
        (Number::QdiscPeak, inside.peak_us),
        (Number::QdiscProbability, inside.probability),
        (Number::QdiscDropping, inside.dropping.map(u32::from)),
        (Number::QdiscFlows, inside.flows),
        (Number::QdiscNewFlows, inside.new_flows),
        (Number::QdiscFullDrops, inside.full_drops),
        (Number::QdiscMemory, inside.memory),
    ];
    let values = values.into_iter();
    numbers.extend(values.filter_map(|(number, value)| Some((number, value?.into()))));
    numbers
}

/// Returns the tins of a cake with several; a single tin equals the queue.
fn of_tins(device: &DeviceOverview, qdisc: &Counters) -> Vec<Object> {
    let names: &[&str] = match qdisc.tins.len() {
        3 => &["bulk", "best effort", "voice"],
        4 => &["bulk", "best effort", "video", "voice"],
        8 => &["0", "1", "2", "3", "4", "5", "6", "7"],
        _ => &[],
    };
    let object = |(name, tin): (&&str, &Tin)| Object {
        sort: Sort::Tin,
        identity: format!("{} {}", device.index, qdisc.handle),
        begins: false,
        labels: vec![
            ("device", device.name.clone()),
            ("parent", parent(qdisc)),
            ("tin", (*name).to_owned()),
        ],
        numbers: vec![
            (Number::TinSentBytes, tin.bytes),
            (Number::TinSentPackets, tin.packets.into()),
            (Number::TinDrops, tin.drops.into()),
            (Number::TinMarks, tin.marks.into()),
            (Number::TinBacklogBytes, tin.backlog_bytes.into()),
            (Number::TinBacklogPackets, tin.queued_packets.into()),
            (Number::TinDelay, tin.delay_us.into()),
            (Number::TinPeak, tin.peak_us.into()),
            (Number::TinFlows, tin.flows.into()),
        ],
    };
    names.iter().zip(&qdisc.tins).map(object).collect()
}

/// Returns the parent of a qdisc. The kernel's default qdisc has no handle, and is identified by
/// its parent.
fn parent(qdisc: &Counters) -> String {
    match qdisc.parent {
        None => String::from("root"),
        Some(parent) => parent.to_string(),
    }
}

/// Returns the metrics of a class. Its queue counts more drops than the class, which does not
/// see drops at dequeue.
fn of_class(class: &Counters, queue: Option<&Counters>) -> Vec<(Number, u64)> {
    let drops = queue.map_or(class.drops, |queue| queue.drops);
    let mut numbers = vec![
        (Number::ClassSentBytes, class.bytes),
        (Number::ClassSentPackets, class.packets),
        (Number::ClassDrops, u64::from(drops)),
        (Number::ClassOverlimits, u64::from(class.overlimits)),
        (Number::ClassBacklogBytes, u64::from(class.backlog_bytes)),
        (Number::ClassBacklogPackets, u64::from(class.queued_packets)),
    ];
    let marks = queue.map_or(class.marks, |queue| queue.marks);
    numbers.extend(marks.map(|marks| (Number::ClassMarks, marks)));
    let borrowed = class.borrowed.map(u64::from);
    numbers.extend(borrowed.map(|packets| (Number::ClassBorrowed, packets)));
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::legend::ClassLegend;
    use std::collections::BTreeMap;
    use weirgate_kernel::{DeviceCounters, Inside, Traffic};

    fn cake(tins: usize) -> DeviceOverview {
        let handle = Handle::new(0x18f, 0);
        let tin = |index: usize| Tin {
            bytes: index as u64 * 1000,
            ..Tin::default()
        };
        let root = Counters {
            handle,
            parent: None,
            kind: String::from("cake"),
            bytes: 5_000,
            packets: 50,
            drops: 3,
            overlimits: 0,
            requeues: 0,
            backlog_bytes: 100,
            queued_packets: 1,
            marks: Some(7),
            borrowed: None,
            inside: Inside::default(),
            tins: (0..tins).map(tin).collect(),
        };
        DeviceOverview {
            index: 4,
            name: String::from("wan"),
            up: true,
            received: Traffic::default(),
            sent: Traffic::default(),
            counters: DeviceCounters {
                qdiscs: vec![root],
                classes: Vec::new(),
            },
            rates: BTreeMap::new(),
            cake: None,
        }
    }

    fn of_sort(objects: &[Object], sort: Sort) -> Vec<&Object> {
        objects.iter().filter(|one| one.sort == sort).collect()
    }

    fn class(name: &str) -> ClassLegend {
        ClassLegend {
            device: String::from("wan"),
            direction: String::from("up"),
            name: name.to_owned(),
            handle: Handle::new(2, 0x10),
            guaranteed: 1_000_000,
            maximum: 1_000_000,
            bound: None,
            objective: None,
        }
    }

    /// The kernel lists a class in any place, and caps of hosts have classes too.
    #[test]
    fn the_policys_classes_are_among_those_that_are_looked_at() {
        let mut device = cake(1);
        let root = device.counters.qdiscs[0].clone();
        let own = ClassLegend {
            handle: Handle::new(2, 599),
            ..class("all")
        };
        device.counters.classes = (0..600)
            .map(|minor| Counters {
                handle: Handle::new(2, minor),
                ..root.clone()
            })
            .collect();
        device
            .counters
            .qdiscs
            .extend((0..600).map(|minor| Counters {
                handle: Handle::new(0x1000 + minor, 0),
                parent: Some(Handle::new(2, minor)),
                drops: u32::from(minor),
                ..root.clone()
            }));
        let legend = Legend {
            classes: vec![own],
            ..Legend::default()
        };
        let objects = of_device(&device, &legend);
        let classes = of_sort(&objects, Sort::Class);
        assert_eq!(classes.len(), MOST_PARTS);
        let found = classes.iter().find(|one| one.label("class") == "all");
        assert_eq!(
            found.expect("is there").number(Number::ClassDrops),
            Some(599)
        );
        let queues = of_sort(&objects, Sort::Qdisc);
        assert_eq!(queues.len(), MOST_PARTS);
        assert!(queues.iter().any(|one| one.label("parent") == "2:257"));
    }

    #[test]
    fn a_cake_that_shapes_is_its_policys_class() {
        let mut legend = Legend {
            classes: vec![class("all")],
            ..Legend::default()
        };
        let objects = of_device(&cake(1), &legend);
        let found = of_sort(&objects, Sort::Class);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].label("class"), "all");
        assert_eq!(found[0].number(Number::ClassSentBytes), Some(5_000));
        assert_eq!(found[0].number(Number::ClassDrops), Some(3));
        assert_eq!(found[0].number(Number::ClassMarks), Some(7));
        assert!(of_sort(&objects, Sort::Tin).is_empty());
        // With two classes, the cake stands for neither.
        legend.classes.push(class("other"));
        let objects = of_device(&cake(1), &legend);
        assert!(of_sort(&objects, Sort::Class).is_empty());
    }

    #[test]
    fn tins_have_names_by_their_number() {
        let objects = of_device(&cake(4), &Legend::default());
        let tins = of_sort(&objects, Sort::Tin);
        let names: Vec<&str> = tins.iter().map(|tin| tin.label("tin")).collect();
        assert_eq!(names, ["bulk", "best effort", "video", "voice"]);
        assert_eq!(tins[3].number(Number::TinSentBytes), Some(3_000));
    }
}
