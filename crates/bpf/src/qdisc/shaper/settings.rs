// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts classes to and from the map of settings, in which each class has a fixed place.

use super::{CLASSES, Class, Classes};
use crate::error::BpfError;
use crate::layout::{class_settings, shaper_settings};
use crate::qdisc::link::{acks_number, acks_of};
use weirgate_aqm::{Discipline, Settings, ShaperRule};
use zerocopy::FromZeros;

/// Converts the contents of the map. `own` is a discipline in addition to those of the kit.
/// Returns `None` if [`encode`] cannot have produced the contents.
pub(super) fn decode(settings: &shaper_settings, own: Option<Discipline>) -> Option<Classes> {
    let disciplines = Discipline::all();
    let own = own.map(|own| (own.leaf_number(), own));
    let class = |class: &class_settings| {
        let discipline = match own {
            Some((number, own)) if number == class.kind => own,
            _ => *disciplines.get(usize::try_from(class.kind).ok()?)?,
        };
        Some(Class {
            rule: class.rule,
            settings: Settings::from_values(discipline, &class.params)?,
        })
    };
    let classes = settings.class.iter().take(settings.classes as usize);
    Some(Classes {
        link: settings.link,
        gate_bytes_s: settings.gate_bytes_s,
        acks: acks_of(settings.acks),
        classes: classes.map(class).collect::<Option<_>>()?,
        other: settings.other.into(),
    })
}

/// Converts classes to the contents of the map.
///
/// # Errors
///
/// Returns an error if there are no classes or too many, if the default class does not exist, or
/// if the program lacks a discipline.
pub(super) fn encode(
    setup: &Classes,
    own: Option<Discipline>,
) -> Result<shaper_settings, BpfError> {
    let count = setup.classes.len();
    if count == 0 || count > CLASSES {
        return Err(BpfError::Classes(format!(
            "{count} classes; a shaper has 1 to {CLASSES}"
        )));
    }
    if setup.other >= count {
        return Err(BpfError::Classes(format!(
            "class {} is for packets that name none; there are {count}, counted from 0",
            setup.other
        )));
    }
    let mut settings = shaper_settings {
        link: setup.link,
        gate_bytes_s: setup.gate_bytes_s,
        classes: count as u32,
        other: setup.other as u16,
        acks: acks_number(setup.acks),
        ..shaper_settings::new_zeroed()
    };
    let disciplines = Discipline::all();
    for (room, class) in settings.class.iter_mut().zip(&setup.classes) {
        let wanted = class.settings.discipline();
        let of_kit = disciplines.iter().position(|one| *one == wanted);
        let own = own.filter(|own| *own == wanted);
        let kind = own
            .map(Discipline::leaf_number)
            .or(of_kit.map(|at| at as u64));
        room.rule = class.rule;
        room.kind = kind.ok_or_else(|| {
            BpfError::Classes(format!("this shaper has no discipline `{}`", wanted.name()))
        })?;
        for (room, value) in room.params.iter_mut().zip(class.settings.values()) {
            *room = *value;
        }
    }
    Ok(settings)
}

/// Returns the class identifiers in the map, in order.
pub(super) fn ids(settings: &shaper_settings) -> Vec<u32> {
    let classes = settings.class.iter().take(settings.classes as usize);
    classes.map(|class| class.rule.classid).collect()
}

/// Orders the wanted classes so that existing ones keep their places, where their queues are.
/// New classes take free places. A place before the last class that stays free gets an entry
/// with identifier 0.
pub(super) fn arranged(there: &[u32], wanted: &Classes) -> Classes {
    let at = |id: u32| there.iter().position(|own| *own == id);
    let mut slots: Vec<Option<&Class>> = vec![None; CLASSES.max(wanted.classes.len())];
    let (known, new): (Vec<&Class>, Vec<&Class>) = wanted
        .classes
        .iter()
        .partition(|class| at(class.rule.classid).is_some());
    for class in known {
        if let Some(slot) = at(class.rule.classid) {
            slots[slot] = Some(class);
        }
    }
    for class in new {
        if let Some(free) = slots.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(class);
        }
    }
    let last = slots.iter().rposition(Option::is_some).unwrap_or(0);
    slots.truncate(last + 1);
    let none = || {
        Some(Class {
            rule: ShaperRule {
                weight: 1,
                ..ShaperRule::default()
            },
            settings: Settings::new(*Discipline::all().first()?),
        })
    };
    let other = wanted
        .classes
        .get(wanted.other)
        .map(|class| class.rule.classid);
    let classes: Vec<Class> = slots
        .into_iter()
        .filter_map(|slot| slot.cloned().or_else(none))
        .collect();
    let other = classes
        .iter()
        .position(|class| Some(class.rule.classid) == other);
    Classes {
        other: other.unwrap_or(wanted.other),
        classes,
        ..wanted.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::Value;
    use weirgate_aqm::Link;
    use weirgate_state::CakeAckFilter;

    #[test]
    fn settings_survive_the_map() {
        let class = |(number, discipline): (u32, _)| Class {
            rule: ShaperRule {
                guarantee_bytes_s: 7 << 33,
                ceiling_bytes_s: 9,
                weight: 3,
                credit_ns: 11,
                priority: 5,
                classid: 0x1_0010 + number,
            },
            settings: Settings::new(discipline),
        };
        let setup = Classes {
            link: Link {
                rate_bytes_s: 64_000,
                overhead_bytes: -4,
                framing: 1,
                ..Link::default()
            },
            gate_bytes_s: 63_000,
            acks: CakeAckFilter::Aggressive,
            classes: Vec::new(),
            other: 0,
        };
        let disciplines = Discipline::all();
        for some in disciplines.chunks(CLASSES) {
            let setup = Classes {
                classes: (0..).zip(some.iter().copied()).map(class).collect(),
                other: some.len() - 1,
                ..setup.clone()
            };
            let settings = encode(&setup, None).expect("settings");
            let read = Value::read(&settings.bytes()).expect("its own bytes");
            assert_eq!(decode(&read, None), Some(setup));
        }
    }

    #[test]
    fn a_class_stays_where_its_queue_is() {
        let classes = |ids: &[u32], other| Classes {
            link: Link::default(),
            gate_bytes_s: 1,
            acks: CakeAckFilter::No,
            classes: ids
                .iter()
                .map(|id| Class {
                    rule: ShaperRule {
                        weight: 1,
                        classid: *id,
                        ..ShaperRule::default()
                    },
                    settings: Settings::new(Discipline::all()[0]),
                })
                .collect(),
            other,
        };
        let ids =
            |all: &Classes| -> Vec<u32> { all.classes.iter().map(|it| it.rule.classid).collect() };
        let there = classes(&[7, 8, 9], 0);
        let next = arranged(&ids(&there), &classes(&[9, 5, 7], 1));
        assert_eq!((ids(&next), next.other), (vec![7, 5, 9], 1));
        // A free place, and a class that takes it later.
        let next = arranged(&ids(&there), &classes(&[9], 0));
        assert_eq!((ids(&next), next.other), (vec![0, 0, 9], 2));
        let next = arranged(&ids(&next), &classes(&[9, 4], 0));
        assert_eq!((ids(&next), next.other), (vec![4, 0, 9], 2));
        assert_eq!(ids(&arranged(&[], &there)), [7, 8, 9]);
    }
}
