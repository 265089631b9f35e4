// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons against a plan, before it touches a kernel: a desired state that no kernel could hold,
//! and objects of other programs in the observed state.

use crate::Options;
use crate::diff::tree;
use crate::model::{kit, rows, settle};
use std::collections::BTreeSet;
use weirgate_state::{
    Device, DeviceName, Hook, Htb, Kit, Origin, Qdisc, QdiscKind, Rows, State, Table,
};
use weirgate_units::Handle;

/// Occurs when no plan can be made; nothing has been changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {object}: {what} ({hint})")]
pub struct Problem {
    /// `K301` no such device, `K302` another program's root qdisc, `K303` another program's device
    /// with an IFB's name, `K304` a desired state that no kernel could hold, `K306` another
    /// program's table.
    pub code: &'static str,
    /// The device, class or table.
    pub object: String,
    /// What is wrong.
    pub what: String,
    /// The correction.
    pub hint: String,
    /// The policy line behind the object.
    pub origin: Origin,
}

/// Returns every problem of the pair of states, in the order of devices and tables.
pub fn problems(observed: &State, desired: &State, options: &Options) -> Vec<Problem> {
    let mut found = Found(Vec::new());
    for (name, device) in &desired.devices {
        found.ownership(name, device, observed, options);
        if let Some(root) = &device.root {
            let mut handles = BTreeSet::new();
            let mut position = Position {
                device: name,
                at_root: true,
            };
            found.qdisc(&mut position, root, &mut handles);
        }
    }
    for table in &desired.tables {
        found.table(table, desired);
        found.table_ownership(table, observed, options);
    }
    found.0
}

/// Returns whether weirgate created the root qdisc of an observed device. It did if the device is
/// its own IFB, or the caller remembers the qdisc. It also did if one of weirgate's tables names
/// the device, and the root is an HTB, or a cake or a shaper of the kit with weirgate's handle.
fn is_ours(name: &DeviceName, root: &Qdisc, observed: &State, previous: Option<&State>) -> bool {
    let own_ifb = observed.devices.get(name).is_some_and(|d| d.owned_ifb);
    let remembered = previous
        .and_then(|state| state.devices.get(name))
        .and_then(|device| device.root.as_ref())
        .is_some_and(|known| known.handle == root.handle && known.kind.name() == root.kind.name());
    // Nobody else gives a cake the handle 1: by default.
    let of_kind = match &root.kind {
        QdiscKind::Htb(_) => true,
        QdiscKind::Cake(_) | QdiscKind::Rows(_) => root.handle == Handle::new(1, 0),
        QdiscKind::Kit(kit) => root.handle == kit.handle(),
        _ => false,
    };
    let marked = of_kind
        && observed
            .tables
            .iter()
            .any(|table| table.devices().any(|device| device == name));
    own_ifb || remembered || marked
}

/// Returns the root qdisc of a device that the `desired` device replaces or deletes, if another
/// program made it. `previous` is the state that weirgate applied last.
#[must_use]
pub fn foreign_root<'a>(
    name: &DeviceName,
    desired: &Device,
    observed: &'a State,
    previous: Option<&State>,
) -> Option<&'a Qdisc> {
    let root = observed.devices.get(name)?.root.as_ref()?;
    let wanted = desired.root.as_ref();
    let stays = wanted
        .is_some_and(|wanted| tree::same(Some(&settle::qdisc(wanted, Some(root))), Some(root)));
    (!stays && !is_ours(name, root, observed, previous)).then_some(root)
}

/// Returns whether the tree could be created again as it was read: the state can describe all of
/// it, and the slots of the size table are known.
pub fn can_be_made(qdisc: &Qdisc) -> bool {
    let table_is_known = qdisc.stab.as_ref().is_none_or(|stab| !stab.data.is_empty());
    table_is_known
        && match &qdisc.kind {
            QdiscKind::Other(_) => false,
            QdiscKind::Htb(htb) => htb
                .classes
                .iter()
                .filter_map(|class| class.leaf.as_ref())
                .all(|leaf| can_be_made(leaf)),
            _ => true,
        }
}

/// Returns whether a plan could put a tree on a device, apart from its size table. Trees of other
/// programs may break weirgate's rules: for example by an HTB without a default class.
#[must_use]
pub fn is_plannable(device: &DeviceName, root: &Qdisc) -> bool {
    let bare = Qdisc {
        stab: None,
        ..root.clone()
    };
    let mut found = Found(Vec::new());
    let mut position = Position {
        device,
        at_root: true,
    };
    found.qdisc(&mut position, &bare, &mut BTreeSet::new());
    found.0.is_empty()
}

struct Position<'a> {
    device: &'a DeviceName,
    at_root: bool,
}

struct Found(Vec<Problem>);

impl Found {
    fn add(
        &mut self,
        code: &'static str,
        object: &dyn ToString,
        origin: &Origin,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.0.push(Problem {
            code,
            object: object.to_string(),
            what: what.into(),
            hint: hint.into(),
            origin: origin.clone(),
        });
    }

    fn ownership(
        &mut self,
        name: &DeviceName,
        device: &Device,
        observed: &State,
        options: &Options,
    ) {
        let Some(seen) = observed.devices.get(name) else {
            if !device.owned_ifb {
                self.add(
                    "K301",
                    name,
                    &device.origin,
                    "there is no such network device",
                    "`ip link` lists those that exist",
                );
            }
            return;
        };
        if device.owned_ifb && !seen.owned_ifb {
            self.add(
                "K303",
                name,
                &device.origin,
                "a device of this name exists and is not an IFB that weirgate made",
                "give the IFB another name, or remove that device",
            );
        }
        if options.replace_foreign {
            return;
        }
        let Some(root) = foreign_root(name, device, observed, options.previous) else {
            return;
        };
        self.add(
            "K302",
            name,
            &device.origin,
            format!(
                "its root qdisc {} {} is neither weirgate's nor the kernel's default",
                root.kind.name(),
                root.handle
            ),
            "remove it, or let it be replaced: `weirgate apply --adopt`",
        );
    }

    /// Reports a table with weirgate's name that is not weirgate's. A table is weirgate's if it is
    /// remembered, if the comment of a rule names a policy line, if it has one of weirgate's
    /// chains, or if it has no rules. A table that is already as wanted may be anybody's.
    fn table_ownership(&mut self, wanted: &Table, observed: &State, options: &Options) {
        let of_name = |table: &&Table| table.netdev == wanted.netdev && table.name == wanted.name;
        let Some(seen) = observed.tables.iter().find(of_name) else {
            return;
        };
        let remembered = options
            .previous
            .is_some_and(|state| state.tables.iter().any(|table| of_name(&table)));
        let mut rules = seen.chains.iter().flat_map(|chain| &chain.rules).peekable();
        let nothing = rules.peek().is_none();
        let chained = seen
            .chains
            .iter()
            .any(|chain| wanted.chains.iter().any(|own| own.name == chain.name));
        let ours = remembered || nothing || chained || rules.any(|rule| rule.origin.line > 0);
        if ours || options.replace_foreign || seen.canonical() == wanted.canonical() {
            return;
        }
        let family = if wanted.netdev { "netdev" } else { "inet" };
        self.add(
            "K306",
            &format!("table {family} {}", wanted.name),
            &Origin::default(),
            "a table of this name exists, and none of its rules is weirgate's",
            "rename or remove it, or allow its replacement explicitly",
        );
    }

    fn qdisc(
        &mut self,
        position: &mut Position<'_>,
        qdisc: &Qdisc,
        handles: &mut BTreeSet<Handle>,
    ) {
        let label = format!("{} qdisc {}", position.device, qdisc.handle);
        let origin = &qdisc.origin;
        if qdisc.handle.minor != 0 || qdisc.handle.major == 0 {
            self.add(
                "K304",
                &label,
                origin,
                "this is no qdisc's handle",
                "a qdisc's handle is 1: to ffff:",
            );
        }
        if !handles.insert(qdisc.handle) {
            self.add(
                "K304",
                &label,
                origin,
                "two qdiscs of the device have this handle",
                "give each its own",
            );
        }
        if qdisc.stab.as_ref().is_some_and(|stab| stab.data.is_empty()) {
            self.add(
                "K304",
                &label,
                origin,
                "its size table has no slots, because its content is not known",
                "the kernel never shows a table; only the applied state has it",
            );
        }
        if qdisc.stab.is_some() && !position.at_root {
            self.add(
                "K304",
                &label,
                origin,
                "a size table below the root has no effect",
                "give it to the root",
            );
        }
        match &qdisc.kind {
            QdiscKind::Other(name) => self.add(
                "K304",
                &label,
                origin,
                format!("weirgate cannot make a qdisc `{name}` with the settings it had"),
                "use htb, fq_codel, sfq, fq, pfifo, bfifo, red or cake",
            ),
            QdiscKind::Listed(_) if position.at_root => {}
            QdiscKind::Listed(listed) => self.add(
                "K304",
                &label,
                origin,
                format!("a tree of `{}` that was listed is a device's", listed.name),
                "put it at the root",
            ),
            QdiscKind::Htb(htb) => self.htb(position, qdisc, htb, handles),
            QdiscKind::Sfq(_)
            | QdiscKind::Fq(_)
            | QdiscKind::FqCodel(_)
            | QdiscKind::Pfifo(_)
            | QdiscKind::Bfifo(_)
            | QdiscKind::Red(_)
            | QdiscKind::Cake(_) => {}
            QdiscKind::Kit(kit) => self.kit(position, qdisc, kit),
            QdiscKind::Rows(rows) => self.rows(position, qdisc, rows),
        }
    }

    fn rows(&mut self, position: &Position<'_>, qdisc: &Qdisc, tree: &Rows) {
        let label = format!("{} qdisc {}", position.device, qdisc.handle);
        if !position.at_root {
            let what = "the engine of rows works at a root only";
            self.add("K304", &label, &qdisc.origin, what, "put it at the root");
        }
        for (node, what, hint) in rows::faults(tree) {
            match node {
                None => self.add("K304", &label, &qdisc.origin, what, hint),
                Some(node) => {
                    let label = format!("{} class {}", position.device, node.id);
                    self.add("K304", &label, &node.origin, what, hint);
                }
            }
        }
    }

    fn kit(&mut self, position: &Position<'_>, qdisc: &Qdisc, kit: &Kit) {
        let label = format!("{} qdisc {}", position.device, qdisc.handle);
        if !position.at_root {
            let what = "the kit's shaper works at a root only";
            self.add("K304", &label, &qdisc.origin, what, "put it at the root");
        }
        for (class, what, hint) in kit::faults(kit) {
            match class {
                None => self.add("K304", &label, &qdisc.origin, what, hint),
                Some(class) => {
                    let label = format!("{} class {}", position.device, class.id);
                    self.add("K304", &label, &class.origin, what, hint);
                }
            }
        }
    }

    fn htb(
        &mut self,
        position: &mut Position<'_>,
        qdisc: &Qdisc,
        htb: &Htb,
        handles: &mut BTreeSet<Handle>,
    ) {
        position.at_root = false;
        if htb.default_minor == 0 {
            self.add(
                "K304",
                &format!("{} qdisc {}", position.device, qdisc.handle),
                &qdisc.origin,
                "unclassified packets would bypass the shaper",
                "name a default class",
            );
        }
        let mut ids = BTreeSet::new();
        for class in tree::parents_first(htb) {
            let parent_is_known = class.parent == qdisc.handle || ids.contains(&class.parent);
            let faults: [(bool, &str, &str); 6] = [
                (
                    class.id.major != qdisc.handle.major || class.id.minor == 0,
                    "its id does not belong to the qdisc",
                    "the major number is the qdisc's, the minor number not 0",
                ),
                (
                    !ids.insert(class.id),
                    "two classes have this id",
                    "give each its own",
                ),
                (
                    !parent_is_known,
                    "its parent does not exist",
                    "the parent is the qdisc or another of its classes",
                ),
                (
                    class.rate.as_bytes_per_second() == 0,
                    "a rate under 8 bit/s is 0 to the kernel",
                    "give it at least 8bit",
                ),
                (
                    class.ceil < class.rate,
                    "its ceiling is below its rate",
                    "raise the ceiling or lower the rate",
                ),
                (
                    class.leaf.is_some() && settle::is_inner(htb, class),
                    "a class with children has no queue of its own",
                    "put the queue into a child",
                ),
            ];
            for (_, what, hint) in faults.iter().filter(|fault| fault.0) {
                let label = format!("{} class {}", position.device, class.id);
                self.add("K304", &label, &class.origin, *what, *hint);
            }
            if let Some(leaf) = &class.leaf {
                self.qdisc(position, leaf, handles);
            }
        }
    }

    fn table(&mut self, table: &Table, desired: &State) {
        let name = crate::text::nft::table_name(table.netdev, &table.name);
        for chain in &table.chains {
            let label = format!("table {name} chain {}", chain.name);
            let none = Origin::default();
            match &chain.hook {
                Hook::Postrouting { .. } | Hook::Prerouting | Hook::Output if table.netdev => self
                    .add(
                        "K304",
                        &label,
                        &none,
                        "a netdev table has no hook at routing",
                        "put the chain into an inet table",
                    ),
                Hook::Other(text) => self.add(
                    "K304",
                    &label,
                    &none,
                    format!("weirgate cannot hang a chain at {text}"),
                    "use postrouting or ingress",
                ),
                Hook::Egress { .. } if !table.netdev => self.add(
                    "K304",
                    &label,
                    &none,
                    "a device's egress is a netdev table's place only",
                    "put the chain into a netdev table",
                ),
                Hook::Ingress { .. } if !table.netdev => self.add(
                    "K304",
                    &label,
                    &none,
                    "packets can be redirected by a netdev table only",
                    "put the chain into a netdev table",
                ),
                Hook::Ingress { redirect_to, .. }
                    if !desired
                        .devices
                        .get(redirect_to)
                        .is_some_and(|device| device.owned_ifb) =>
                {
                    self.add(
                        "K304",
                        &label,
                        &none,
                        format!("it redirects to {redirect_to}, which is no IFB of this state"),
                        "add the IFB device",
                    );
                }
                Hook::Postrouting { .. }
                | Hook::Prerouting
                | Hook::Output
                | Hook::Egress { .. }
                | Hook::Ingress { .. }
                | Hook::Called
                | Hook::Switched { .. } => {}
            }
        }
        for (object, rule, wrong, right) in table.faults() {
            let label = format!("table {name} {object}");
            self.add("K304", &label, &rule.origin, wrong, right);
        }
    }
}
