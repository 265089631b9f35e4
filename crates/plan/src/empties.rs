// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which steps drop queued packets; all other steps change queues in place.

use crate::Plan;
use crate::action::{Action, QdiscParent};
use crate::model::{kit, rows};
use weirgate_state::{HtbClass, Qdisc, QdiscKind};
use weirgate_units::Handle;

impl Plan {
    /// Says which queues a step of this plan empties: `dev_graft_qdisc` (net/sched/sch_generic.c)
    /// and `htb_delete` (net/sched/sch_htb.c) drop the packets of a queue that is removed. Returns
    /// `None` if no queue is removed that was there before the plan.
    #[must_use]
    pub fn empties(&self, action: &Action) -> Option<String> {
        if self.follows(action) {
            return None;
        }
        let device = action.device()?;
        let before = self.before.devices.get(device)?;
        let root = before.root.as_ref();
        let of_class = |id: Handle| {
            let class = class(root?, id)?;
            // A leaf class without a qdisc of its own has the kernel's default; an inner class has
            // no queue.
            let inner = classes(root?).iter().any(|other| other.parent == id);
            (!inner || class.leaf.is_some()).then(|| format!("empties the queue of class {id}"))
        };
        let of_device = || format!("empties the queues of {device}");
        let of_classes = |gone: &[Handle]| {
            let gone: Vec<String> = gone.iter().map(Handle::to_string).collect();
            let plural = if gone.len() == 1 {
                "queue of class"
            } else {
                "queues of classes"
            };
            (!gone.is_empty()).then(|| format!("empties the {plural} {}", gone.join(", ")))
        };
        match action {
            Action::DeleteIfb { .. } => Some(of_device()),
            // One program of the shaper takes over the queues of another.
            Action::ReplaceQdisc {
                parent: QdiscParent::Root,
                qdisc,
                ..
            } => match (root.map(|root| &root.kind), &qdisc.kind) {
                (Some(QdiscKind::Kit(was)), QdiscKind::Kit(kit)) => {
                    of_classes(&kit::emptied(was, kit))
                }
                _ => Some(of_device()),
            },
            Action::AddQdisc { parent, .. }
            | Action::ReplaceQdisc { parent, .. }
            | Action::DeleteQdisc { parent, .. } => match parent {
                QdiscParent::Root => Some(of_device()),
                QdiscParent::Class(id) => of_class(*id),
            },
            Action::DeleteClass { id, .. } => of_class(*id),
            Action::ChangeQdisc { qdisc, .. } => {
                let gone = match (&root?.kind, &qdisc.kind) {
                    (QdiscKind::Kit(was), QdiscKind::Kit(kit)) => kit::emptied(was, kit),
                    (QdiscKind::Rows(was), QdiscKind::Rows(rows)) => rows::emptied(was, rows),
                    _ => return None,
                };
                of_classes(&gone)
            }
            _ => None,
        }
    }
}

impl Plan {
    /// Returns whether an action replaces what an earlier action of the plan has put there. Then
    /// nothing of the state before can be lost.
    pub(crate) fn follows(&self, action: &Action) -> bool {
        let replaced = |action: &Action| match action {
            Action::ReplaceQdisc { device, parent, .. } => Some((device.clone(), *parent)),
            _ => None,
        };
        let Some(own) = replaced(action) else {
            return false;
        };
        let actions = self.steps.iter().map(|step| &step.action);
        let mut earlier = actions.take_while(|other| *other != action);
        earlier.any(|other| replaced(other).as_ref() == Some(&own))
    }
}

fn classes(qdisc: &Qdisc) -> Vec<&HtbClass> {
    let QdiscKind::Htb(htb) = &qdisc.kind else {
        return Vec::new();
    };
    let below = htb.classes.iter().filter_map(|class| class.leaf.as_ref());
    let below = below.flat_map(|leaf| classes(leaf));
    htb.classes.iter().chain(below).collect()
}

fn class(root: &Qdisc, id: Handle) -> Option<&HtbClass> {
    classes(root).into_iter().find(|class| class.id == id)
}

#[cfg(test)]
mod tests {
    use crate::{Options, plan_with};
    use weirgate_state::{
        Device, DeviceName, Htb, HtbClass, Origin, Pfifo, Qdisc, QdiscKind, State,
    };
    use weirgate_units::{Handle, Rate, Span};

    fn with(handle: Option<u16>, limit: u32) -> State {
        let device = Device {
            owned_ifb: false,
            offloads: None,
            root: handle.map(|major| Qdisc {
                handle: Handle::new(major, 0),
                stab: None,
                kind: QdiscKind::Pfifo(Pfifo { limit }),
                origin: Origin::default(),
            }),
            origin: Origin::default(),
        };
        State {
            devices: [(DeviceName::new("wan").unwrap(), device)].into(),
            ..State::default()
        }
    }

    fn losses(before: &State, after: &State) -> Vec<Option<String>> {
        // A plain queue at a root is not weirgate's.
        let options = Options {
            previous: None,
            replace_foreign: true,
        };
        let plan = plan_with(before, after, &options).unwrap();
        let steps = plan.steps.iter();
        steps.map(|step| plan.empties(&step.action)).collect()
    }

    /// A class without a qdisc of its own has the kernel's default, in which packets wait too.
    #[test]
    fn the_kernels_own_queue_of_a_class_is_reported() {
        let tree = |classes: &[u16]| {
            let class = |minor: &u16| HtbClass {
                id: Handle::new(1, *minor),
                parent: Handle::new(1, 0),
                rate: Rate::kbit(9),
                ceil: Rate::kbit(9),
                buffer: Span::ZERO,
                cbuffer: Span::ZERO,
                prio: 0,
                quantum: 1_500,
                leaf: None,
                origin: Origin::default(),
            };
            let htb = Htb {
                default_minor: 1,
                r2q: 10,
                direct: None,
                classes: classes.iter().map(class).collect(),
            };
            let mut state = with(Some(1), 0);
            for device in state.devices.values_mut() {
                if let Some(root) = &mut device.root {
                    root.kind = QdiscKind::Htb(htb.clone());
                }
            }
            state
        };
        assert_eq!(
            losses(&tree(&[1, 2]), &tree(&[1])),
            [Some("empties the queue of class 1:2".to_owned())]
        );
    }

    #[test]
    fn what_goes_is_told_and_what_stays_is_not() {
        let (none, one, other) = (with(None, 0), with(Some(1), 9), with(Some(1), 8));
        let emptied = Some("empties the queues of wan".to_owned());
        assert_eq!(losses(&none, &one), std::slice::from_ref(&emptied));
        assert_eq!(losses(&one, &none), [emptied]);
        assert_eq!(losses(&one, &other), [None]);
    }
}
