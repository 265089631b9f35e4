// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of packets that are treated without a queue: by conditioners where they enter or
//! leave a device, and by filters that police arriving packets. They are in maps of BPF
//! programs, which root may read.

use crate::legend::Legend;
use crate::look::device::MOST_PARTS;
use crate::look::kit_shaper::of_queue;
use crate::object::{Number, Object, Sort};
use weirgate_bpf::{FilterState, WindowTotals};
use weirgate_kernel::{Conditioned, DeviceName, Kernel};

/// Adds the counters of the policy's conditioners and filters. Missing devices and unreadable
/// maps are skipped.
pub(crate) async fn look(kernel: &Kernel, legend: &Legend, objects: &mut Vec<Object>) {
    for device in &legend.conditioned {
        if let Ok(counts) = kernel.conditioned(device).await {
            objects.extend(of_conditioners(device, &counts));
        }
    }
    for device in &legend.policed {
        if let Ok(Some(state)) = kernel.filter_state(device).await {
            objects.push(of_filter(device, &state));
        }
        if let Ok(Some(totals)) = kernel.windowed(device).await {
            objects.push(of_windows(device, totals));
        }
    }
}

/// Returns the counters of conditioners by colour, for packets that enter and leave a device.
fn of_conditioners(device: &DeviceName, counts: &Conditioned) -> Vec<Object> {
    let entering = counts.entering.iter().map(|one| ("enter", one));
    let leaving = counts.leaving.iter().map(|one| ("leave", one));
    let colours = ["green", "yellow", "red"];
    let objects = entering.chain(leaving).flat_map(|(at, one)| {
        colours
            .into_iter()
            .enumerate()
            .map(move |(index, colour)| Object {
                sort: Sort::Conditioner,
                identity: String::new(),
                begins: false,
                labels: vec![
                    ("device", device.to_string()),
                    ("at", at.to_owned()),
                    ("conditioner", one.name.clone()),
                    ("colour", colour.to_owned()),
                ],
                numbers: vec![
                    (Number::ConditionerPackets, one.packets[index]),
                    (Number::ConditionerBytes, one.bytes[index]),
                ],
            })
    });
    objects.take(MOST_PARTS).collect()
}

/// Returns the counters of the filter that polices arriving packets, as a queue without backlog.
fn of_filter(device: &DeviceName, state: &FilterState) -> Object {
    /// The backlog is calculated only when a packet arrives, so it is meaningless later.
    const PRESENT: [Number; 2] = [Number::QdiscBacklogBytes, Number::QdiscBacklogPackets];
    let mut numbers = of_queue(&state.instance);
    numbers.retain(|(number, _)| !PRESENT.contains(number));
    Object {
        sort: Sort::Qdisc,
        identity: String::new(),
        begins: false,
        labels: vec![
            ("device", device.to_string()),
            ("parent", String::from("ingress")),
            ("kind", String::from("weirgate-inbound")),
        ],
        numbers,
    }
}

fn of_windows(device: &DeviceName, totals: WindowTotals) -> Object {
    Object {
        sort: Sort::Receive,
        identity: String::new(),
        begins: false,
        labels: vec![("device", device.to_string())],
        numbers: vec![
            (Number::ReceiveRewritten, totals.rewritten),
            (Number::ReceiveHeld, totals.held),
            (Number::ReceiveUnknown, totals.unknown),
            (Number::ReceiveActive, totals.active),
        ],
    }
}
