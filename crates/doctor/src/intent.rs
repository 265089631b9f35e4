// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel features that a policy needs.

use std::collections::BTreeSet;
use weirgate_policy::{Connection, Count, LocalAddresses, Policy};
use weirgate_state::{Ability, Capabilities, Machine, Presence, Program, Qdisc, QdiscKind, State};
use weirgate_units::Inserted as _;

/// Returns what `apply` finds on this machine, of what this build can use at most. A feature that
/// was not seen counts as present.
#[must_use]
pub fn offered(machine: &Machine, most: &Capabilities) -> Capabilities {
    let has = |ability| machine.abilities.get(&ability) != Some(&Presence::Absent);
    let mut found = most.clone();
    found.release.clone_from(&machine.release);
    for (kind, ability) in [
        ("htb", Ability::Htb),
        ("fq_codel", Ability::FqCodel),
        ("sfq", Ability::Sfq),
        ("fq", Ability::Fq),
        ("red", Ability::Red),
        ("cake", Ability::Cake),
    ] {
        if !has(ability) {
            found.qdiscs.remove(kind);
        }
    }
    found.ifb &= has(Ability::Ifb);
    found.nft_ingress_forward &= has(Ability::NftForward);
    found.restore_marks &= has(Ability::Ctinfo);
    found.payload &= has(Ability::ClsBpf);
    found.kit &= has(Ability::BpfQdisc) && has(Ability::Btf);
    found
}

/// Returns the kernel features that a policy needs for its compiled state and its rules.
#[must_use]
pub fn needs(policy: &Policy, desired: &State) -> BTreeSet<Ability> {
    let mut needed = BTreeSet::new();
    for device in desired.devices.values() {
        if device.owned_ifb {
            needed.insert(Ability::Ifb);
        }
        if let Some(root) = &device.root {
            of_tree(root, &mut needed);
        }
    }
    for table in &desired.tables {
        needed.insert(Ability::NfTables);
        if table.netdev {
            needed.insert(Ability::NftForward);
        }
    }
    for hooks in desired.hooks.values() {
        if Program::ALL.into_iter().any(|program| hooks.has(program)) {
            needed.insert(Ability::ClsBpf);
        }
        if hooks.restore.is_some() {
            needed.insert(Ability::Ctinfo);
        }
    }
    for rule in &policy.rules {
        match rule.meter.as_ref().map(|meter| meter.value.count) {
            Some(Count::Connections(_)) => needed.insert(Ability::NftConnections),
            Some(_) => needed.insert(Ability::NftLimit),
            None => false,
        };
        let tracked = rule.find::<Connection>().next().is_some();
        if tracked || rule.keep.is_some() {
            needed.insert(Ability::NftConntrack);
        }
        let helpers = rule.find::<Connection>();
        let mut helpers = helpers.filter_map(|connection| connection.helper.as_ref());
        if helpers.any(|helper| helper.value == "ftp") {
            needed.insert(Ability::FtpHelper);
        }
    }
    needed
}

/// Returns the line of the first rule that depends on the amount of data of a connection.
pub(crate) fn counts_connections(policy: &Policy) -> Option<u32> {
    let counting = |asked: &Connection| {
        asked.bytes_over.is_some() || asked.packets_over.is_some() || asked.mean_size.is_some()
    };
    let mut rules = policy.rules.iter();
    rules
        .find(|rule| rule.find().any(counting))
        .map(|rule| rule.line)
}

/// Returns how many inside hosts the rules name: the addresses of prefixes with at most 256.
pub(crate) fn named_hosts(policy: &Policy) -> u64 {
    let prefixes: BTreeSet<(std::net::IpAddr, u32)> = policy
        .rules
        .iter()
        .flat_map(|rule| rule.asked().chain(&rule.never))
        .filter_map(|when| when.find())
        .flat_map(|LocalAddresses(list)| list)
        .filter_map(|prefix| {
            let prefix = prefix.value;
            let width: u32 = if prefix.address.is_ipv4() { 32 } else { 128 };
            let free = width.saturating_sub(u32::from(prefix.length));
            (free <= 8).then_some((prefix.address, free))
        })
        .inserted();
    prefixes.iter().map(|(_, free)| 1_u64 << free).sum()
}

fn of_tree(qdisc: &Qdisc, needed: &mut BTreeSet<Ability>) {
    let ability = match &qdisc.kind {
        QdiscKind::Htb(htb) => {
            for leaf in htb.classes.iter().filter_map(|class| class.leaf.as_ref()) {
                of_tree(leaf, needed);
            }
            Ability::Htb
        }
        QdiscKind::FqCodel(_) => Ability::FqCodel,
        QdiscKind::Sfq(_) => Ability::Sfq,
        QdiscKind::Fq(_) => Ability::Fq,
        QdiscKind::Red(_) => Ability::Red,
        QdiscKind::Cake(_) => Ability::Cake,
        QdiscKind::Kit(_) | QdiscKind::Rows(_) => {
            needed.insert(Ability::Btf);
            Ability::BpfQdisc
        }
        QdiscKind::Pfifo(_) | QdiscKind::Bfifo(_) | QdiscKind::Listed(_) | QdiscKind::Other(_) => {
            return;
        }
    };
    needed.insert(ability);
}
