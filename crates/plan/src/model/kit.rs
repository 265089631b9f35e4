// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kit's shaper in a plan: the form in which the kernel reports it, its text, its mistakes, and
//! which queues a change empties.

use crate::model::settle;
use std::collections::BTreeSet;
use weirgate_state::{CakeAckFilter, Kit, KitClass, KitSetting};
use weirgate_units::{Arrange as _, Handle};

/// Returns a shaper in the form in which it is reported.
pub(crate) fn settled(own: &Kit, seen: Option<&Kit>) -> Kit {
    // Another program may have other defaults.
    let seen = seen.filter(|seen| seen.own == own.own);
    let class = |class: &KitClass| {
        let twin = seen.and_then(|seen| find(seen, class.id));
        let twin = twin.filter(|twin| twin.discipline == class.discipline);
        KitClass {
            guarantee: settle::rate(class.guarantee),
            ceiling: class.ceiling.map(settle::rate),
            settings: settings(&class.settings, twin.map(|twin| twin.settings.as_slice())),
            ..class.clone()
        }
    };
    let mut classes: Vec<KitClass> = own.classes.iter().map(class).collect();
    classes.arrange_by_key(|class| class.id);
    Kit {
        gate: settle::rate(own.gate),
        classes,
        ..own.clone()
    }
}

/// Returns the explicit parameters, completed by observed ones that have default values. An
/// observed parameter that is not explicit and has another value is left out. So it counts as a
/// difference, and writing the configuration resets it.
fn settings(own: &[KitSetting], seen: Option<&[KitSetting]>) -> Vec<KitSetting> {
    let Some(seen) = seen else {
        return own.to_vec();
    };
    let settled = |there: &KitSetting| {
        let explicit = own.iter().find(|one| one.name == there.name);
        match explicit {
            Some(explicit) if explicit.value == there.value => Some(there.clone()),
            Some(explicit) => Some(explicit.clone()),
            None => there.usual.then(|| there.clone()),
        }
    };
    let mut all: Vec<KitSetting> = seen.iter().filter_map(settled).collect();
    let unknown = own
        .iter()
        .filter(|one| seen.iter().all(|there| there.name != one.name));
    all.extend(unknown.cloned());
    all
}

fn find(kit: &Kit, id: Handle) -> Option<&KitClass> {
    kit.classes.iter().find(|class| class.id == id)
}

/// Returns the classes whose queues a change empties: those that are removed, and those that get
/// another discipline (`bpf/qdisc/shaper.bpf.c`).
pub(crate) fn emptied(before: &Kit, after: &Kit) -> Vec<Handle> {
    let kept = |class: &KitClass| {
        find(after, class.id).is_some_and(|next| next.discipline == class.discipline)
    };
    let gone = before.classes.iter().filter(|class| !kept(class));
    gone.map(|class| class.id).collect()
}

/// Returns mistakes that no kernel could hold: the class, if one is concerned, the mistake, and the
/// correction.
pub(crate) fn faults(kit: &Kit) -> Vec<(Option<&KitClass>, &'static str, &'static str)> {
    let mut faults = Vec::new();
    if kit.classes.is_empty() || kit.classes.len() > Kit::CLASSES {
        let hint = "the kit's shaper has 1 to 8 classes";
        faults.push((None, "it has too many classes, or none", hint));
    }
    if kit.gate.as_bytes_per_second() == 0 {
        faults.push((None, "a rate under 8 bit/s is 0", "give it at least 8bit"));
    }
    if find(kit, kit.other).is_none() {
        let what = "the class of unclassified packets does not exist";
        faults.push((None, what, "name one of its classes"));
    }
    let mut ids = BTreeSet::new();
    for class in &kit.classes {
        let own: [(bool, &str, &str); 4] = [
            (
                !ids.insert(class.id) || class.id.as_u32() == 0,
                "two classes have this id, or it is 0",
                "give each its own",
            ),
            (class.weight == 0, "its weight is 0", "weights begin at 1"),
            (
                class.prio > 7,
                "its priority is above 7",
                "priorities are 0 to 7",
            ),
            (
                class.ceiling.is_some_and(|most| most < class.guarantee),
                "its ceiling is below its guarantee",
                "raise the ceiling or lower the guarantee",
            ),
        ];
        let found = own.into_iter().filter(|fault| fault.0);
        faults.extend(found.map(|(_, what, hint)| (Some(class), what, hint)));
    }
    faults
}

/// Returns the ACK filter of a BPF engine as a word for its settings.
pub(crate) fn acks(filter: CakeAckFilter) -> &'static str {
    match filter {
        CakeAckFilter::No => "",
        CakeAckFilter::Filter => " ack-filter",
        CakeAckFilter::Aggressive => " ack-filter-aggressive",
    }
}

/// Returns the shaper's settings without its classes, as text.
fn head(kit: &Kit) -> String {
    let marks = if kit.marks { " marks" } else { "" };
    let own = kit
        .own
        .as_ref()
        .map(|own| format!(" with {}", own.discipline));
    let own = own.unwrap_or_default();
    format!(
        "{}{own} rate {} {} mtu {} other {}{marks}{}",
        kit.kind(),
        kit.gate,
        kit.wire,
        kit.mtu,
        kit.other,
        acks(kit.acks)
    )
}

/// Returns a class in one line.
fn class(class: &KitClass) -> String {
    let ceiling = class.ceiling.map(|most| format!(" ceiling {most}"));
    let parameters: Vec<String> = class
        .settings
        .iter()
        .filter(|one| !one.usual)
        .map(|one| format!(" {}={}", one.name, one.value))
        .collect();
    format!(
        "class {} prio {} guarantee {}{} credit {} weight {} queue {}{}",
        class.id,
        class.prio,
        class.guarantee,
        ceiling.unwrap_or_default(),
        class.credit,
        class.weight,
        class.discipline,
        parameters.concat()
    )
}

/// Returns everything as text: its kind, its settings, its classes.
pub(crate) fn text(kit: &Kit) -> String {
    let classes: Vec<String> = kit.classes.iter().map(class).collect();
    format!("{}, {}", head(kit), classes.join(", "))
}

/// Returns the shaper for a list of steps, with a line for each class and the policy's reasons.
pub(crate) fn listed(kit: &Kit) -> String {
    let line = |one: &KitClass| {
        let why = match one.origin.reason.as_str() {
            "" => String::new(),
            _ => format!("  # {}", one.origin),
        };
        format!("\n    {}{why}", class(one))
    };
    let classes: Vec<String> = kit.classes.iter().map(line).collect();
    format!("{}{}", head(kit), classes.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{CakeFraming, KitProgram, KitWire, Origin};
    use weirgate_units::{Rate, Span};

    fn setting(name: &str, value: u64, usual: bool) -> KitSetting {
        KitSetting {
            name: name.to_owned(),
            value,
            usual,
        }
    }

    fn kit(settings: Vec<KitSetting>) -> Kit {
        Kit {
            gate: Rate::kbit(511),
            wire: KitWire {
                overhead: 14,
                mpu: 0,
                framing: CakeFraming::Atm,
            },
            mtu: 1514,
            other: Handle::new(2, 16),
            marks: false,
            acks: CakeAckFilter::No,
            own: None,
            classes: vec![KitClass {
                id: Handle::new(2, 16),
                guarantee: Rate::kbit(100),
                ceiling: None,
                credit: Span::ZERO,
                weight: 1,
                prio: 0,
                discipline: "codel".to_owned(),
                settings,
                origin: Origin::default(),
            }],
        }
    }

    #[test]
    fn only_what_is_said_and_what_is_unusual_counts() {
        let wanted = kit(vec![setting("target_ns", 5, false)]);
        let there = |target, limit, usual| {
            kit(vec![
                setting("target_ns", target, target == 5),
                setting("limit_packets", limit, usual),
            ])
        };
        let same = there(5, 1000, true);
        assert_eq!(settled(&wanted, Some(&same)), same);
        for other in [there(6, 1000, true), there(5, 7, false)] {
            assert_ne!(settled(&wanted, Some(&other)), other);
        }
        // An observed state can be desired again.
        let drifted = there(6, 7, false);
        assert_eq!(settled(&drifted, Some(&drifted)), drifted);
        assert_ne!(settled(&drifted, Some(&same)), same);
    }

    #[test]
    fn what_is_said_no_more_is_no_value_to_set() {
        let there = kit(vec![setting("limit_packets", 6, false)]);
        let back = settled(&kit(Vec::new()), Some(&there));
        assert_eq!(back, kit(Vec::new()));
        // Another version may have other defaults.
        let mut other = kit(vec![setting("limit_packets", 0, true)]);
        other.own = Some(KitProgram::new("codel", 1));
        let mut next = kit(Vec::new());
        next.own = Some(KitProgram::new("codel", 2));
        assert_eq!(settled(&next, Some(&other)), next);
    }

    #[test]
    fn a_class_is_emptied_by_another_discipline_only() {
        let (before, mut after) = (kit(Vec::new()), kit(vec![setting("target_ns", 5, false)]));
        assert_eq!(emptied(&before, &after), []);
        after.classes[0].discipline = "pie".to_owned();
        assert_eq!(emptied(&before, &after), [Handle::new(2, 16)]);
    }

    #[test]
    fn what_no_kernel_holds_is_reported() {
        assert!(faults(&kit(Vec::new())).is_empty());
        let mut wrong = kit(Vec::new());
        wrong.classes.push(wrong.classes[0].clone());
        wrong.other = Handle::new(2, 17);
        wrong.gate = Rate::default();
        assert_eq!(faults(&wrong).len(), 3);
    }
}
