// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps from one device's tree of qdiscs and classes to another.
//!
//! What the kernel can change in place keeps its queue: class settings, qdisc settings, the root's
//! size table. Everything else is deleted and created again: HTB's default class and r2q, a class's
//! parent, a handle, sfq, fq_codel's number of flows. Deletions come first. If a handle were still
//! in use, the kernel would also attach the old qdisc at the new place (`__tc_modify_qdisc`,
//! net/sched/sch_api.c). A class that is deleted for good goes last, when no rule names it any
//! more.
//!
//! When a queue is deleted, the kernel's default qdisc takes its place. In place of a root or of a
//! scheduler, that would send packets unshaped or in the wrong order until the new one is there. So
//! a qdisc that shapes or schedules is replaced, and not deleted. If the new one has the same
//! handle, a [`closed`] one comes in between.

use crate::action::{Action, QdiscParent, Step};
use std::collections::BTreeSet;
use weirgate_state::{DeviceName, Htb, HtbClass, Origin, Qdisc, QdiscKind};
use weirgate_units::{Arrange as _, Handle, Inserted as _};

/// Appends the steps for a device's root. Steps that must wait until no rule names a class go to
/// `late`. `desired` is already settled against `observed`.
pub fn root(
    out: &mut Vec<Step>,
    late: &mut Vec<Step>,
    device: &DeviceName,
    observed: Option<&Qdisc>,
    desired: Option<&Qdisc>,
) {
    let wanted = desired.map(handles).unwrap_or_default();
    let taken = observed.map(handles).unwrap_or_default();
    let mut steps = Steps {
        out,
        late,
        wanted,
        taken,
        device,
    };
    match (observed, desired) {
        (None, None) => {}
        (Some(old), None) => steps.delete_qdisc(QdiscParent::Root, old),
        (None, Some(new)) => steps.build(QdiscParent::Root, new),
        (Some(old), Some(new)) if changeable(old, new) => {
            steps.deletions(old, new);
            steps.changes(QdiscParent::Root, old, new);
            if old.stab != new.stab {
                steps.push(
                    Action::ChangeStab {
                        device: device.clone(),
                        handle: new.handle,
                        stab: new.stab.clone(),
                    },
                    &new.origin,
                );
            }
        }
        (Some(old), Some(new)) => {
            if handles(old).contains(&new.handle) {
                steps.close(QdiscParent::Root, new);
            }
            steps.replace(QdiscParent::Root, new);
        }
    }
}

/// Returns a qdisc without its classes.
pub fn alone(qdisc: &Qdisc) -> Qdisc {
    let mut qdisc = qdisc.clone();
    if let QdiscKind::Htb(htb) = &mut qdisc.kind {
        htb.classes.clear();
    }
    qdisc
}

/// Returns an HTB without classes and with a direct queue of length 0: it can replace another
/// qdisc, and passes no packets.
fn closed(handle: Handle) -> Qdisc {
    Qdisc {
        handle,
        stab: None,
        kind: QdiscKind::Htb(Htb {
            default_minor: 0,
            r2q: 10,
            direct: Some(0),
            classes: Vec::new(),
        }),
        origin: Origin::default(),
    }
}

/// Returns whether one HTB replaces another within a device.
fn is_scheduler(old: &Qdisc, new: &Qdisc) -> bool {
    matches!(
        (&old.kind, &new.kind),
        (QdiscKind::Htb(_), QdiscKind::Htb(_))
    )
}

/// Returns a class without its leaf.
pub fn without_leaf(class: &HtbClass) -> HtbClass {
    HtbClass {
        leaf: None,
        ..class.clone()
    }
}

/// Returns classes with parents before children, otherwise in their own order.
pub fn parents_first(htb: &Htb) -> Vec<&HtbClass> {
    let mut sorted: Vec<&HtbClass> = Vec::with_capacity(htb.classes.len());
    let mut placed: BTreeSet<Handle> = BTreeSet::new();
    let known: BTreeSet<Handle> = htb.classes.iter().map(|class| class.id).inserted();
    let mut waiting: Vec<&HtbClass> = htb.classes.iter().collect();
    while !waiting.is_empty() {
        let (ready, rest): (Vec<&HtbClass>, Vec<&HtbClass>) = waiting
            .iter()
            .partition(|class| placed.contains(&class.parent) || !known.contains(&class.parent));
        if ready.is_empty() {
            // A cycle of parents: no kernel has one, and `check` refuses a desired one. The order
            // does not matter then.
            sorted.extend(rest);
            break;
        }
        placed.extend(ready.iter().map(|class| class.id));
        sorted.extend(ready);
        waiting = rest;
    }
    sorted
}

/// Returns whether the kernel can change `old` to `new` in place, apart from their classes.
fn changeable(old: &Qdisc, new: &Qdisc) -> bool {
    old.handle == new.handle
        && match (&old.kind, &new.kind) {
            (QdiscKind::Htb(a), QdiscKind::Htb(b)) => {
                (a.default_minor, a.r2q, a.direct) == (b.default_minor, b.r2q, b.direct)
            }
            // `fq_codel_change` refuses another number of flows.
            (QdiscKind::FqCodel(a), QdiscKind::FqCodel(b)) => a.flows == b.flows,
            // `sfq_qdisc_ops` has no change operation.
            (QdiscKind::Sfq(a), QdiscKind::Sfq(b)) => a == b,
            // It is restored as a whole, not changed.
            (QdiscKind::Listed(_) | QdiscKind::Other(_), _)
            | (_, QdiscKind::Listed(_) | QdiscKind::Other(_)) => false,
            (a, b) => a.name() == b.name(),
        }
}

/// Returns every qdisc handle of a tree.
pub fn handles(qdisc: &Qdisc) -> BTreeSet<Handle> {
    let mut all = BTreeSet::from([qdisc.handle]);
    match &qdisc.kind {
        QdiscKind::Htb(htb) => {
            for leaf in htb.classes.iter().filter_map(|class| class.leaf.as_ref()) {
                all.extend(handles(leaf));
            }
        }
        QdiscKind::Listed(listed) => all.extend(listed.handles().map(Handle::from_u32)),
        _ => {}
    }
    all
}

/// Returns the classes that stay: those below the same chain of parents in both trees.
fn kept(old: &Htb, new: &Htb) -> BTreeSet<Handle> {
    let mut kept = BTreeSet::new();
    for class in parents_first(old) {
        let twin = new.classes.iter().find(|other| other.id == class.id);
        let parent_is_class = old.classes.iter().any(|other| other.id == class.parent);
        if twin.is_some_and(|twin| twin.parent == class.parent)
            && (!parent_is_class || kept.contains(&class.parent))
        {
            kept.insert(class.id);
        }
    }
    kept
}

/// Returns whether a deleted class may wait until the end. Its id and the handles of its queues
/// must not be used again, and its parent must stay an inner class.
fn can_wait(class: &HtbClass, old: &Htb, new: &Htb, wanted: &BTreeSet<Handle>) -> bool {
    let mut family = BTreeSet::from([class.id]);
    for other in parents_first(old) {
        if family.contains(&other.parent) {
            family.insert(other.id);
        }
    }
    let in_family = |class: &&HtbClass| family.contains(&class.id);
    let used_again = new.classes.iter().any(|class| in_family(&class));
    let own = old.classes.iter().filter(in_family);
    let own: BTreeSet<Handle> = own
        .filter_map(|class| class.leaf.as_ref())
        .flat_map(|leaf| handles(leaf))
        .inserted();
    let stays_inner = find(new, class.parent)
        .is_none_or(|_| new.classes.iter().any(|other| other.parent == class.parent));
    let parent_stays = find(old, class.parent).is_none() || find(new, class.parent).is_some();
    !used_again && stays_inner && parent_stays && own.is_disjoint(wanted)
}

fn find(htb: &Htb, id: Handle) -> Option<&HtbClass> {
    htb.classes.iter().find(|class| class.id == id)
}

struct Steps<'a> {
    out: &'a mut Vec<Step>,
    late: &'a mut Vec<Step>,
    /// Every handle of the desired tree.
    wanted: BTreeSet<Handle>,
    /// Every handle of the present tree, and of the closed qdiscs.
    taken: BTreeSet<Handle>,
    device: &'a DeviceName,
}

impl Steps<'_> {
    fn push(&mut self, action: Action, origin: &Origin) {
        self.out.push(Step {
            action,
            origin: origin.clone(),
        });
    }

    fn delete_qdisc(&mut self, parent: QdiscParent, qdisc: &Qdisc) {
        self.push(
            Action::DeleteQdisc {
                device: self.device.clone(),
                parent,
                handle: qdisc.handle,
            },
            &Origin::default(),
        );
    }

    /// Replaces a qdisc by a closed one, because `new`, which comes next, uses a handle of the
    /// present tree.
    fn close(&mut self, parent: QdiscParent, new: &Qdisc) {
        // weirgate's trees do not use this range.
        let free = (4..u16::MAX).map(|major| Handle::new(major, 0));
        let used = |handle: &Handle| self.taken.contains(handle) || self.wanted.contains(handle);
        let Some(handle) = free.into_iter().find(|handle| !used(handle)) else {
            return;
        };
        self.taken.insert(handle);
        self.push(
            Action::ReplaceQdisc {
                device: self.device.clone(),
                parent,
                qdisc: closed(handle),
            },
            &Origin::new(
                new.origin.line,
                "lets nothing pass until the next one is there",
            ),
        );
    }

    /// Replaces a whole tree by another.
    fn replace(&mut self, parent: QdiscParent, qdisc: &Qdisc) {
        self.push(
            Action::ReplaceQdisc {
                device: self.device.clone(),
                parent,
                qdisc: alone(qdisc),
            },
            &qdisc.origin,
        );
        self.build_below(qdisc);
    }

    /// Deletes everything below `old` that does not stay. Children go before parents.
    fn deletions(&mut self, old: &Qdisc, new: &Qdisc) {
        let (QdiscKind::Htb(old), QdiscKind::Htb(new)) = (&old.kind, &new.kind) else {
            return;
        };
        let kept = kept(old, new);
        // All or none, so that a child never goes after its parent.
        let mut gone = old.classes.iter().filter(|class| !kept.contains(&class.id));
        let wait = gone.all(|class| can_wait(class, old, new, &self.wanted));
        for class in parents_first(old).into_iter().rev() {
            if !kept.contains(&class.id) {
                let step = Step {
                    action: Action::DeleteClass {
                        device: self.device.clone(),
                        id: class.id,
                    },
                    origin: Origin::default(),
                };
                if wait {
                    self.late.push(step);
                } else {
                    self.out.push(step);
                }
                continue;
            }
            let Some(leaf) = &class.leaf else { continue };
            match find(new, class.id).and_then(|class| class.leaf.as_ref()) {
                Some(next) if changeable(leaf, next) => self.deletions(leaf, next),
                Some(next) if is_scheduler(leaf, next) => {
                    self.close(QdiscParent::Class(class.id), next);
                }
                _ => self.delete_qdisc(QdiscParent::Class(class.id), leaf),
            }
        }
    }

    /// Changes `old` in place, then adds everything below that is new.
    fn changes(&mut self, parent: QdiscParent, old: &Qdisc, new: &Qdisc) {
        let (QdiscKind::Htb(before), QdiscKind::Htb(after)) = (&old.kind, &new.kind) else {
            if old.kind != new.kind {
                self.push(
                    Action::ChangeQdisc {
                        device: self.device.clone(),
                        parent,
                        qdisc: new.clone(),
                    },
                    &new.origin,
                );
            }
            return;
        };
        let kept = kept(before, after);
        for class in parents_first(after) {
            let own = kept.contains(&class.id);
            let Some(was) = find(before, class.id).filter(|_| own) else {
                self.build_class(class);
                continue;
            };
            if without_leaf(was) != without_leaf(class) {
                self.push(
                    Action::ChangeClass {
                        device: self.device.clone(),
                        class: without_leaf(class),
                    },
                    &class.origin,
                );
            }
            let parent = QdiscParent::Class(class.id);
            match (&was.leaf, &class.leaf) {
                (Some(was), Some(leaf)) if changeable(was, leaf) => {
                    self.changes(parent, was, leaf);
                }
                (Some(was), Some(leaf)) if is_scheduler(was, leaf) => self.replace(parent, leaf),
                (_, Some(leaf)) => self.build(parent, leaf),
                (_, None) => {}
            }
        }
    }

    /// Adds a whole tree in place of the kernel's default.
    fn build(&mut self, parent: QdiscParent, qdisc: &Qdisc) {
        self.push(
            Action::AddQdisc {
                device: self.device.clone(),
                parent,
                qdisc: alone(qdisc),
            },
            &qdisc.origin,
        );
        self.build_below(qdisc);
    }

    fn build_below(&mut self, qdisc: &Qdisc) {
        if let QdiscKind::Htb(htb) = &qdisc.kind {
            for class in parents_first(htb) {
                self.build_class(class);
            }
        }
    }

    fn build_class(&mut self, class: &HtbClass) {
        self.push(
            Action::AddClass {
                device: self.device.clone(),
                class: without_leaf(class),
            },
            &class.origin,
        );
        if let Some(leaf) = &class.leaf {
            self.build(QdiscParent::Class(class.id), leaf);
        }
    }
}

/// Returns whether two settled trees are equal, with classes in any order.
pub fn same(a: Option<&Qdisc>, b: Option<&Qdisc>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => sorted(a) == sorted(b),
        _ => false,
    }
}

/// Returns the tree with its classes in canonical order: parents first, then by id.
pub fn sorted(qdisc: &Qdisc) -> Qdisc {
    let mut qdisc = qdisc.clone();
    if let QdiscKind::Htb(htb) = &mut qdisc.kind {
        htb.classes.arrange_by_key(|class| class.id);
        htb.classes = parents_first(htb).into_iter().cloned().collect();
        for leaf in htb
            .classes
            .iter_mut()
            .filter_map(|class| class.leaf.as_mut())
        {
            **leaf = sorted(leaf);
        }
    }
    qdisc
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_units::{Rate, Span};

    fn class(id: u16, parent: u16) -> HtbClass {
        HtbClass {
            id: Handle::new(1, id),
            parent: Handle::new(1, parent),
            rate: Rate::kbit(1),
            ceil: Rate::kbit(1),
            buffer: Span::ZERO,
            cbuffer: Span::ZERO,
            prio: 0,
            quantum: 1500,
            leaf: None,
            origin: Origin::default(),
        }
    }

    fn htb(classes: Vec<HtbClass>) -> Htb {
        Htb {
            default_minor: 1,
            r2q: 10,
            direct: None,
            classes,
        }
    }

    #[test]
    fn a_class_below_a_moved_class_is_not_kept() {
        let old = htb(vec![class(1, 0), class(2, 0), class(3, 2), class(4, 3)]);
        let new = htb(vec![class(1, 0), class(2, 0), class(3, 1), class(4, 3)]);
        let kept: Vec<u16> = kept(&old, &new).iter().map(|id| id.minor).collect();
        assert_eq!(kept, [1, 2]);
    }

    /// Rules may lead to a class until their own step.
    #[test]
    fn a_class_that_goes_altogether_goes_last() {
        let tree = |classes| Qdisc {
            handle: Handle::new(1, 0),
            stab: None,
            kind: QdiscKind::Htb(htb(classes)),
            origin: Origin::default(),
        };
        let device = DeviceName::new("wan").unwrap();
        let gone =
            |step: &Step| matches!(&step.action, Action::DeleteClass { id, .. } if id.minor == 2);
        let steps = |new: Vec<HtbClass>| {
            let (mut out, mut late) = (Vec::new(), Vec::new());
            let old = tree(vec![class(1, 0), class(2, 0)]);
            root(&mut out, &mut late, &device, Some(&old), Some(&tree(new)));
            (out.iter().any(gone), late.iter().any(gone))
        };
        assert_eq!(steps(vec![class(1, 0)]), (false, true));
        // A class that returns below another parent is deleted first.
        assert_eq!(steps(vec![class(1, 0), class(2, 1)]), (true, false));
    }

    #[test]
    fn parents_come_first_whatever_the_ids() {
        let tree = htb(vec![class(1, 9), class(9, 0), class(5, 1)]);
        let order: Vec<u16> = parents_first(&tree).iter().map(|c| c.id.minor).collect();
        assert_eq!(order, [9, 1, 5]);
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let tree = htb(vec![class(1, 2), class(2, 1)]);
        assert_eq!(parents_first(&tree).len(), 2);
    }
}
