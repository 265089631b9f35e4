// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asks the kernel, and makes objects of its answers.

use crate::connections::{Connections, Flow, SORTED};
use crate::kits::Kits;
use crate::legend::Legend;
use crate::line::{self, LineNow};
use crate::object::{Number, Object, Sort};
use crate::passed;
use crate::passing::{Passing, Untimed};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use weirgate_kernel::{Counters, DeviceOverview, Kernel, KernelError, RuleCounter, Tin};
use weirgate_units::Handle;

/// Devices, and qdiscs and classes of one device, that are looked at: beyond
/// them there is a fleet of containers, or someone who makes them to do harm.
const MOST_DEVICES: usize = 64;
pub(crate) const MOST_PARTS: usize = 512;
const MOST_RULES: usize = 1024;
/// Looks between two of the connection table; one more for each of so many
/// connections, so that a long table costs no more by the second.
const CONNECTIONS_EVERY: u32 = 10;
const CONNECTIONS_EACH: usize = 2_000;
/// Looks until what failed is tried again.
const AGAIN: u32 = 10;

/// Why rules and connections could not be read.
struct Refused {
    reason: String,
    /// Looks until it is tried again; `None` where this process may not.
    rest: Option<u32>,
}

/// Looks at one network namespace, again and again.
pub struct Looker {
    kernel: Kernel,
    legend: Legend,
    lines: Vec<LineNow>,
    /// Looks until the connection table is read again, and how many there were
    /// between the last two readings.
    rest: u32,
    between: u32,
    connections: Connections,
    /// Why rules and connections are not looked at.
    refused: Option<Refused>,
    kits: Kits,
    passing: Option<Passing>,
    /// Why packets that pass are not looked at.
    blind: Option<String>,
}

impl Looker {
    /// Looks at the calling thread's namespace. Needs a tokio runtime, and no
    /// privilege.
    pub fn open(legend: Legend) -> Result<Self, KernelError> {
        Ok(Self {
            kernel: Kernel::open()?,
            legend,
            lines: Vec::new(),
            rest: 0,
            between: CONNECTIONS_EVERY,
            connections: Connections::default(),
            refused: None,
            kits: Kits::default(),
            passing: None,
            blind: None,
        })
    }

    /// Looks at packets that pass, too, where that is allowed.
    pub fn look_at_packets(&mut self) {
        match Passing::open() {
            Ok(passing) => self.passing = Some(passing),
            Err(error) => self.blind = Some(first_line(&error)),
        }
    }

    /// What numbers stand for.
    pub fn legend(&self) -> &Legend {
        &self.legend
    }

    /// Takes another policy's.
    pub fn set_legend(&mut self, legend: Legend) {
        self.legend = legend;
        // Classes of connections may be others.
        self.connections = Connections::default();
        self.rest = 0;
        self.between = CONNECTIONS_EVERY;
    }

    /// Takes what `[track]` has the line to be.
    pub fn set_lines(&mut self, lines: Vec<LineNow>) {
        self.lines = lines;
    }

    /// What `[track]` has the line to be.
    pub fn lines(&self) -> &[LineNow] {
        &self.lines
    }

    /// The flows with most traffic at the last reading of the connection table.
    pub fn flows(&self) -> Arc<Vec<Flow>> {
        Arc::clone(&self.connections.flows)
    }

    /// Why rules and connections are not looked at; `None` if they are.
    pub fn refused(&self) -> Option<&str> {
        Some(&*self.refused.as_ref()?.reason)
    }

    /// Why packets that pass are not looked at; `None` if they are, or nobody
    /// asked for it.
    pub fn blind(&self) -> Option<&str> {
        self.blind.as_deref()
    }

    /// What of packets that pass could not be timed; `None` where they are not
    /// looked at.
    pub(crate) fn untimed(&self) -> Option<Untimed> {
        self.passing.as_ref().map(Passing::untimed)
    }

    /// Looks once.
    pub async fn look(&mut self) -> Result<(Vec<Object>, Vec<DeviceOverview>), KernelError> {
        let mut devices = self.kernel.overview().await?;
        // Those that are shaped first, then by the kernel's number.
        devices.sort_by_key(|device| (!shaped(device), device.index));
        devices.truncate(MOST_DEVICES);
        let mut objects = Vec::new();
        for device in &mut devices {
            objects.extend(of_device(device, &self.legend));
            self.kits.look(device, &self.legend, &mut objects);
        }
        objects.extend(line::objects(&self.legend, &devices, &self.lines));
        if let Some(passing) = &mut self.passing {
            // What fails once need not fail at the next look.
            let found = passing.look(&devices, shaped, &self.legend, &mut objects);
            self.blind = found.err().map(|error| first_line(&error));
        }
        let due = match &mut self.refused {
            None => true,
            Some(Refused { rest: None, .. }) => false,
            Some(Refused {
                rest: Some(rest), ..
            }) => {
                *rest = rest.saturating_sub(1);
                *rest == 0
            }
        };
        if due {
            let found = self.privileged(&mut objects).await;
            self.refused = found.err().map(|error| Refused {
                reason: error.to_string(),
                rest: (!error.is_denied()).then_some(AGAIN),
            });
        }
        Ok((objects, devices))
    }

    async fn privileged(&mut self, objects: &mut Vec<Object>) -> Result<(), KernelError> {
        for (netdev, table) in &self.legend.tables {
            let counters = self.kernel.rule_counters(*netdev, table).await?;
            objects.extend(of_rules(table, &counters));
        }
        passed::look(&self.kernel, &self.legend, objects).await;
        if self.rest == 0 {
            let table = self.kernel.connection_table().await?;
            let subnets = self.kernel.subnets().await?;
            let sorter = &self.legend.sorter;
            let limit = self.kernel.connection_limit();
            let room = SORTED.saturating_mul(self.between as usize);
            self.connections
                .take(&table, &subnets, (sorter, room), limit, Instant::now());
            let count = usize::try_from(table.count.all).unwrap_or(usize::MAX);
            let more = u32::try_from(count / CONNECTIONS_EACH).unwrap_or(u32::MAX);
            self.between = CONNECTIONS_EVERY.saturating_add(more);
            self.rest = self.between;
        }
        self.rest -= 1;
        objects.extend(self.connections.objects.iter().cloned());
        let classes = &self.connections.classes;
        let named = objects.iter_mut().filter(|one| one.sort == Sort::Class);
        for class in named.filter(|_| self.legend.sorter.0.is_some()) {
            let way = match class.label("direction") {
                "up" => "up",
                "down" => "down",
                _ => continue,
            };
            let key = (way, class.label("class").to_owned());
            let count = classes.get(&key).copied().unwrap_or(0);
            class.numbers.push((Number::ClassConnections, count));
        }
        Ok(())
    }
}

/// What went wrong, without what the verifier had to say.
fn first_line(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Whether a qdisc stands there that somebody asked for.
fn shaped(device: &DeviceOverview) -> bool {
    device
        .counters
        .qdiscs
        .iter()
        .any(|qdisc| qdisc.handle.major != 0)
}

/// The objects of one device.
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
    let qdiscs = &device.counters.qdiscs;
    for qdisc in qdiscs.iter().take(MOST_PARTS) {
        objects.push(Object {
            sort: Sort::Qdisc,
            identity: format!("{} {} {}", device.index, qdisc.kind, qdisc.handle),
            begins: false,
            labels: vec![
                ("device", device.name.clone()),
                ("parent", place(qdisc)),
                ("kind", qdisc.kind.clone()),
            ],
            numbers: of_qdisc(qdisc),
        });
        objects.extend(of_tins(device, qdisc));
    }
    for class in classes(device, legend).iter().take(MOST_PARTS) {
        let queue = qdiscs
            .iter()
            .find(|qdisc| qdisc.parent == Some(class.handle));
        let numbers = of_class(class, queue);
        objects.push(class_object(device, class.handle, legend, numbers));
    }
    objects
}

/// A class of a device, as the legend calls it.
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

/// Its classes. A cake that shapes has none: where the policy has one class there,
/// it is that.
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
    let told = [
        (Number::QdiscDelay, inside.delay_us),
        (Number::QdiscPeak, inside.peak_us),
        (Number::QdiscProbability, inside.probability),
        (Number::QdiscDropping, inside.dropping.map(u32::from)),
        (Number::QdiscFlows, inside.flows),
        (Number::QdiscNewFlows, inside.new_flows),
        (Number::QdiscFullDrops, inside.full_drops),
        (Number::QdiscMemory, inside.memory),
    ];
    let told = told.into_iter();
    numbers.extend(told.filter_map(|(number, value)| Some((number, value?.into()))));
    numbers
}

/// Cake's tins, where it has several: with one, they are the queue.
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
            ("parent", place(qdisc)),
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

/// Where a qdisc hangs. The kernel's own default has no handle, and is named by
/// its place.
fn place(qdisc: &Counters) -> String {
    match qdisc.parent {
        None => String::from("root"),
        Some(parent) => parent.to_string(),
    }
}

/// A class's queue knows more of its drops than the class: what a queue drops
/// when a packet leaves it does not count there.
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

fn of_rules(table: &str, counters: &BTreeMap<String, RuleCounter>) -> Vec<Object> {
    let object = |(name, counter): (&String, &RuleCounter)| Object {
        sort: Sort::Rule,
        identity: String::new(),
        begins: false,
        labels: vec![("table", table.to_owned()), ("rule", name.clone())],
        numbers: vec![
            (Number::RulePackets, counter.packets),
            (Number::RuleBytes, counter.bytes),
        ],
    };
    counters.iter().take(MOST_RULES).map(object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::legend::ClassLegend;
    use weirgate_kernel::{DeviceCounters, Inside, Traffic};

    fn cake(tins: usize) -> DeviceOverview {
        let handle = Handle::new(0x18f, 0);
        let tin = |place: usize| Tin {
            bytes: place as u64 * 1000,
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

    #[test]
    fn a_cake_that_shapes_is_its_policys_class() {
        let class = |name: &str| ClassLegend {
            device: String::from("wan"),
            direction: String::from("up"),
            name: name.to_owned(),
            handle: Handle::new(2, 0x10),
            guaranteed: 1_000_000,
            maximum: 1_000_000,
            bound: None,
            objective: None,
        };
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
        // With two classes it is nobody's.
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
