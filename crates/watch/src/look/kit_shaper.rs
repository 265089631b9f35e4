// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classes of the kit's shaper. To the kernel it is one qdisc without classes; the classes'
//! counters are in the maps of its program, which root may read.

use crate::legend::Legend;
use crate::look::device::class_object;
use crate::look::link::GATE;
use crate::object::{Number, Object, Sort};
use weirgate_aqm::Row;
use weirgate_bpf::{AttachPoint, Class, Classes, Instance, Shaper, Store};
use weirgate_kernel::DeviceOverview;
use weirgate_units::{Handle, Rate};

/// Drops for want of room, and not for delay (`AQM_REASONS`, aqm/include/aqm.h).
const FULL: [&str; 3] = ["room", "limit", "evicted"];

/// Remembers the maps.
#[derive(Default)]
pub(crate) struct Kits {
    shaper: Option<Shaper>,
}

impl Kits {
    /// Adds the classes of a device's shaper and their queues, and to the device
    /// their rates; nothing where it has none, or its maps may not be read.
    pub(crate) fn look(
        &mut self,
        device: &mut DeviceOverview,
        legend: &Legend,
        objects: &mut Vec<Object>,
    ) {
        let mut qdiscs = device.counters.qdiscs.iter();
        let root = qdiscs.find(|qdisc| qdisc.parent.is_none() && Shaper::is_kind(&qdisc.kind));
        let Some(kind) = root.map(|root| root.kind.clone()) else {
            return;
        };
        let Ok(point) = AttachPoint::root(device.index) else {
            return;
        };
        let known = self.shaper.as_ref().filter(|shaper| shaper.kind() == kind);
        let mut found = known.and_then(|shaper| read(shaper, point));
        if found.is_none() {
            // Not opened yet, or it was loaded anew since, with other maps.
            self.shaper = Store::shaper_unlocked(&kind);
            found = self.shaper.as_ref().and_then(|shaper| read(shaper, point));
        }
        let Some((setup, queues)) = found else {
            return;
        };
        let gate = rate(setup.gate_bytes_s);
        device.rates.insert(GATE, (gate, gate));
        // A class 0 is a slot that one left.
        let classes = setup.classes.iter().zip(queues);
        for (Class { rule, .. }, instance) in classes.filter(|(class, _)| class.rule.classid != 0) {
            let handle = Handle::from_u32(rule.classid);
            let ceiling = match rule.ceiling_bytes_s {
                0 => gate,
                bytes => rate(bytes),
            };
            let rates = (rate(rule.guarantee_bytes_s), ceiling);
            device.rates.insert(handle, rates);
            let numbers = of_class(&instance);
            objects.push(class_object(device, handle, legend, numbers));
            objects.push(Object {
                sort: Sort::Qdisc,
                identity: format!("{} {handle}", device.index),
                begins: false,
                labels: vec![
                    ("device", device.name.clone()),
                    ("parent", handle.to_string()),
                    ("kind", format!("weir_{}", instance.discipline().name())),
                ],
                numbers: of_queue(&instance),
            });
        }
    }
}

/// The shaper at an attach point, with its classes' queues; `None` where there is none.
fn read(shaper: &Shaper, point: AttachPoint) -> Option<(Classes, Vec<Instance>)> {
    let setup = shaper.setup(point).ok()??;
    let instance = shaper.instance(point).ok()??;
    Some((setup, instance.classes))
}

fn rate(bytes_s: u64) -> Rate {
    Rate::bits_per_second(bytes_s.saturating_mul(8))
}

fn sum(rows: &[(Row, u64)], wanted: impl Fn(&Row) -> bool) -> u64 {
    let wanted = rows.iter().filter(|(row, _)| wanted(row));
    wanted.map(|(_, count)| count).sum()
}

/// As what the kernel counts in 32 bits.
fn short(count: u64) -> u64 {
    count & u64::from(u32::MAX)
}

/// Bytes are those on the wire.
fn of_class(queue: &Instance) -> Vec<(Number, u64)> {
    let of = |number, name| Some((number, queue.number(name)?));
    let values = [
        of(Number::ClassSentBytes, "sent_wire_bytes"),
        of(Number::ClassSentPackets, "sent_packets"),
        of(Number::ClassBacklogBytes, "queued_wire_bytes"),
        of(Number::ClassBacklogPackets, "queued_packets"),
    ];
    let mut numbers: Vec<_> = values.into_iter().flatten().collect();
    numbers.push((Number::ClassDrops, short(sum(&queue.drops(), |_| true))));
    numbers.push((Number::ClassMarks, sum(&queue.marks(), |_| true)));
    numbers
}

pub(crate) fn of_queue(queue: &Instance) -> Vec<(Number, u64)> {
    let of = |number, name| Some((number, queue.number(name)?));
    let drops = queue.drops();
    let full = sum(&drops, |row| FULL.contains(&row.name));
    let values = [
        of(Number::QdiscSentBytes, "sent_wire_bytes"),
        of(Number::QdiscSentPackets, "sent_packets"),
        of(Number::QdiscBacklogBytes, "queued_wire_bytes"),
        of(Number::QdiscBacklogPackets, "queued_packets"),
        of(Number::QdiscFlows, "active"),
        of(Number::QdiscNewFlows, "new_flows").map(|(number, count)| (number, short(count))),
        of(Number::QdiscDelay, "delay_ns").map(|(number, ns)| (number, ns / 1000)),
        probability(queue).map(|part| (Number::QdiscProbability, part)),
        Some((Number::QdiscDrops, short(sum(&drops, |_| true)))),
        Some((Number::QdiscFullDrops, short(full))),
        Some((Number::QdiscMarks, sum(&queue.marks(), |_| true))),
    ];
    values.into_iter().flatten().collect()
}

/// By which it drops or marks, in millionths: `probability`, whose unit says what a
/// whole one is.
fn probability(queue: &Instance) -> Option<u64> {
    let vars = queue.vars();
    let (row, value) = vars.iter().find(|(row, _)| row.name == "probability")?;
    let bits: u32 = row.unit.strip_prefix("ratio/2^")?.parse().ok()?;
    u64::try_from((u128::from(*value) * 1_000_000) >> bits).ok()
}
