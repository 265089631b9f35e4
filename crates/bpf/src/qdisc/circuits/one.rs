// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adds, removes or changes a single circuit without touching the others.

use super::known::Found;
use super::list::begun;
use super::seen::raw;
use super::{CircuitTree, CircuitsChange, CircuitsError, CircuitsNode, keys};
use crate::error::BpfError;
use crate::layout::{CIRCUITS_PICKED, circuits_label, circuits_rule, engine_config};
use crate::qdisc::engine::config;
use weirgate_aqm::NodeRow;
use weirgate_circuits::rows::{Full, Label, LabelText, QUEUE_SHIFT, RowLayout, row_of};
use weirgate_circuits::{Key, One, queues};
use weirgate_units::Arrange as _;
use zerocopy::FromZeros as _;

/// The largest number of levels below the link.
const LEVELS: usize = 7;

impl CircuitTree {
    /// Adds, removes or changes one circuit: a new one has no `old`, a removed one no `new`.
    /// Does not read the rows and keys of other circuits, except to sum the guarantees of sites.
    /// The entries of keys are written one by one. If this process dies before [`Self::settle`],
    /// the whole list must therefore be applied again.
    pub fn put_one(
        &mut self,
        old: Option<&One>,
        new: Option<&One>,
    ) -> Result<CircuitsChange, CircuitsError> {
        let mut change = CircuitsChange::default();
        let Some(named) = new.or(old) else {
            return Ok(change);
        };
        let layout = self.layout()?;
        let (parent, queue) = self.above(named, layout)?;
        let label = LabelText::circuit(&named.circuit.id);
        // A row never changes its queue. Moving a circuit to another queue therefore removes and
        // adds it; check for conflicts before the removal.
        if let (Some(gone), Some(comes)) = (old, new)
            && let own = self.above(gone, layout)?.1
            && own != queue
        {
            let (row, _) = self.row_of(&label, layout, own)?;
            self.row_of(&label, layout, queue)?;
            for key in &comes.circuit.keys {
                self.is_free(key, row)?;
            }
            let goes = self.put_one(old, None)?;
            let comes = self.put_one(None, new)?;
            return Ok(CircuitsChange {
                changed: 1,
                written: goes.written + comes.written,
                ..change
            });
        }
        let (row, is_there) = self.row_of(&label, layout, queue)?;
        let word = queue << QUEUE_SHIFT | row;
        let keys_of = |one: Option<&One>| -> Vec<Key> {
            one.map_or_else(Vec::new, |one| one.circuit.keys.clone())
        };
        let (had, has) = (keys_of(old), keys_of(new));
        let gains: Vec<Key> = has
            .iter()
            .copied()
            .filter(|one| !had.contains(one))
            .collect();
        for key in &gains {
            self.is_free(key, row)?;
        }
        let is = self
            .engine
            .config(row)
            .unwrap_or(engine_config::new_zeroed());
        let direction = self.direction()?;
        let wanted = match new {
            Some(new) => config(&NodeRow {
                parent,
                fork: 0,
                rule: new.circuit.rule(direction),
            }),
            None => engine_config { live: 0, ..is },
        };
        let mut rule = circuits_rule {
            open: begun(self.rules.first()?.open),
            ..self.rules.first()?
        };
        if had != has {
            rule.table = 0;
        }
        // Kinds of keys that no circuit has any more are looked up until the next list is
        // applied.
        rule.kinds[(rule.generation & 1) as usize] |= keys::kinds(gains.iter());
        self.rules.set_first(&rule)?;
        // Remove old keys first, so that no packet is sent to a row that another circuit may
        // get.
        for key in had.iter().filter(|one| !has.contains(one)) {
            self.forget(key)?;
            change.written += 1;
        }
        if is_there != new.is_some() || !keys::is_same(&is, &wanted) {
            match (is_there, new.is_some()) {
                (false, true) => {
                    self.put_label(row as usize, &label, queue);
                    change.added = 1;
                }
                (true, false) => change.removed = 1,
                _ => change.changed = 1,
            }
            self.stage_one(row as usize, wanted);
            let mut picked = vec![row];
            let was = if is_there { is.parent } else { parent };
            let least = |config: &engine_config| config.guarantee_bytes_s * u64::from(config.live);
            if least(&is) != least(&wanted) || was != parent {
                picked.extend(self.guarantees([was, parent], (row, &is, &wanted), layout));
            }
            self.commit_picked(rule, &picked)?;
            if let (Some(index), Some(label)) = (&mut self.index, raw(&self.labels, row)) {
                index.follow((row, &label), &is, &wanted);
            }
        }
        // Overwrite entries that an interrupted command may have left.
        let entries: Vec<(Key, [u32; 2])> = gains.iter().map(|one| (*one, [word; 2])).collect();
        change.written += entries.len();
        self.write(&entries)?;
        Ok(change)
    }

    /// Returns the row of a circuit's parent, and the queue of both.
    fn above(&self, one: &One, layout: RowLayout) -> Result<(u32, u32), CircuitsError> {
        let Some(site) = &one.site else {
            let queue = queues::of_circuit(&one.circuit.id, layout.queues);
            return Ok((layout.root(queue), queue));
        };
        let text = LabelText::site(site);
        if let Some(own) = self.known_site(&text.0, layout) {
            return Ok(own);
        }
        let live = |id: &u32| self.engine.config(*id).is_some_and(|own| own.live != 0);
        let mut rows = layout
            .sites()
            .filter_map(|id| Some((id, self.label_bytes(id)?)));
        let own = rows.find(|(id, label)| label.text == text.0 && live(id));
        let own = own.map(|(id, label)| (id, label.queue));
        own.ok_or_else(|| CircuitsError::NoSite(site.clone()))
    }

    /// Returns the row of a circuit and whether the circuit exists. For a new circuit the row is
    /// its former one if that is free, or another free row of the queue.
    fn row_of(
        &mut self,
        label: &LabelText,
        layout: RowLayout,
        queue: u32,
    ) -> Result<(u32, bool), CircuitsError> {
        let text = label.0;
        match self.known_row(&text, layout, queue) {
            Found::Row(id, is_there) => return Ok((id, is_there)),
            Found::Free(id) => return Ok((id, false)),
            Found::Unknown => {}
        }
        let mut free = None;
        for id in layout.circuits() {
            let Some(own) = self.label_bytes(id) else {
                break;
            };
            let never_used = own.text == [0; 64];
            if !never_used && own.queue != queue {
                continue;
            }
            let is_own = own.text == text;
            if !is_own && free.is_some() && !never_used {
                continue;
            }
            let Some((live, at_rest)) = self.engine.standing(id) else {
                break;
            };
            if is_own && live {
                return Ok((id, true));
            }
            if !live && at_rest && (free.is_none() || is_own) {
                free = Some(id);
            }
            // Rows that were never used are at the end.
            if never_used {
                break;
            }
        }
        let free = free.ok_or(Full {
            rows: layout.leaves - layout.queues,
            sites: false,
        })?;
        Ok((free, false))
    }

    /// Checks that a key has no owner, or that the circuit in this row owns it.
    fn is_free(&self, key: &Key, row: u32) -> Result<(), CircuitsError> {
        let active = (self.rules.first()?.generation & 1) as usize;
        let own = keys::of(key);
        let leaves = if key.prefix().is_none() {
            self.addresses.get(&own.key)?
        } else {
            // The lookup in a trie returns a shorter prefix if this one is missing; replacing an
            // existing entry then fails. An existing entry is replaced by an equal one.
            match self.prefixes.get(&own)? {
                Some(found) if self.prefixes.replace(&own, &found)? => Some(found),
                _ => None,
            }
        };
        let owner = leaves.map_or(0, |leaves| leaves.leaf[active]);
        if owner == 0 || row_of(owner) == row {
            return Ok(());
        }
        match self.node(row_of(owner)).map(|node| node.label) {
            Some(Label::Circuit(owner)) => Err(CircuitsError::Taken { key: *key, owner }),
            _ => Ok(()),
        }
    }

    /// Stages new guarantees for all sites above a circuit, above both its old and its new
    /// parent. `own` is the circuit's row with its old and new configuration. Returns the rows
    /// of these sites.
    fn guarantees(
        &self,
        above: [u32; 2],
        own: (u32, &engine_config, &engine_config),
        layout: RowLayout,
    ) -> Vec<u32> {
        let mut sites: Vec<u32> = above
            .into_iter()
            .flat_map(|id| self.path(id, layout))
            .collect();
        sites.arrange();
        sites.dedup();
        let below = self.guaranteed(own, layout);
        let mut sums = vec![0_u64; sites.len()];
        for (id, direct) in below.into_iter().enumerate().filter(|(_, sum)| *sum > 0) {
            for above in self.path(id as u32, layout) {
                if let Ok(index) = sites.binary_search(&above) {
                    sums[index] = sums[index].saturating_add(direct);
                }
            }
        }
        for (id, sum) in sites.iter().zip(sums) {
            if let Some(config) = self.engine.config(*id) {
                let most = match config.ceiling_bytes_s {
                    0 => u64::MAX,
                    ceiling => ceiling,
                };
                let guarantee_bytes_s = sum.min(most);
                self.stage_one(
                    *id as usize,
                    engine_config {
                        guarantee_bytes_s,
                        ..config
                    },
                );
            }
        }
        sites
    }

    /// Returns the sum of the guarantees directly below each inner node, with the new
    /// configuration of row `row` in place of the old one.
    fn guaranteed(
        &self,
        (row, is, wanted): (u32, &engine_config, &engine_config),
        layout: RowLayout,
    ) -> Vec<u64> {
        let least = |config: &engine_config| config.guarantee_bytes_s * u64::from(config.live);
        if let Some(index) = &self.index {
            let mut below = index.below.clone();
            if let Some(sum) = below.get_mut(is.parent as usize) {
                *sum = sum.saturating_sub(least(is));
            }
            if let Some(sum) = below.get_mut(wanted.parent as usize) {
                *sum = sum.saturating_add(least(wanted));
            }
            return below;
        }
        let mut below = vec![0_u64; layout.inner as usize + 1];
        for id in layout.circuits() {
            let Some(config) = self.engine.config(id) else {
                break;
            };
            let config = if id == row { *wanted } else { config };
            if let Some(sum) = below.get_mut(config.parent as usize) {
                *sum = sum.saturating_add(least(&config));
            }
        }
        below
    }

    /// Returns the row of a circuit with its counters; `None` if it does not exist.
    pub fn circuit(&mut self, one: &One) -> Result<Option<CircuitsNode>, CircuitsError> {
        let layout = self.layout()?;
        let (_, queue) = self.above(one, layout)?;
        let label = LabelText::circuit(&one.circuit.id);
        let found = match self.row_of(&label, layout, queue) {
            Err(CircuitsError::Full(_)) => return Ok(None),
            other => other?,
        };
        Ok(Some(found)
            .filter(|(_, is)| *is)
            .and_then(|(id, _)| self.node(id)))
    }

    /// Iterates over a site and its ancestors, without the link.
    fn path(&self, id: u32, layout: RowLayout) -> impl Iterator<Item = u32> {
        let site = move |id: u32| layout.sites().contains(&id).then_some(id);
        let above = move |id: &u32| site(self.engine.config(*id)?.parent);
        std::iter::successors(site(id), above).take(LEVELS)
    }

    /// Applies the staged configuration of these rows only.
    fn commit_picked(&self, rule: circuits_rule, rows: &[u32]) -> Result<(), BpfError> {
        let mut picked = [0; CIRCUITS_PICKED as usize];
        for (to, from) in picked.iter_mut().zip(rows) {
            *to = *from;
        }
        self.rules.set_first(&circuits_rule {
            next: rule.generation,
            count: rows.len().min(picked.len()) as u32,
            picked,
            ..rule
        })?;
        self.programs.commit()
    }

    /// Returns the label of a row in its raw form.
    pub(super) fn label_bytes(&self, id: u32) -> Option<circuits_label> {
        raw(&self.labels, id)
    }
}
