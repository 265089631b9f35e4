// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of packets that are treated without a queue: by conditioners where they enter or leave
//! a device, and by filters that hold arriving packets to a rate. They are in the maps of programs,
//! which root may read.

use crate::legend::Legend;
use crate::look::device::MOST_PARTS;
use crate::look::kit_shaper::of_queue;
use crate::object::{Number, Object, Sort};
use weirgate_bpf::{FilterState, WindowTotals};
use weirgate_kernel::{Conditioned, DeviceName, Kernel};

/// Adds what those of the policy found and did. A device that is gone, and maps
/// that may not be read, are left out.
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

/// What conditioners found of each colour, entering a device and leaving it.
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

/// The filter that holds what arrives to a rate: a queue that holds nothing.
fn of_filter(device: &DeviceName, state: &FilterState) -> Object {
    /// What waits is reckoned when a packet comes, and says nothing later.
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
