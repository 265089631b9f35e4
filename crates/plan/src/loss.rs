// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a plan removes for good: qdiscs of other programs that the state names but cannot describe,
//! so that no plan can create them again.

use crate::action::{Action, QdiscParent};
use crate::{Plan, check};
use std::fmt;
use weirgate_state::{DeviceName, HtbClass, Qdisc, QdiscKind};
use weirgate_units::Handle;

/// A loss on a device that a rollback cannot restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The device.
    pub device: DeviceName,
    /// Every lost object, in words.
    pub objects: Vec<String>,
    /// The objects about which the state knows too little to create them again.
    pub unknown: Vec<String>,
}

impl Loss {
    /// Returns what is lost with this tree; `None` if it can be created again.
    pub fn of(device: &DeviceName, tree: &Qdisc) -> Option<Self> {
        if check::can_be_made(tree) {
            return None;
        }
        let mut loss = Self {
            device: device.clone(),
            objects: Vec::new(),
            unknown: Vec::new(),
        };
        loss.add(tree);
        Some(loss)
    }

    /// Returns the loss of a size table whose slots are unknown, because the kernel does not show
    /// them.
    fn of_table(device: &DeviceName, root: &Qdisc) -> Option<Self> {
        let unknown = root.stab.as_ref()?.data.is_empty();
        let name = size_table(root);
        unknown.then(|| Self {
            device: device.clone(),
            objects: vec![name.clone()],
            unknown: vec![name],
        })
    }

    fn add(&mut self, qdisc: &Qdisc) {
        let name = format!("qdisc {} {}", qdisc.kind.name(), qdisc.handle);
        if qdisc.stab.as_ref().is_some_and(|stab| stab.data.is_empty()) {
            self.unknown.push(size_table(qdisc));
        }
        match &qdisc.kind {
            QdiscKind::Other(_) => {
                self.objects.push(format!("{name} and all below it"));
                let whole = format!("{name} with the settings, classes and filters that it has");
                self.unknown.push(whole);
            }
            QdiscKind::Htb(htb) => {
                self.objects.push(name);
                for class in &htb.classes {
                    self.objects.push(format!("class {}", class.id));
                    class.leaf.iter().for_each(|leaf| self.add(leaf));
                }
            }
            _ => self.objects.push(name),
        }
    }
}

fn size_table(root: &Qdisc) -> String {
    format!(
        "the size table of qdisc {} {}",
        root.kind.name(),
        root.handle
    )
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (device, objects) = (&self.device, self.objects.join(", "));
        let unknown = self.unknown.join(" and ");
        write!(
            f,
            "K305: {device}: this is lost: {objects}; weirgate cannot recreate {unknown}, so \
             neither `remove` nor a return after a failure restores it (save the output of `tc \
             -d qdisc show dev {device}`, `tc -d class show dev {device}` and `tc filter show \
             dev {device}`)"
        )
    }
}

impl Plan {
    /// Returns what the steps remove and no other plan can restore.
    pub fn losses(&self) -> Vec<Loss> {
        let gone = |action: &Action| {
            if self.follows(action) {
                return None;
            }
            let device = action.device()?;
            let root = self.before.devices.get(device)?.root.as_ref()?;
            match action {
                Action::ReplaceQdisc { parent, .. } => match parent {
                    QdiscParent::Root => Loss::of(device, root),
                    QdiscParent::Class(id) => Loss::of(device, class(root, *id)?.leaf.as_ref()?),
                },
                Action::DeleteQdisc { handle, .. } => Loss::of(device, find(root, *handle)?),
                Action::DeleteClass { id, .. } => {
                    Loss::of(device, class(root, *id)?.leaf.as_ref()?)
                }
                Action::ChangeStab { .. } => Loss::of_table(device, root),
                _ => None,
            }
        };
        let actions = self.steps.iter().map(|step| &step.action);
        actions.filter_map(gone).collect()
    }
}

/// Returns every class below a qdisc.
fn classes(qdisc: &Qdisc) -> &[HtbClass] {
    match &qdisc.kind {
        QdiscKind::Htb(htb) => &htb.classes,
        _ => &[],
    }
}

fn leaves(qdisc: &Qdisc) -> impl Iterator<Item = &Qdisc> {
    classes(qdisc)
        .iter()
        .filter_map(|class| class.leaf.as_deref())
}

fn find(qdisc: &Qdisc, handle: Handle) -> Option<&Qdisc> {
    if qdisc.handle == handle {
        return Some(qdisc);
    }
    leaves(qdisc).find_map(|leaf| find(leaf, handle))
}

fn class(qdisc: &Qdisc, id: Handle) -> Option<&HtbClass> {
    let own = classes(qdisc).iter().find(|class| class.id == id);
    own.or_else(|| leaves(qdisc).find_map(|leaf| class(leaf, id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, plan_with};
    use weirgate_state::{Device, Htb, Origin, Pfifo, Stab, State};
    use weirgate_units::{Rate, Span};

    fn qdisc(major: u16, kind: QdiscKind) -> Qdisc {
        Qdisc {
            handle: Handle::new(major, 0),
            stab: None,
            kind,
            origin: Origin::default(),
        }
    }

    fn other(major: u16) -> Qdisc {
        qdisc(major, QdiscKind::Other("tbf".into()))
    }

    fn pfifo(major: u16) -> Qdisc {
        qdisc(major, QdiscKind::Pfifo(Pfifo { limit: 9 }))
    }

    /// Returns an HTB qdisc `1:` whose classes have these queues.
    fn htb(leaves: Vec<Qdisc>) -> Qdisc {
        let class = |(index, leaf)| HtbClass {
            id: Handle::new(1, index),
            parent: Handle::new(1, 0),
            rate: Rate::kbit(9),
            ceil: Rate::kbit(9),
            buffer: Span::from_micros(1),
            cbuffer: Span::from_micros(1),
            prio: 0,
            quantum: 1_500,
            leaf: Some(Box::new(leaf)),
            origin: Origin::default(),
        };
        let classes = (1..).zip(leaves).map(class).collect();
        qdisc(
            1,
            QdiscKind::Htb(Htb {
                default_minor: 1,
                r2q: 10,
                direct: None,
                classes,
            }),
        )
    }

    fn table(slots: &[u16]) -> Stab {
        Stab {
            overhead: 0,
            cell_align: 0,
            cell_log: 0,
            size_log: 0,
            mpu: 0,
            mtu: 100,
            data: slots.to_vec(),
        }
    }

    /// Returns the losses on `wan` from one root to another.
    fn losses(before: Qdisc, after: Option<Qdisc>) -> Vec<Loss> {
        let state = |root| State {
            devices: [(
                DeviceName::new("wan").unwrap(),
                Device {
                    owned_ifb: false,
                    offloads: None,
                    root,
                    origin: Origin::default(),
                },
            )]
            .into(),
            tables: Vec::new(),
            ..State::default()
        };
        let options = Options {
            previous: None,
            replace_foreign: true,
        };
        let plan = plan_with(&state(Some(before)), &state(after), &options).unwrap();
        plan.losses()
    }

    fn objects(losses: &[Loss]) -> Vec<String> {
        losses.iter().map(|loss| loss.objects.join(", ")).collect()
    }

    #[test]
    fn a_root_that_the_state_cannot_express() {
        for after in [None, Some(htb(vec![pfifo(2)])), Some(pfifo(5))] {
            let found = losses(other(5), after);
            assert_eq!(objects(&found), ["qdisc tbf 5: and all below it"]);
            assert!(found[0].to_string().starts_with("K305: wan: this is lost"));
        }
    }

    #[test]
    fn what_can_be_made_again_is_no_loss() {
        assert_eq!(losses(pfifo(5), Some(htb(vec![pfifo(2)]))), []);
        assert_eq!(losses(htb(vec![pfifo(2)]), None), []);
    }

    #[test]
    fn one_queue_takes_the_whole_tree_along() {
        let found = losses(htb(vec![pfifo(2), other(3)]), Some(pfifo(4)));
        assert_eq!(
            objects(&found),
            ["qdisc htb 1:, class 1:1, qdisc pfifo 2:, class 1:2, qdisc tbf 3: and all below it"]
        );
        let unknown = "qdisc tbf 3: with the settings, classes and filters that it has";
        assert_eq!(found[0].unknown, [unknown]);
    }

    #[test]
    fn a_queue_inside_a_tree_that_stays() {
        let before = || htb(vec![pfifo(2), other(3)]);
        let lost = ["qdisc tbf 3: and all below it"];
        let exchanged = losses(before(), Some(htb(vec![pfifo(2), pfifo(4)])));
        assert_eq!(objects(&exchanged), lost);
        let class_gone = losses(before(), Some(htb(vec![pfifo(2)])));
        assert_eq!(objects(&class_gone), lost);
    }

    #[test]
    fn a_size_table_that_nobody_remembers() {
        let with = |slots: &[u16]| Qdisc {
            stab: Some(table(slots)),
            ..htb(vec![pfifo(2)])
        };
        let lost = losses(with(&[]), Some(with(&[1, 2])));
        assert_eq!(objects(&lost), ["the size table of qdisc htb 1:"]);
        assert_eq!(losses(with(&[1, 3]), Some(with(&[1, 2]))), []);
        let unknown = &losses(with(&[]), None)[0].unknown;
        assert_eq!(*unknown, ["the size table of qdisc htb 1:"]);
    }
}
