// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine of rows in a plan: its text, its mistakes, and which queues a change empties.

use crate::model::kit::acks;
use std::collections::{BTreeMap, BTreeSet};
use weirgate_state::{HostAddress, Rows, RowsNode, RowsRole};
use weirgate_units::{Handle, Inserted as _, Rate, Span};

/// Returns the leaves whose packets a change drops: those that are not leaves any more.
pub(crate) fn emptied(before: &Rows, after: &Rows) -> Vec<Handle> {
    let leaf = |node: &&RowsNode| node.role == RowsRole::Leaf;
    let kept: BTreeSet<Handle> = after.nodes.iter().filter(leaf).map(|one| one.id).inserted();
    let gone = before.nodes.iter().filter(leaf).map(|node| node.id);
    gone.filter(|id| !kept.contains(id)).collect()
}

/// Returns mistakes that no kernel could hold: the node, if one is concerned, the mistake, and the
/// correction.
pub(crate) fn faults(rows: &Rows) -> Vec<(Option<&RowsNode>, &'static str, &'static str)> {
    let mut faults = Vec::new();
    let nodes: BTreeMap<Handle, &RowsNode> =
        rows.nodes.iter().map(|node| (node.id, node)).inserted();
    let role = |id: Handle| nodes.get(&id).map(|node| node.role);
    if rows.gate.as_bytes_per_second() == 0 {
        faults.push((None, "a rate under 8 bit/s is 0", "give it at least 8bit"));
    }
    if role(rows.other) != Some(RowsRole::Leaf) {
        let what = "the leaf of unclassified packets does not exist";
        faults.push((None, what, "name one of its leaves"));
    }
    let levels = |node: &RowsNode| {
        let above = |id: &Handle| nodes.get(id).and_then(|node| node.parent);
        let parents = std::iter::successors(node.parent, above);
        parents.take(Rows::LEVELS).count()
    };
    let mut ids = BTreeSet::new();
    for node in &rows.nodes {
        let numbered = node.id.major == rows.other.major
            && (Rows::LINK + 1..=Rows::LAST).contains(&node.id.minor);
        let below = node
            .parent
            .is_none_or(|id| role(id) == Some(RowsRole::Inner));
        let capped = node.cap.is_none_or(|id| role(id) == Some(RowsRole::Cap));
        let own: [(bool, &str, &str); 9] = [
            (
                !numbered || !ids.insert(node.id),
                "two nodes have this id, or it is that of no row",
                "give each its own",
            ),
            (
                !below,
                "its parent has no nodes below it",
                "name one that has",
            ),
            (
                levels(node) + 2 > Rows::LEVELS,
                "the tree has more than eight levels",
                "put it higher",
            ),
            (!capped, "its cap is none", "name a cap"),
            (
                node.role == RowsRole::Cap && node.ceiling.is_none(),
                "a cap without a ceiling limits nothing",
                "state the ceiling",
            ),
            (
                node.hosts && (node.role != RowsRole::Leaf || node.parent.is_none()),
                "hosts have leaves beside it, and it is no leaf below a node",
                "put it below one of its own",
            ),
            (
                node.hosts && rows.hosts.is_none(),
                "nothing tells its hosts apart",
                "name the address of packets that does",
            ),
            (
                node.prio > 7,
                "its priority is above 7",
                "priorities are 0 to 7",
            ),
            (
                node.ceiling.is_some_and(|most| most < node.guarantee),
                "its ceiling is below its guarantee",
                "raise the ceiling or lower the guarantee",
            ),
        ];
        let found = own.into_iter().filter(|fault| fault.0);
        faults.extend(found.map(|(_, what, hint)| (Some(node), what, hint)));
    }
    faults
}

/// Returns the settings without the nodes, as text.
fn head(rows: &Rows) -> String {
    let marks = if rows.marks { " marks" } else { "" };
    let hosts = match rows.hosts {
        None => "",
        Some(HostAddress::Source) => " hosts source",
        Some(HostAddress::Destination) => " hosts destination",
    };
    format!(
        "{} rate {} {} mtu {} interval {} other {}{marks}{}{hosts}",
        Rows::KIND,
        rows.gate,
        rows.wire,
        rows.mtu,
        rows.interval,
        rows.other,
        acks(rows.acks)
    )
}

/// Returns a node in one line.
fn node(node: &RowsNode) -> String {
    let ceiling = node.ceiling.map(|most| format!(" ceiling {most}"));
    let ceiling = ceiling.unwrap_or_default();
    if node.role == RowsRole::Cap {
        return format!("cap {}{ceiling}", node.id);
    }
    let parent = node.parent.map(|id| format!(" parent {id}"));
    let cap = node.cap.map(|id| format!(" cap {id}"));
    let guarantee = if node.guarantee == Rate::default() {
        String::new()
    } else {
        let burst = match node.burst {
            0 => String::new(),
            own => format!(" burst {own}"),
        };
        format!(" guarantee {}{burst}", node.guarantee)
    };
    let queue = if node.role == RowsRole::Leaf {
        let target = match node.target {
            Span::ZERO => String::new(),
            own => format!(" target {own}"),
        };
        let hosts = if node.hosts { " hosts" } else { "" };
        format!("{target} limit {}{hosts}", node.limit)
    } else {
        String::new()
    };
    format!(
        "class {}{} prio {}{guarantee}{ceiling}{} quantum {}{queue}",
        node.id,
        parent.unwrap_or_default(),
        node.prio,
        cap.unwrap_or_default(),
        node.quantum
    )
}

/// Returns everything as text: its kind, its settings, its nodes.
pub(crate) fn text(rows: &Rows) -> String {
    let nodes: Vec<String> = rows.nodes.iter().map(node).collect();
    format!("{}, {}", head(rows), nodes.join(", "))
}

/// Returns the tree for a list of steps, with a line for each node and the policy's reasons.
pub(crate) fn listed(rows: &Rows) -> String {
    let line = |one: &RowsNode| {
        let why = match one.origin.reason.as_str() {
            "" => String::new(),
            _ => format!("  # {}", one.origin),
        };
        format!("\n    {}{why}", node(one))
    };
    let nodes: Vec<String> = rows.nodes.iter().map(line).collect();
    format!("{}{}", head(rows), nodes.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{CakeAckFilter, CakeFraming, KitWire, Origin};

    fn id(minor: u16) -> Handle {
        Handle::new(2, minor)
    }

    fn of(minor: u16, role: RowsRole) -> RowsNode {
        RowsNode {
            id: id(minor),
            role,
            parent: None,
            guarantee: Rate::default(),
            ceiling: (role == RowsRole::Cap).then(|| Rate::kbit(100)),
            cap: None,
            prio: 0,
            burst: 0,
            quantum: 1_514,
            target: Span::ZERO,
            limit: 0,
            hosts: false,
            origin: Origin::default(),
        }
    }

    fn tree(nodes: Vec<RowsNode>) -> Rows {
        Rows {
            gate: Rate::kbit(511),
            wire: KitWire {
                overhead: 14,
                mpu: 0,
                framing: CakeFraming::Atm,
            },
            mtu: 1_514,
            other: id(16),
            interval: Span::from_millis(100),
            marks: true,
            acks: CakeAckFilter::No,
            hosts: None,
            nodes,
        }
    }

    #[test]
    fn what_no_kernel_holds_is_reported() {
        let whole = vec![
            of(16, RowsRole::Leaf),
            of(17, RowsRole::Inner),
            RowsNode {
                parent: Some(id(17)),
                cap: Some(id(19)),
                ..of(18, RowsRole::Leaf)
            },
            of(19, RowsRole::Cap),
        ];
        assert_eq!(faults(&tree(whole.clone())), []);
        let wrong = |change: fn(&mut RowsNode)| {
            let mut all = whole.clone();
            change(&mut all[2]);
            faults(&tree(all)).len()
        };
        assert_eq!(wrong(|node| node.parent = Some(id(16))), 1);
        assert_eq!(wrong(|node| node.cap = Some(id(17))), 1);
        assert_eq!(wrong(|node| node.id = id(16)), 1);
        assert_eq!(wrong(|node| node.id = id(1)), 1);
        assert_eq!(wrong(|node| node.id = Handle::new(3, 18)), 1);
        assert_eq!(wrong(|node| node.prio = 8), 1);
        assert_eq!(wrong(|node| node.hosts = true), 1);
        let mut by_host = tree(whole.clone());
        by_host.hosts = Some(HostAddress::Source);
        by_host.nodes[2].hosts = true;
        assert_eq!(faults(&by_host), []);
        // A leaf directly below the link would have its hosts beside classes.
        by_host.nodes[0].hosts = true;
        assert_eq!(faults(&by_host).len(), 1);
        let mut none = tree(vec![of(17, RowsRole::Leaf)]);
        none.gate = Rate::default();
        assert_eq!(faults(&none).len(), 2);
        let mut deep = vec![of(16, RowsRole::Leaf), of(20, RowsRole::Inner)];
        deep.extend((21..28).map(|minor| RowsNode {
            parent: Some(id(minor - 1)),
            ..of(minor, RowsRole::Inner)
        }));
        assert_eq!(faults(&tree(deep)).len(), 1);
    }

    #[test]
    fn only_a_leaf_that_goes_is_emptied() {
        let before = tree(vec![of(16, RowsRole::Leaf), of(17, RowsRole::Leaf)]);
        let mut after = before.clone();
        after.nodes[0].parent = Some(id(20));
        after.nodes.push(of(20, RowsRole::Inner));
        assert_eq!(emptied(&before, &after), []);
        after.nodes.remove(1);
        assert_eq!(emptied(&before, &after), [id(17)]);
    }
}
