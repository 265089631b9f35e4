// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Combines the policies of a router's links into one text, and their states into one.
//!
//! A policy describes one link. A router of a domain has several, so its file contains complete
//! policies separated by lines of `---`. They are parsed one by one, with the others replaced by
//! spaces, so that every problem has its line in the whole file. The compiled states become one
//! state, which is planned, guarded, confirmed and rolled back like any other.

mod marks;

use crate::{Check, Domain, PortId, conditioners, policy_text};
use std::collections::{BTreeMap, BTreeSet};
use weirgate_state::{Device, DeviceName, State};

/// The line between two policies.
pub const DIVIDER: &str = "---";

/// Splits a text into its policies. Each has spaces in place of the others, so that positions
/// are those of the whole text. A text without a divider is a single policy.
#[must_use]
pub fn divide(text: &str) -> Vec<String> {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_end() == DIVIDER {
            parts.push((start, at));
            start = at + line.len();
        }
        at += line.len();
    }
    parts.push((start, text.len()));
    if let [_] = parts[..] {
        return vec![text.to_owned()];
    }
    let blank = |part: &str| -> String {
        let bytes = part.bytes();
        bytes
            .map(|byte| if byte == b'\n' { '\n' } else { ' ' })
            .collect()
    };
    let whole = |(from, to): (usize, usize)| {
        let (before, rest) = text.split_at(from);
        let (own, after) = rest.split_at(to - from);
        format!("{}{own}{}", blank(before), blank(after))
    };
    parts.into_iter().map(whole).collect()
}

/// Combines the states of a router's links, given with the device of each. Every link gets its
/// own tables.
///
/// # Errors
///
/// Returns descriptions of conflicts between two states.
pub fn together(parts: Vec<(DeviceName, State)>) -> Result<State, Vec<String>> {
    let mut parts = parts;
    if parts.len() <= 1 {
        return Ok(parts.pop().map(|(_, state)| state).unwrap_or_default());
    }
    let mut whole = State::default();
    let mut problems = marks::conflicts(&parts);
    let mut names = BTreeSet::new();
    let mut owners: BTreeMap<DeviceName, DeviceName> = BTreeMap::new();
    for (number, (link, state)) in parts.into_iter().enumerate() {
        for (name, device) in state.devices {
            let shapes = device.root.is_some();
            match whole.devices.remove(&name) {
                None => {
                    whole.devices.insert(name.clone(), device);
                }
                Some(other) => match both(other, device) {
                    Some(device) => {
                        whole.devices.insert(name.clone(), device);
                    }
                    None => problems.push(shaped_twice(&name, owners.get(&name), &link)),
                },
            }
            if shapes {
                owners.insert(name, link.clone());
            }
        }
        for (name, hooks) in state.hooks {
            let other = whole.hooks.insert(name.clone(), hooks.clone());
            if other.is_some_and(|other| other != hooks) {
                problems.push(format!(
                    "two policies treat what passes `{name}` before the tables see it; leave it \
                     to one of them"
                ));
            }
        }
        let mut name = table_name(&link);
        if !names.insert(name.clone()) {
            name = format!("{name}_{number}");
            names.insert(name.clone());
        }
        for mut table in state.tables {
            if table.name == weirgate_compile::TABLE {
                table.name.clone_from(&name);
            } else if whole.tables.iter().any(|one| one.name == table.name) {
                // Another link cuts the packets of the same device.
                continue;
            }
            whole.tables.push(table);
        }
    }
    if problems.is_empty() {
        Ok(whole)
    } else {
        Err(problems)
    }
}

/// Says how the policies of two links can avoid to shape one device.
fn shaped_twice(name: &DeviceName, owner: Option<&DeviceName>, link: &DeviceName) -> String {
    match owner {
        Some(owner) if owner != link && name != link && name != owner => format!(
            "`{name}` is shaped by the policies of `{owner}` and `{link}`; write `inbound = \
             \"ifb\"` and `ifb = \"ifb-{link}\"` in `[link]` of `{link}`, which shapes what \
             arrives there"
        ),
        _ => format!("`{name}` is shaped by two policies; give each link a device of its own"),
    }
}

/// Combines the requirements of two policies for a device; returns `None` if both shape it, or
/// one of them creates it. Two policies can create the same IFB that cuts packets.
fn both(one: Device, other: Device) -> Option<Device> {
    let made = one.owned_ifb || other.owned_ifb;
    if one.owned_ifb && one.offloads.is_some() && one.offloads == other.offloads {
        return Some(one);
    }
    match (&one.root, &other.root) {
        _ if made || one.offloads != other.offloads => None,
        (Some(_), Some(_)) => None,
        (None, Some(_)) => Some(other),
        (_, None) => Some(one),
    }
}

/// Returns the name of a link's tables, which consists of characters that nft accepts without
/// quotes.
fn table_name(link: &DeviceName) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let link: String = link.as_str().chars().map(plain).collect();
    format!("{}_{link}", weirgate_compile::TABLE)
}

/// Returns the policy of each router as text: those of its ports, in their order.
#[must_use]
pub fn router_policies(domain: &Domain, check: &Check) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for (number, port) in check.ports.iter().enumerate() {
        let own = policy_text(domain, port, &arriving_at_once(domain, check, number));
        let own = own + &conditioners(domain, check, PortId(number));
        let text = texts.entry(port.router.clone()).or_default();
        if !text.is_empty() {
            text.push_str("\n---\n");
        }
        text.push_str(&own);
    }
    texts
}

/// Returns the bytes on the wire that may arrive at a port at once, for each class.
fn arriving_at_once(domain: &Domain, check: &Check, port: usize) -> BTreeMap<String, u64> {
    let mut bursts: BTreeMap<String, u64> = BTreeMap::new();
    for (service, delay) in domain.services.iter().zip(&check.delays) {
        let hops = delay.iter().flat_map(|delay| &delay.hops);
        for hop in hops.filter(|hop| hop.port == PortId(port)) {
            *bursts.entry(service.class.clone()).or_default() += hop.burst;
        }
    }
    bursts
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::Capabilities;

    const ONE: &str = "version = 1\n[link]\ndevice = \"DEVICE\"\nup = \"1mbit\"\nlayer = \
                       \"ethernet\"\n[[class]]\nname = \"all\"\nshare = \"100%\"\ndefault = true\n";

    fn state(device: &str) -> (DeviceName, State) {
        let (policy, _) = weirgate_policy::parse(&ONE.replace("DEVICE", device));
        let (state, _) = weirgate_compile::compile(&policy.unwrap(), &Capabilities::all());
        (DeviceName::new(device).unwrap(), state.unwrap())
    }

    #[test]
    fn parts_keep_their_places() {
        assert_eq!(divide("a\nb\n"), ["a\nb\n"]);
        let text = "one = 1\n---\n# \u{e4}\ntwo = 2\n--- \n";
        let parts = divide(text);
        assert_eq!(parts.len(), 3);
        for (part, own) in parts.iter().zip(["one = 1", "two = 2"]) {
            assert_eq!(part.len(), text.len());
            assert_eq!(part.find(own), text.find(own));
            assert_eq!(part.lines().count(), text.lines().count());
        }
        assert_eq!(parts[2].trim(), "");
        assert!(!parts[0].contains("two") && !parts[1].contains("one"));
    }

    #[test]
    fn links_are_one_state_with_tables_of_their_own() {
        let whole = together(vec![state("core0"), state("alfa-0"), state("alfa.0")]).unwrap();
        assert_eq!(whole.devices.len(), 3);
        let names: Vec<&str> = whole.tables.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            ["weirgate_core0", "weirgate_alfa_0", "weirgate_alfa_0_2"]
        );
        // A single state is unchanged.
        let alone = together(vec![state("core0")]).unwrap();
        assert_eq!(alone.tables[0].name, "weirgate");
    }

    /// Both links need the same IFB and table; each keeps its own rules.
    #[test]
    fn packets_are_cut_once_for_all_links() {
        let of = |device: &str| {
            let own = "\"\nlan = \"lan\"\nmerged = \"cut\"\nup";
            let text = ONE.replace("DEVICE\"\nup", &format!("{device}{own}"));
            let (policy, problems) = weirgate_policy::parse(&text);
            let policy = policy.unwrap_or_else(|| panic!("{problems:?}"));
            let (state, _) = weirgate_compile::compile(&policy, &Capabilities::all());
            (DeviceName::new(device).unwrap(), state.unwrap())
        };
        let whole = together(vec![of("core0"), of("core1")]).unwrap();
        let names: Vec<&str> = whole.tables.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            ["weirgate_core0", "weirgate_cut_lan", "weirgate_core1"]
        );
        let devices: Vec<&str> = whole.devices.keys().map(DeviceName::as_str).collect();
        assert_eq!(devices, ["core0", "core1", "cut-lan", "lan"]);
    }

    #[test]
    fn a_device_is_shaped_once() {
        let problems = together(vec![state("core0"), state("core0")]).unwrap_err();
        assert!(
            problems[0].contains("`core0` is shaped by two"),
            "{problems:?}"
        );
    }
}
