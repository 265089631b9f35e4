// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers about circuits, with at most fifty sites and fifty circuits.

use super::CircuitsLook;
use super::json::{called, delay_ms, node_json};
use super::most::Most;
use super::query::{CircuitsOrder, CircuitsQuery};
use serde_json::{Value, json};
use weirgate_bpf::CircuitsRow;
use weirgate_circuits::rows::{Label, RowLayout};
use weirgate_circuits::{Key, KeyKind};

/// The largest number of rows of each kind in an answer.
const ROWS: usize = 50;

/// A selection of rows.
enum Picked<'q> {
    /// All rows.
    All,
    /// The children of a row.
    Below(u32),
    /// The rows whose name contains this text, and the row that has it as a key.
    Found(&'q str, Option<u32>),
}

impl CircuitsLook {
    /// Returns the device, and the numbers of its sites and circuits.
    pub(crate) fn summary(&self) -> Value {
        json!({
            "device": self.device,
            "direction": self.direction.name(),
            "queues": self.reader.layout().queues,
            "sites": self.sites,
            "circuits": self.circuits,
        })
    }

    /// Returns the name of the device.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// Adds the requested rows to the answer.
    pub(crate) fn answer(&self, query: &CircuitsQuery, to: &mut Value) {
        let layout = self.reader.layout();
        to["time_ms"] = self.time.into();
        let interval = self.interval.map(|interval| interval.as_millis() as u64);
        to["interval_ms"] = interval.into();
        to["device"] = self.device.clone().into();
        to["link"] = self.node(RowLayout::LINK).unwrap_or_default();
        to["others"] = self.node(layout.others(0)).unwrap_or_default();
        let chosen = self.named(&query.name);
        let nodes = chosen.iter().filter_map(|id| self.node(*id));
        to["chosen"] = nodes.collect();
        let site = chosen.into_iter().find(|id| layout.sites().contains(id));
        let picked = match site {
            _ if !query.search.is_empty() => {
                Picked::Found(&query.search, self.owner(&query.search))
            }
            Some(site) => Picked::Below(site),
            // A circuit has no children.
            None if !query.name.is_empty() => return,
            None => Picked::All,
        };
        let mut sites = layout.sites();
        to["sites"] = self.listed(&mut sites, &picked, query.order, query.sites_from);
        let mut circuits = self.circuit_rows();
        to["circuits"] = self.listed(&mut circuits, &picked, query.order, query.from);
    }

    /// Returns the selected rows, up to the limit of an answer, and how many more there are.
    fn listed(
        &self,
        rows: &mut dyn Iterator<Item = u32>,
        picked: &Picked<'_>,
        order: CircuitsOrder,
        from: usize,
    ) -> Value {
        let mut most = Most::new(from + ROWS);
        let mut all = 0;
        for id in rows {
            let Some(row) = self.reader.row(id) else {
                continue;
            };
            let is_picked = match picked {
                Picked::All => true,
                Picked::Below(site) => row.parent == *site,
                Picked::Found(part, owner) => *owner == Some(id) || self.reader.is_called(id, part),
            };
            if is_picked {
                all += 1;
                most.push(id, self.rank(id, &row, order));
            }
        }
        let ids = most.rows().into_iter().skip(from);
        let rows: Vec<Value> = ids.filter_map(|id| self.node(id)).collect();
        let more = all - (from + rows.len()).min(all);
        json!({ "all": all, "from": from, "more": more, "rows": rows })
    }

    /// Returns the number by which a row is ordered.
    fn rank(&self, id: u32, row: &CircuitsRow, order: CircuitsOrder) -> u64 {
        let ceiling = row.ceiling_bytes_s;
        let part = |of: u64| {
            if ceiling > 0 {
                of as f64 / ceiling as f64 * 1e9
            } else {
                0.0
            }
        };
        match order {
            CircuitsOrder::Rate => self.since(id).bytes,
            CircuitsOrder::Packets => self.since(id).packets,
            CircuitsOrder::Use => part(self.since(id).bytes) as u64,
            CircuitsOrder::Dropped => self.sums(id, row).drops,
            CircuitsOrder::Marked => self.sums(id, row).marks,
            CircuitsOrder::Queued => self.sums(id, row).queued_bytes,
            CircuitsOrder::Delay => part(self.sums(id, row).queued_bytes) as u64,
        }
    }

    /// Returns the rows of the site and of the circuit with this name.
    fn named(&self, name: &str) -> Vec<u32> {
        if name.is_empty() {
            return Vec::new();
        }
        let rows = self.reader.layout().sites().chain(self.circuit_rows());
        let is_it = |id: &u32| {
            let node = || self.reader.node(*id);
            self.reader.is_called(*id, name) && node().is_some_and(|one| called(&one.label) == name)
        };
        rows.filter(is_it).collect()
    }

    /// Returns the row of the circuit that has this text as a key, or has a prefix that contains
    /// the address.
    fn owner(&self, text: &str) -> Option<u32> {
        let keys = KeyKind::ALL.into_iter().filter_map(|kind| {
            let keys: Vec<Key> = kind.read_all(text).ok()?;
            <[Key; 1]>::try_from(keys).ok()
        });
        let mut owners = keys.filter_map(|[key]| self.reader.owner(&key).ok()?);
        owners.find(|id| self.reader.layout().circuits().contains(id))
    }

    /// Returns a node with its rates since the previous look.
    fn node(&self, id: u32) -> Option<Value> {
        let node = self.reader.node(id)?;
        let sums = self.sums(id, &self.reader.row(id)?);
        let mut value = node_json(&node, self.above(&node).as_deref());
        if matches!(node.label, Label::Link | Label::Site(_)) {
            value["circuits_below"] = sums.circuits.into();
            value["queued_packets"] = sums.queued_packets.into();
            value["queued_bytes"] = sums.queued_bytes.into();
            value["delay_ms"] = delay_ms(node.ceiling_bytes_s, sums.queued_bytes).into();
            value["dropped"] = sums.dropped.into();
            value["marked"] = sums.marked.into();
        }
        let since = self.since(id);
        let seconds = self.interval.map(|interval| interval.as_secs_f64());
        let seconds = seconds.filter(|seconds| *seconds > 0.0);
        for (name, count) in [
            ("rate_bit_s", since.bytes.saturating_mul(8)),
            ("packets_s", since.packets),
            ("dropped_s", sums.drops),
            ("marked_s", sums.marks),
        ] {
            let rate = seconds.map(|seconds| (count as f64 / seconds * 1e3).round() / 1e3);
            value[name] = rate.into();
        }
        Some(value)
    }
}
