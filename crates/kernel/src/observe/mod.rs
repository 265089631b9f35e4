// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the state of a kernel, within a scope.

pub(crate) mod btf;
mod capability;
pub(crate) mod files;
pub(crate) mod generation;
mod machine;
pub(crate) mod network;
pub(crate) mod overview;
mod settings;

use crate::apply::parts::Parts;
use crate::error::KernelError;
use crate::link::{self, Link};
use crate::netlink::wire::Attrs;
use crate::nft::handle::{self, Handles};
use crate::nft::sets::{self, ConstantSet, Listed, Sets};
use crate::nft::{self, NFGENMSG, family};
use crate::tc;
use crate::tc::decode::{self, Entry};
use crate::tc::filters::{CLSACT_PARENTS, TC_H_CLSACT, by_hook};
use crate::tc::listed::{self, FilterPoint};
use crate::{DeviceIndex, Kernel};
use libc::RTM_GETTFILTER;
use nlink::netlink::message::NlMsgType;
use nlink::netlink::nftables::{
    NFT_MSG_GETCHAIN, NFT_MSG_GETRULE, NFT_MSG_GETSET, NFT_MSG_GETTABLE, NFTA_TABLE_NAME,
};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_bpf::read_program;
use weirgate_plan::is_plannable;
use weirgate_state::{
    Device, DeviceName, HookPrograms, Origin, Program, Qdisc, QdiscKind, Stab, State, Table,
    TableChange, switch_name,
};
use weirgate_units::{Handle, Inserted as _};

/// What to read. Nothing else is read, and so nothing else is planned for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Devices by name. weirgate's IFB devices are always read.
    pub devices: BTreeSet<DeviceName>,
    /// Tables by family (true is `netdev`) and name.
    pub tables: BTreeSet<(bool, String)>,
    /// Size tables that may be recognised: the kernel never returns their data.
    pub stabs: Vec<Stab>,
}

impl Scope {
    /// Returns everything that these states name: the desired state and those that the caller
    /// remembers.
    pub fn of<'a>(states: impl IntoIterator<Item = &'a State>) -> Self {
        let mut scope = Self::default();
        for state in states {
            for (name, device) in &state.devices {
                scope.devices.insert(name.clone());
                let stab = device.root.as_ref().and_then(|root| root.stab.clone());
                scope.stabs.extend(stab);
            }
            // A device may have programs alone.
            scope.devices.extend(state.hooks.keys().cloned());
            for table in &state.tables {
                scope.tables.insert((table.netdev, table.name.clone()));
            }
        }
        scope
    }

    /// Returns whether it names no device and no table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.tables.is_empty()
    }
}

/// The state that was read, with the generation of nf_tables at which it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The state of the namespace.
    pub state: State,
    /// The generation of the tables; `None` if one was changed while they were read.
    pub generation: Option<u32>,
    /// The handles of the rules in that generation.
    pub handles: Handles,
}

/// Tables that need not be read as long as the generation of nf_tables is theirs.
#[derive(Debug, Clone, Copy)]
pub struct KnownTables<'a> {
    /// Their generation.
    pub generation: u32,
    /// The tables.
    pub tables: &'a [Table],
    /// The handles of their rules, if these are known too.
    pub handles: &'a Handles,
}

impl Kernel {
    /// Reads the part of the namespace within the scope. Devices that do not exist are missing in
    /// the result.
    pub async fn observe(&self, scope: &Scope) -> Result<State, KernelError> {
        let mut handles = Handles::new();
        self.observe_with(scope, &Parts::default(), &mut handles)
            .await
    }

    /// Reads the state, with its generation. Tables that the caller knows are not read again if
    /// their generation is still the present one. The caller has checked that their
    /// [`TablesVersion`](crate::TablesVersion) is unchanged.
    pub async fn observe_knowing(
        &self,
        scope: &Scope,
        known: Option<KnownTables<'_>>,
    ) -> Result<Observed, KernelError> {
        let before = self.generation().await?;
        let known = known.filter(|known| known.generation == before);
        let mut parts = Parts::default();
        if let Some(known) = known {
            parts.of_tables(known.tables, known.handles);
        }
        let mut handles = Handles::new();
        let state = self.observe_with(scope, &parts, &mut handles).await?;
        let after = self.generation().await?;
        if after == before {
            return Ok(Observed {
                state,
                generation: Some(after),
                handles,
            });
        }
        // The known tables may be out of date now, and so may the handles.
        Ok(Observed {
            state: match known {
                Some(_) => self.observe(scope).await?,
                None => state,
            },
            generation: None,
            handles: Handles::new(),
        })
    }

    /// Reads the state, except for the known parts of tables.
    pub(crate) async fn observe_with(
        &self,
        scope: &Scope,
        parts: &Parts<'_>,
        handles: &mut Handles,
    ) -> Result<State, KernelError> {
        let links = self.links().await?;
        // The kernel lists the qdiscs of all devices, even if one is named.
        let qdiscs = self.qdiscs().await?;
        let mut state = State::default();
        for link in &links {
            if link.owned_ifb || scope.devices.contains(&link.name) {
                let (device, hooks) = self.observe_device(link, &qdiscs, scope).await?;
                state.devices.insert(link.name.clone(), device);
                let hooks = hooks.map(|hooks| (link.name.clone(), hooks));
                state.hooks.extend(hooks);
            }
        }
        // An IFB that shapes keeps its offloads; one that cuts passes on single segments.
        let cuts = |name: &DeviceName| {
            let mut links = links.iter();
            links.any(|link| link.name == *name && link.segments == Some(1))
        };
        let names: Vec<DeviceName> = state
            .devices
            .iter()
            .filter(|(name, device)| !device.owned_ifb || cuts(name))
            .map(|(name, _)| name.clone())
            .collect();
        for (name, offloads) in names.iter().zip(self.offloads(&names).await?) {
            if let Some(device) = state.devices.get_mut(name) {
                device.offloads = offloads;
            }
        }
        let by_index: BTreeMap<u32, DeviceName> = links
            .into_iter()
            .map(|link| (link.index, link.name))
            .inserted();
        for (netdev, name) in &scope.tables {
            let known = parts.of(*netdev, name);
            if let Some((table, None)) = known {
                handle::keep(handles, table, &parts.handles);
                state.tables.push(table.clone());
                continue;
            }
            let known = known.and_then(|(table, change)| Some((table, change?)));
            if let Some((before, change)) = known {
                handle::keep(handles, before, &parts.handles);
                let index = |name: &DeviceName| {
                    let mut links = by_index.iter();
                    links.find(|(_, own)| *own == name).map(|(index, _)| *index)
                };
                let changed = (before, change);
                let narrow = self.narrowly(changed, &parts.left, handles, index);
                if let Some(table) = narrow.await? {
                    state.tables.push(table);
                    continue;
                }
            }
            let table = self.observe_table(*netdev, name, &by_index, known, handles);
            state.tables.extend(table.await?);
        }
        Ok(state)
    }

    /// Returns all devices of the namespace with their indexes.
    pub async fn devices(&self) -> Result<BTreeMap<DeviceName, DeviceIndex>, KernelError> {
        let links = self.links().await?;
        let numbered = links.into_iter();
        Ok(numbered
            .map(|link| (link.name, DeviceIndex(link.index)))
            .inserted())
    }

    pub(crate) async fn links(&self) -> Result<Vec<Link>, KernelError> {
        let found = self
            .route
            .get(&link::list(), "listing network devices", false)
            .await?;
        Ok(found
            .iter()
            .filter_map(|payload| link::read(payload))
            .collect())
    }

    pub(crate) async fn observe_device(
        &self,
        link: &Link,
        qdiscs: &[Vec<u8>],
        scope: &Scope,
    ) -> Result<(Device, Option<HookPrograms>), KernelError> {
        let classes = self.classes(link.index).await?;
        let of_device = |payloads| -> Vec<Entry<'_>> { entries(payloads, link.index) };
        let own = of_device(qdiscs);
        let has_clsact = own.iter().any(|entry| entry.parent == TC_H_CLSACT);
        let mut root = decode::tree(&own, &of_device(&classes), &scope.stabs);
        if let Some(root) = &mut root
            && let Some(kit) = self.read_kit(link.index, &root.kind).await?
        {
            root.kind = QdiscKind::Kit(kit);
        }
        let rows = match &root {
            Some(root) => self.read_rows(link.index, &root.kind).await?,
            None => None,
        };
        // Only weirgate uses a kind with this name, whatever its rows contain.
        let named = rows.is_some();
        if let (Some(root), Some(rows)) = (&mut root, rows) {
            root.kind = rows;
        }
        if let Some(root) = &mut root {
            // The state has no types for filters and their chains.
            let mut parents = Vec::new();
            if !named {
                filter_parents(root, &mut parents);
            }
            let mut expressible =
                named || decode::is_expressible(root) && is_plannable(&link.name, root);
            for parent in parents {
                expressible =
                    expressible && self.chains(link.index, parent.as_u32()).await?.is_empty();
            }
            if !expressible {
                root.kind = self
                    .as_listed(link.index, &own, &classes, &root.kind)
                    .await?;
            }
        }
        let device = Device {
            owned_ifb: link.owned_ifb,
            offloads: None,
            root,
            origin: Origin::default(),
        };
        let hooks = if has_clsact && !link.owned_ifb {
            Some(self.hook_programs(link.index).await?)
        } else {
            None
        };
        Ok((device, hooks))
    }

    /// Reads weirgate's programs at the hooks of a device that has `clsact`.
    async fn hook_programs(&self, index: u32) -> Result<HookPrograms, KernelError> {
        let (mut hooks, found) = self.at_hooks(index).await?;
        for program in Program::ALL {
            let filters = found.of(program);
            if !filters.is_empty() {
                read_program(program, &filters, index, &mut hooks);
            }
        }
        Ok(hooks)
    }

    /// Lists the filters of a device's hooks; each with the parent of its hook ([`by_hook`]).
    pub(crate) async fn hook_filters(&self, index: u32) -> Result<Vec<Vec<u8>>, KernelError> {
        let [arrives, leaves] = CLSACT_PARENTS;
        let arrives = self.filters(index, arrives).await?;
        Ok(by_hook(arrives, self.filters(index, leaves).await?))
    }

    /// Lists the filters of a parent.
    pub(crate) async fn filters(
        &self,
        index: u32,
        parent: u32,
    ) -> Result<Vec<Vec<u8>>, KernelError> {
        let ask = tc::encode::message(RTM_GETTFILTER, 0, index, 0, parent);
        self.route.get(&ask, "listing filters", false).await
    }

    /// Lists the chains of a parent: those that have a filter, and those that were created
    /// explicitly.
    async fn chains(&self, index: u32, parent: u32) -> Result<Vec<Vec<u8>>, KernelError> {
        let ask = tc::encode::message(NlMsgType::RTM_GETCHAIN, 0, index, 0, parent);
        self.route.get(&ask, "listing chains", false).await
    }

    /// Returns a tree that the state cannot describe as it is listed, if that is enough to create
    /// it again.
    async fn as_listed(
        &self,
        index: u32,
        qdiscs: &[Entry<'_>],
        classes: &[Vec<u8>],
        kind: &QdiscKind,
    ) -> Result<QdiscKind, KernelError> {
        let classes = entries(classes, index);
        let mut points = Vec::new();
        for parent in listed::filter_parents(qdiscs, &classes) {
            points.push(FilterPoint {
                parent,
                chains: self.chains(index, parent).await?,
                filters: self.filters(index, parent).await?,
            });
        }
        Ok(match listed::tree(qdiscs, &classes, &points) {
            Some(listed) => QdiscKind::Listed(listed),
            None => QdiscKind::Other(kind.name().to_owned()),
        })
    }

    async fn observe_table(
        &self,
        netdev: bool,
        name: &str,
        by_index: &BTreeMap<u32, DeviceName>,
        known: Option<(&Table, &TableChange)>,
        handles: &mut Handles,
    ) -> Result<Option<Table>, KernelError> {
        let what = nft::label(netdev, name);
        let ask = |kind| nft::message(kind, 0, family(netdev));
        let tables = self.nft.get(&ask(NFT_MSG_GETTABLE), &what, false).await?;
        let exists = tables.iter().any(|payload| {
            let own = Attrs::after(payload, NFGENMSG).text(NFTA_TABLE_NAME);
            own.as_deref() == Some(name)
        });
        if !exists {
            return Ok(None);
        }
        let chains = self.nft.get(&ask(NFT_MSG_GETCHAIN), &what, false).await?;
        // With a table's name, the kernel lists the rules and sets of that table only.
        let of_table = |kind| {
            let mut message = ask(kind);
            message.append_attr_str(NFTA_TABLE_NAME, name);
            message
        };
        let rules = self
            .nft
            .get(&of_table(NFT_MSG_GETRULE), &what, false)
            .await?;
        let mut sets = Sets::default();
        for payload in self
            .nft
            .get(&of_table(NFT_MSG_GETSET), &what, false)
            .await?
        {
            let Some(found) = sets::listed(&payload, name) else {
                continue;
            };
            if let Some((before, change)) = known
                && sets::keep(&mut sets, &found, before, change)
            {
                continue;
            }
            let listing = |set: &str| sets::list(netdev, name, set);
            match found {
                Listed::Meter(set) => sets.own.push(set),
                Listed::Fixed {
                    name: set,
                    key,
                    interval,
                } => {
                    let elements = self.nft.get(&listing(&set), &what, false).await?;
                    sets.own.push(sets::fixed(set, key, interval, &elements));
                }
                Listed::Classes {
                    name: set,
                    key,
                    interval,
                } => {
                    let elements = self.nft.get(&listing(&set), &what, false).await?;
                    sets.own.push(sets::classes(set, key, interval, &elements));
                }
                Listed::Refreshed { name: set, key } => {
                    let elements = self.nft.get(&listing(&set), &what, false).await?;
                    sets.own.push(sets::refreshed(set, key, &elements));
                }
                Listed::Switch(chain) => {
                    let map = listing(&switch_name(&chain));
                    let elements = self.nft.get(&map, &what, false).await?;
                    sets.switches.insert(chain, sets::is_on(netdev, &elements));
                }
                Listed::Other(set) => {
                    let elements = self.nft.get(&listing(&set), &what, false).await?;
                    let elements = sets::elements(&elements);
                    let known = ConstantSet::ALL
                        .into_iter()
                        .find(|known| known.name() == set);
                    let right = known.filter(|known| known.elements() == elements);
                    sets.constants.extend(right);
                }
            }
        }
        let device = |index| by_index.get(&index).cloned();
        let table = nft::decode::table(netdev, name, &chains, &rules, sets, device);
        handle::learn(handles, &table, &rules);
        Ok(Some(table))
    }
}

/// Finds where the kernel runs filters of a tree: at its qdiscs, and at classes with children
/// (`htb_classify`, net/sched/sch_htb.c).
fn filter_parents(qdisc: &Qdisc, found: &mut Vec<Handle>) {
    // Plain queues have no classes, and so no filters (`tc_dump_tfilter`, net/sched/cls_api.c).
    if matches!(
        qdisc.kind,
        QdiscKind::Pfifo(_) | QdiscKind::Bfifo(_) | QdiscKind::Fq(_) | QdiscKind::Kit(_)
    ) {
        return;
    }
    found.push(qdisc.handle);
    if let QdiscKind::Htb(htb) = &qdisc.kind {
        let parents: BTreeSet<Handle> = htb.classes.iter().map(|class| class.parent).inserted();
        found.extend(parents.into_iter().filter(|parent| parent.minor != 0));
        for leaf in htb.classes.iter().filter_map(|class| class.leaf.as_ref()) {
            filter_parents(leaf, found);
        }
    }
}

pub(crate) fn entries(payloads: &[Vec<u8>], index: u32) -> Vec<Entry<'_>> {
    payloads
        .iter()
        .filter_map(|payload| Entry::of(payload))
        .filter(|entry| entry.ifindex == index)
        .collect()
}
