// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Read access to the circuits of a device without locks: a reader neither waits nor delays
//! others.

use super::seen::{CircuitsRow, Seen, raw};
use super::{CircuitTree, CircuitsNode, FILE, MAPS, keys, layout_of};
use crate::error::BpfError;
use crate::layout::{
    circuits_key, circuits_label, circuits_leaves, circuits_prefix, circuits_rule,
};
use crate::maps::{self, Map};
use crate::qdisc::attach_point::AttachPoint;
use crate::qdisc::engine::{Mapped, Nodes};
use crate::qdisc::load;
use crate::qdisc::store::Store;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use weirgate_circuits::rows::{LabelText, RowLayout, row_of};
use weirgate_circuits::{Direction, Key};

/// The maps of a device's circuits. They keep neither the programs nor the qdisc kind alive, so
/// that a list can be replaced while they are open.
#[derive(Debug)]
pub struct CircuitReader {
    nodes: Nodes,
    labels: Mapped<circuits_label>,
    addresses: Map<circuits_key, circuits_leaves>,
    prefixes: Map<circuits_prefix, circuits_leaves>,
    rules: Map<u32, circuits_rule>,
    layout: RowLayout,
    folder: PathBuf,
    /// The inode of the last pin, which identifies this set of maps.
    pin: Option<u64>,
}

impl CircuitReader {
    /// Opens the pinned maps of a device. Returns `None` if there are none, or if this process
    /// lacks the permission. Needs root.
    pub fn open(point: AttachPoint) -> Result<Option<Self>, BpfError> {
        let folder = Store::circuits_folder(point);
        if !load::is_pinned(&folder) {
            return Ok(None);
        }
        let pin = number(&folder);
        let map = |place: usize| maps::pinned(&folder, MAPS[place]);
        let rules: Map<u32, circuits_rule> = Map::of(FILE, MAPS[4], Some(map(4)?))?;
        let layout = layout_of(&rules.first()?);
        let rows = layout.nodes() as usize + 1;
        Ok(Some(Self {
            nodes: Nodes::pinned(&folder, layout.nodes())?,
            labels: Mapped::new(MAPS[1], Some(map(1)?), rows)?,
            addresses: Map::of(FILE, MAPS[2], Some(map(2)?))?,
            prefixes: Map::of(FILE, MAPS[3], Some(map(3)?))?,
            rules,
            layout,
            pin,
            folder,
        }))
    }

    /// Returns whether these maps are still the pinned ones.
    pub fn is_current(&self) -> bool {
        self.pin.is_some() && number(&self.folder) == self.pin
    }

    /// Returns the numbers of rows.
    pub fn layout(&self) -> RowLayout {
        self.layout
    }

    /// Returns the direction of the packets whose subscribers are looked up.
    pub fn direction(&self) -> Result<Direction, BpfError> {
        CircuitTree::direction_of(&self.rules)
    }

    /// Returns the node in a row, if it is live. The root and the default leaf represent those
    /// of all queues.
    pub fn row(&self, id: u32) -> Option<CircuitsRow> {
        self.seen().row(id)
    }

    /// Returns the node in a row with its label.
    pub fn node(&self, id: u32) -> Option<CircuitsNode> {
        self.seen().node(id)
    }

    /// Returns whether the name of a row contains `part`, ignoring the case of ASCII letters.
    /// The letter of the kind is not part of the name.
    pub fn is_called(&self, id: u32, part: &str) -> bool {
        let label = raw(&self.labels, id).map(|label| LabelText(label.text));
        let name = label.as_ref().and_then(|label| label.bytes().get(1..));
        let wanted = part.as_bytes();
        name.is_some_and(|name| {
            let mut places = name.windows(wanted.len().max(1));
            wanted.is_empty() || places.any(|own| own.eq_ignore_ascii_case(wanted))
        })
    }

    /// Returns the row of the circuit that owns a key. An address also matches a prefix that
    /// contains it.
    pub fn owner(&self, key: &Key) -> Result<Option<u32>, BpfError> {
        let own = keys::of(key);
        let whole = match key.prefix() {
            None => self.addresses.get(&own.key)?,
            Some(_) => None,
        };
        let found = match (whole, key) {
            // The trie returns the longest prefix that contains the key.
            (None, Key::Address(_)) => self.prefixes.get(&own)?,
            (whole, _) => whole,
        };
        let active = (self.rules.first()?.generation & 1) as usize;
        let row = found.map(|leaves| row_of(leaves.leaf[active]));
        Ok(row.filter(|row| *row > 0))
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            nodes: &self.nodes,
            labels: &self.labels,
            layout: self.layout,
        }
    }
}

/// Returns the inode of the pin that is made last.
fn number(folder: &std::path::Path) -> Option<u64> {
    let pin = std::fs::metadata(load::last_pin(folder));
    pin.ok().map(|pin| pin.ino())
}
