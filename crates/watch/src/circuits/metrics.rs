// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Circuits as objects with metrics: the link, the default leaf, sites, and the circuits with
//! the most traffic.

use super::json::{called, delay_ms};
use super::most::Most;
use super::{CircuitsLook, Sums};
use crate::object::{Number, Object, Sort};
use weirgate_bpf::CircuitsNode;
use weirgate_circuits::rows::{Label, RowLayout};

impl CircuitsLook {
    /// Returns the link, the default leaf, and the sites and circuits with the most traffic: at
    /// most this many of each, and no circuits without traffic.
    pub fn objects(&self, sites: usize, circuits: usize) -> Vec<Object> {
        let layout = self.reader.layout();
        let sent = |id: u32| self.now.get(id as usize).map_or(0, |own| own.bytes);
        let (mut most_sites, mut most_circuits) = (Most::new(sites), Most::new(circuits));
        for id in layout.sites().filter(|id| self.reader.row(*id).is_some()) {
            most_sites.push(id, sent(id));
        }
        for id in self.circuit_rows().filter(|id| sent(*id) > 0) {
            most_circuits.push(id, sent(id));
        }
        // If two have the same name, the first one counts.
        let mut ids = vec![RowLayout::LINK, layout.others(0)];
        ids.extend(most_sites.rows());
        ids.extend(most_circuits.rows());
        let nodes = ids.into_iter().filter_map(|id| self.reader.node(id));
        nodes.map(|node| self.object(&node)).collect()
    }

    fn object(&self, node: &CircuitsNode) -> Object {
        let site = match &node.label {
            Label::Circuit(_) => self.above(node),
            other => Some(called(other).to_owned()),
        };
        let mut labels = vec![
            ("device", self.device.clone()),
            ("site", site.unwrap_or_default()),
        ];
        if let Label::Circuit(id) = &node.label {
            labels.push(("circuit", id.clone()));
        }
        let row = self.reader.row(node.id);
        let sums = row.map_or_else(Sums::default, |row| self.sums(node.id, &row));
        let ceiling = node.ceiling_bytes_s;
        let mut numbers = vec![
            (Number::CircuitsSentBytes, node.counts.sent_wire_bytes),
            (Number::CircuitsSentPackets, node.counts.sent_packets),
            (Number::CircuitsDropped, sums.dropped),
            (Number::CircuitsMarked, sums.marked),
            (Number::CircuitsQueuedPackets, sums.queued_packets),
            (Number::CircuitsQueuedBytes, sums.queued_bytes),
            (Number::CircuitsCeiling, ceiling.saturating_mul(8)),
        ];
        let delay = delay_ms(ceiling, sums.queued_bytes);
        numbers.extend(delay.map(|ms| (Number::CircuitsDelay, (ms * 1e3) as u64)));
        if matches!(node.label, Label::Link | Label::Site(_)) {
            numbers.push((Number::CircuitsCount, sums.circuits));
        }
        Object {
            sort: Sort::Circuits,
            identity: String::new(),
            begins: false,
            labels,
            numbers,
        }
    }

    /// Returns the name of a node's parent.
    pub(super) fn above(&self, node: &CircuitsNode) -> Option<String> {
        let above = self.reader.node(node.parent)?;
        Some(called(&above.label).to_owned())
    }
}

/// Returns whether an object is below the link of a device with circuits, where there may be
/// many.
pub(crate) fn is_below_link(object: &Object) -> bool {
    object.sort == Sort::Circuits && object.label("site") != called(&Label::Link)
}

/// The metrics of sites that the history stores.
const OF_HISTORY: [Number; 5] = [
    Number::CircuitsSentBytes,
    Number::CircuitsDropped,
    Number::CircuitsMarked,
    Number::CircuitsQueuedBytes,
    Number::CircuitsDelay,
];

/// Returns whether the history stores a metric. It has room for 8,192 series. It stores the main
/// metrics of sites, but none of single circuits, because the ones with the most traffic change.
pub(crate) fn is_of_history(object: &Object, number: Number) -> bool {
    object.sort != Sort::Circuits
        || object.label("circuit").is_empty() && OF_HISTORY.contains(&number)
}
