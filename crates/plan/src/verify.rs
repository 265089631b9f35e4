// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the observed with the desired state, field by field.

use crate::diff::{hooks, tree};
use crate::model::settle;
use crate::text::command::{htb_text, kind_text};
use std::fmt;
use weirgate_state::{
    Content, Hook, HtbClass, Offloads, Origin, Qdisc, QdiscKind, Stab, State, Table,
};
use weirgate_units::Handle;

/// One difference from the desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The device, qdisc, class or table.
    pub object: String,
    /// The desired value.
    pub expected: String,
    /// The observed value.
    pub found: String,
    /// The policy line behind the object.
    pub origin: Origin,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: expected {}, found {}",
            self.object, self.expected, self.found
        )
    }
}

/// Returns every difference of `observed` from `desired`; empty if the kernel has the desired
/// state. Devices that only `observed` has are not a difference, except weirgate's IFB devices.
pub fn verify(observed: &State, desired: &State) -> Vec<Difference> {
    let mut found = Found(Vec::new());
    for (name, wanted) in &desired.devices {
        let Some(seen) = observed.devices.get(name) else {
            found.add(name, &wanted.origin, "the device", "none");
            continue;
        };
        if wanted.owned_ifb && !seen.owned_ifb {
            found.add(
                name,
                &wanted.origin,
                "an IFB of weirgate's",
                "another device",
            );
        }
        let offloads = settle::offloads(wanted.offloads, seen.offloads);
        if offloads != seen.offloads {
            let object = format!("{name} offloads");
            found.add(
                &object,
                &wanted.origin,
                offloads_text(offloads),
                offloads_text(seen.offloads),
            );
        }
        found.qdisc(
            name.as_str(),
            &wanted.origin,
            wanted.root.as_ref(),
            seen.root.as_ref(),
        );
    }
    for (name, seen) in &observed.devices {
        if seen.owned_ifb && !desired.devices.contains_key(name) {
            found.add(name, &seen.origin, "no such device", "an IFB of weirgate's");
        }
    }
    found.hooks(observed, desired);
    found.tables(&observed.tables, &desired.tables);
    found.0
}

struct Found(Vec<Difference>);

impl Found {
    fn add(
        &mut self,
        object: &dyn ToString,
        origin: &Origin,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.0.push(Difference {
            object: object.to_string(),
            expected: expected.into(),
            found: found.into(),
            origin: origin.clone(),
        });
    }

    fn hooks(&mut self, observed: &State, desired: &State) {
        for (name, wanted, seen) in hooks::pairs(observed, desired) {
            let origin = wanted.map_or_else(Origin::default, |object| object.origin.clone());
            let text = hooks::text;
            self.add(
                &format!("{name} arriving packets"),
                &origin,
                text(wanted),
                text(seen),
            );
        }
    }

    fn qdisc(
        &mut self,
        object: &str,
        origin: &Origin,
        wanted: Option<&Qdisc>,
        seen: Option<&Qdisc>,
    ) {
        let title = |qdisc: Option<&Qdisc>| match qdisc {
            Some(qdisc) => format!("{} {}", qdisc.kind.name(), qdisc.handle),
            None => String::from("the kernel's default qdisc"),
        };
        let (Some(wanted), Some(seen)) = (wanted, seen) else {
            if wanted.is_some() != seen.is_some() {
                let origin = wanted.map_or(origin, |qdisc| &qdisc.origin);
                self.add(&object, origin, title(wanted), title(seen));
            }
            return;
        };
        if wanted.handle != seen.handle || wanted.kind.name() != seen.kind.name() {
            self.add(
                &object,
                &wanted.origin,
                title(Some(wanted)),
                title(Some(seen)),
            );
            return;
        }
        let wanted = settle::qdisc(wanted, Some(seen));
        let here = format!("{object} {}", title(Some(&wanted)));
        if wanted.stab != seen.stab {
            self.add(
                &format!("{here} size table"),
                &wanted.origin,
                stab_text(wanted.stab.as_ref()),
                stab_text(seen.stab.as_ref()),
            );
        }
        let (QdiscKind::Htb(a), QdiscKind::Htb(b)) = (&wanted.kind, &seen.kind) else {
            if wanted.kind != seen.kind {
                self.add(
                    &here,
                    &wanted.origin,
                    kind_text(&wanted.kind),
                    kind_text(&seen.kind),
                );
            }
            return;
        };
        if (a.default_minor, a.r2q, a.direct) != (b.default_minor, b.r2q, b.direct) {
            self.add(&here, &wanted.origin, htb_text(a), htb_text(b));
        }
        for class in tree::parents_first(a) {
            let label = format!("{object} class {}", class.id);
            match b.classes.iter().find(|other| other.id == class.id) {
                None => self.add(&label, &class.origin, class_text(class), "none"),
                Some(other) => {
                    if tree::without_leaf(class) != tree::without_leaf(other) {
                        self.add(&label, &class.origin, class_text(class), class_text(other));
                    }
                    self.qdisc(
                        &label,
                        &class.origin,
                        class.leaf.as_deref(),
                        other.leaf.as_deref(),
                    );
                }
            }
        }
        for extra in &b.classes {
            if !a.classes.iter().any(|class| class.id == extra.id) {
                let label = format!("{object} class {}", extra.id);
                self.add(&label, &wanted.origin, "none", class_text(extra));
            }
        }
    }

    fn tables(&mut self, observed: &[Table], desired: &[Table]) {
        let key = |table: &Table| (table.netdev, table.name.clone());
        for wanted in desired {
            let wanted = wanted.canonical();
            let label = format!(
                "table {}",
                crate::text::nft::table_name(wanted.netdev, &wanted.name)
            );
            let Some(seen) = observed.iter().find(|table| key(table) == key(&wanted)) else {
                self.add(&label, &Origin::default(), "the table", "none");
                continue;
            };
            self.chains(&label, &wanted, &seen.canonical());
        }
        for seen in observed {
            if !desired.iter().any(|table| key(table) == key(seen)) {
                let name = crate::text::nft::table_name(seen.netdev, &seen.name);
                self.add(
                    &format!("table {name}"),
                    &Origin::default(),
                    "none",
                    "the table",
                );
            }
        }
    }

    fn chains(&mut self, label: &str, wanted: &Table, seen: &Table) {
        let names = |table: &Table| -> Vec<String> {
            table
                .chains
                .iter()
                .map(|chain| chain.name.clone())
                .collect()
        };
        if names(wanted) != names(seen) {
            let text = |table| format!("chains {}", names(table).join(", "));
            self.add(&label, &Origin::default(), text(wanted), text(seen));
            return;
        }
        if wanted.sets != seen.sets {
            for set in &wanted.sets {
                if seen.set(&set.name) != Some(set) {
                    let have = match seen.set(&set.name) {
                        Some(other) => content_text(&other.content),
                        None => String::from("none"),
                    };
                    let object = format!("{label} set {}", set.name);
                    self.add(&object, &set.origin, content_text(&set.content), have);
                }
            }
            for extra in &seen.sets {
                if wanted.set(&extra.name).is_none() {
                    let object = format!("{label} set {}", extra.name);
                    self.add(&object, &Origin::default(), "none", "the set");
                }
            }
        }
        for (a, b) in wanted.chains.iter().zip(&seen.chains) {
            let object = format!("{label} chain {}", a.name);
            if a.hook != b.hook {
                self.add(
                    &object,
                    &Origin::default(),
                    hook_text(&a.hook),
                    hook_text(&b.hook),
                );
            }
            for index in 0..a.rules.len().max(b.rules.len()) {
                let (want, have) = (a.rules.get(index), b.rules.get(index));
                if want == have {
                    continue;
                }
                let text = |rule: Option<&weirgate_state::Rule>| match rule {
                    Some(rule) => crate::text::nft::rule_text(wanted, rule),
                    None => String::from("none"),
                };
                let none = Origin::default();
                let origin = want.map_or(&none, |rule| &rule.origin);
                let object = format!("{object} rule {}", index + 1);
                self.add(&object, origin, text(want), text(have));
            }
        }
    }
}

fn offloads_text(offloads: Option<Offloads>) -> String {
    let on = |flag| if flag { "on" } else { "off" };
    match offloads {
        None => String::from("none reported by the device"),
        Some(own) => {
            let (tso, gso, gro) = (on(own.tso), on(own.gso), on(own.gro));
            let segments = own
                .segments
                .map_or_else(String::new, |most| format!(", gso_max_segs {most}"));
            format!("tso {tso}, gso {gso}, gro {gro}{segments}")
        }
    }
}

fn content_text(content: &Content) -> String {
    match content {
        Content::Fixed(ranges) => {
            let range = |&(from, to): &(u128, u128)| {
                if from == to {
                    from.to_string()
                } else {
                    format!("{from}-{to}")
                }
            };
            let ranges: Vec<String> = ranges.iter().map(range).collect();
            format!("the values {}", ranges.join(", "))
        }
        Content::Classes(ranges) => {
            let range = |&(from, to, class): &(u128, u128, Handle)| {
                if from == to {
                    format!("{from} to class {class}")
                } else {
                    format!("{from}-{to} to class {class}")
                }
            };
            let ranges: Vec<String> = ranges.iter().map(range).collect();
            format!("the classes of the values {}", ranges.join(", "))
        }
        Content::Refreshed(_) => String::from("what was looked up last"),
        Content::Meter { size, timeout } => {
            let kept = match timeout {
                Some(seconds) => format!("for {seconds} s"),
                None => String::from("as long as their connections"),
            };
            format!("at most {size} keys, kept {kept}")
        }
    }
}

fn hook_text(hook: &Hook) -> String {
    match hook {
        Hook::Postrouting { device } => format!("after routing to {device}"),
        Hook::Ingress {
            device,
            redirect_to,
        } => format!("at ingress of {device}, redirected to {redirect_to}"),
        Hook::Egress { device } => format!("at egress of {device}"),
        Hook::Prerouting => String::from("before routing"),
        Hook::Output => String::from("at output of this machine"),
        Hook::Other(object) => object.clone(),
        Hook::Called => String::from("called by other chains"),
        Hook::Switched { on: true } => String::from("called by other chains, switched on"),
        Hook::Switched { on: false } => String::from("called by other chains, switched off"),
    }
}

fn stab_text(stab: Option<&Stab>) -> String {
    match stab {
        None => String::from("none"),
        Some(stab) => format!(
            "overhead {} mpu {} mtu {} cell_log {} size_log {} align {}, {} slots, hash {:08x}",
            stab.overhead,
            stab.mpu,
            stab.mtu,
            stab.cell_log,
            stab.size_log,
            stab.cell_align,
            stab.data.len(),
            stab.fingerprint()
        ),
    }
}

fn class_text(class: &HtbClass) -> String {
    format!(
        "parent {} rate {} ceil {} buffer {} cbuffer {} prio {} quantum {}",
        class.parent,
        class.rate,
        class.ceil,
        class.buffer,
        class.cbuffer,
        class.prio,
        class.quantum
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{Device, DeviceName, Pfifo};

    #[test]
    fn differences_are_told_in_plain_words() {
        let with = |tso: bool, limit: u32| {
            let device = Device {
                owned_ifb: false,
                offloads: Some(Offloads {
                    tso,
                    gso: false,
                    gro: true,
                    segments: None,
                }),
                root: Some(Qdisc {
                    handle: Handle::new(1, 0),
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
        };
        let found = verify(&with(true, 9), &with(false, 7));
        let texts: Vec<String> = found.iter().map(Difference::to_string).collect();
        assert_eq!(
            texts,
            [
                "wan offloads: expected tso off, gso off, gro on, found tso on, gso off, gro on",
                "wan pfifo 1:: expected pfifo limit 7, found pfifo limit 9",
            ]
        );
        let mut silent = with(true, 7);
        for device in silent.devices.values_mut() {
            device.offloads = None;
        }
        let text = verify(&silent, &with(true, 7))[0].to_string();
        assert!(
            text.ends_with("found none reported by the device"),
            "{text}"
        );
    }

    #[test]
    fn tables_have_words_too() {
        let values = Content::Fixed(vec![(4, 4), (7, 9)]);
        assert_eq!(content_text(&values), "the values 4, 7-9");
        let meter = Content::Meter {
            size: 9,
            timeout: Some(3),
        };
        assert_eq!(content_text(&meter), "at most 9 keys, kept for 3 s");
        let device = DeviceName::new("wan").unwrap();
        assert_eq!(
            hook_text(&Hook::Postrouting { device }),
            "after routing to wan"
        );
    }
}
