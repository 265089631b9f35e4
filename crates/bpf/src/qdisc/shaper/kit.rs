// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the shaper's configuration to and from a state.

use super::{Class, Classes};
use crate::error::BpfError;
use crate::qdisc::link::{link_of, settings, settings_of, wire_of};
use weirgate_aqm::{Discipline, Link, ShaperRule};
use weirgate_state::{Kit, KitClass, Origin};
use weirgate_units::{Arrange as _, Handle, Rate, Span};

const _: () = assert!(super::CLASSES == Kit::CLASSES);

impl Classes {
    /// Converts the classes of a state; `own` is a discipline in addition to those of the kit.
    ///
    /// # Errors
    ///
    /// Returns an error if a discipline or a parameter is unknown.
    pub fn of_kit(kit: &Kit, own: Option<Discipline>) -> Result<Self, BpfError> {
        let classes = kit.classes.iter().map(|one| class(one, own));
        let classes: Result<Vec<Class>, BpfError> = classes.collect();
        let gate = kit.gate.as_bytes_per_second();
        let other = kit.classes.iter().position(|class| class.id == kit.other);
        Ok(Self {
            link: Link {
                rate_bytes_s: gate,
                mtu_bytes: kit.mtu,
                ..link_of(kit.wire)
            },
            gate_bytes_s: gate,
            acks: kit.acks,
            classes: classes?,
            // A class that does not exist gets an index beyond the last, which is an error
            // later.
            other: other.unwrap_or(kit.classes.len()),
        })
    }

    /// Converts the classes to a state. Returns `None` if no plan could have produced them.
    /// `marks` tells whether ECN marks are applied.
    pub fn kit(&self, marks: bool, own: Option<Discipline>) -> Option<Kit> {
        let numbered = self.classes.iter().filter(|class| class.rule.classid != 0);
        let mut classes: Vec<KitClass> = numbered.map(kit_class).collect();
        classes.arrange_by_key(|class| class.id);
        Some(Kit {
            gate: Rate::bytes_per_second(self.gate_bytes_s),
            wire: wire_of(&self.link)?,
            mtu: self.link.mtu_bytes,
            other: Handle::from_u32(self.classes.get(self.other)?.rule.classid),
            marks,
            acks: self.acks,
            own: own.map(super::program_of),
            classes,
        })
    }
}

fn class(class: &KitClass, own: Option<Discipline>) -> Result<Class, BpfError> {
    let wrong = |text: String| BpfError::Classes(format!("class {}: {text}", class.id));
    let own = own.filter(|own| own.name() == class.discipline);
    let discipline = own
        .or_else(|| Discipline::named(&class.discipline))
        .ok_or_else(|| wrong(format!("the kit has no discipline `{}`", class.discipline)))?;
    let settings = settings(discipline, &class.settings);
    Ok(Class {
        rule: ShaperRule {
            guarantee_bytes_s: class.guarantee.as_bytes_per_second(),
            ceiling_bytes_s: class.ceiling.map_or(0, Rate::as_bytes_per_second),
            weight: u64::from(class.weight),
            credit_ns: class.credit.as_nanos(),
            priority: u32::from(class.prio),
            classid: class.id.as_u32(),
        },
        settings: settings.map_err(|error| wrong(error.to_string()))?,
    })
}

fn kit_class(Class { rule, settings }: &Class) -> KitClass {
    let ceiling = Rate::bytes_per_second(rule.ceiling_bytes_s);
    KitClass {
        id: Handle::from_u32(rule.classid),
        guarantee: Rate::bytes_per_second(rule.guarantee_bytes_s),
        ceiling: (rule.ceiling_bytes_s != 0).then_some(ceiling),
        credit: Span::from_nanos(rule.credit_ns),
        weight: u32::try_from(rule.weight).unwrap_or(u32::MAX),
        prio: rule.priority.min(7) as u8,
        discipline: settings.discipline().name().to_owned(),
        settings: settings_of(settings),
        origin: Origin::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{CakeAckFilter, CakeFraming, KitSetting, KitWire};

    fn shaper(discipline: &str, settings: &[(&str, u64)]) -> Kit {
        let id = Handle::new(2, 0x4a6b);
        Kit {
            gate: Rate::kbit(511),
            wire: KitWire {
                overhead: -4,
                mpu: 64,
                framing: CakeFraming::Ptm,
            },
            mtu: 1514,
            other: id,
            marks: false,
            acks: CakeAckFilter::Filter,
            own: None,
            classes: vec![KitClass {
                id,
                guarantee: Rate::kbit(100),
                ceiling: Some(Rate::kbit(300)),
                credit: Span::from_millis(26),
                weight: 1696,
                prio: 3,
                discipline: discipline.to_owned(),
                settings: settings
                    .iter()
                    .map(|(name, value)| KitSetting {
                        name: (*name).to_owned(),
                        value: *value,
                        usual: false,
                    })
                    .collect(),
                origin: Origin::default(),
            }],
        }
    }

    #[test]
    fn maps_hold_all_of_it() {
        let wanted = shaper("codel", &[("target_ns", 7_000_000)]);
        let mut back = Classes::of_kit(&wanted, None)
            .unwrap()
            .kit(false, None)
            .unwrap();
        let settings = std::mem::take(&mut back.classes[0].settings);
        let mut alike = wanted;
        alike.classes[0].settings.clear();
        assert_eq!(back, alike);
        let explicit: Vec<_> = settings.iter().filter(|one| !one.usual).collect();
        assert_eq!(explicit.len(), 1);
        assert_eq!(
            (explicit[0].name.as_str(), explicit[0].value),
            ("target_ns", 7_000_000)
        );
    }

    #[test]
    fn what_the_kit_lacks_is_told() {
        let refusal = |kit: &Kit| Classes::of_kit(kit, None).unwrap_err().to_string();
        assert!(refusal(&shaper("cdel", &[])).contains("no discipline `cdel`"));
        assert!(refusal(&shaper("codel", &[("limit", 7)])).contains("limit"));
    }
}
