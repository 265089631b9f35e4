// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classes of the kit's shaper. The kernel sees one qdisc without classes; the counters of the
//! classes are in the maps of its program, which root may read.

use crate::legend::Legend;
use crate::look::device::class_object;
use crate::look::link::GATE;
use crate::object::{Number, Object, Sort};
use weirgate_aqm::Row;
use weirgate_bpf::{AttachPoint, Class, Classes, Instance, Shaper, Store};
use weirgate_kernel::DeviceOverview;
use weirgate_units::{Handle, Rate};

/// The reasons of drops because of a full queue, not because of delay (`AQM_REASONS`,
/// aqm/include/aqm.h).
const FULL: [&str; 3] = ["room", "limit", "evicted"];

/// The opened maps.
#[derive(Default)]
pub(crate) struct Kits {
    shaper: Option<Shaper>,
}

impl Kits {
    /// Adds the classes of a device's shaper with their queues, and their rates to the device.
    /// Does nothing if the device has no shaper, or its maps cannot be read.
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
            // It was not opened yet, or was loaded again with other maps.
            self.shaper = Store::shaper_unlocked(&kind);
            found = self.shaper.as_ref().and_then(|shaper| read(shaper, point));
        }
        let Some((setup, queues)) = found else {
            return;
        };
        let gate = rate(setup.gate_bytes_s);
        device.rates.insert(GATE, (gate, gate));
        // An entry with class identifier 0 is the place of a removed class.
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

/// Reads the shaper at an attach point, with the queues of its classes; `None` if there is none.
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

/// Reduces a counter to the 32 bits that the kernel's own counters have.
fn short(count: u64) -> u64 {
    count & u64::from(u32::MAX)
}

/// Returns the metrics of a class, in bytes on the wire.
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

/// Returns the probability of drops or marks in millionths, converted from the unit of
/// `probability`.
fn probability(queue: &Instance) -> Option<u64> {
    let vars = queue.vars();
    let (row, value) = vars.iter().find(|(row, _)| row.name == "probability")?;
    let bits: u32 = row.unit.strip_prefix("ratio/2^")?.parse().ok()?;
    u64::try_from((u128::from(*value) * 1_000_000) >> bits).ok()
}
