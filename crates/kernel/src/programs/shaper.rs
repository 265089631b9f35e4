// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kit's shaper in a plan: its program is loaded when a step needs it, what
//! it is told goes through its maps, and it is unloaded when no device has it.

use crate::Kernel;
use crate::error::KernelError;
use crate::namespace::within;
use std::path::Path;
use weirgate_aqm::{Discipline, Link, Settings};
use weirgate_bpf::{BpfError, Class, Classes, Place, Shaper, Store};
use weirgate_plan::{Action, Step};
use weirgate_state::{
    CakeFraming, DeviceName, Kit, KitClass, KitSetting, KitWire, Origin, QdiscKind,
};
use weirgate_units::{Handle, Rate, Span};

/// Framings by their numbers (`enum aqm_framing`, aqm/include/aqm.h).
pub(crate) const FRAMINGS: [CakeFraming; 3] =
    [CakeFraming::None, CakeFraming::Atm, CakeFraming::Ptm];

/// The shaper of a step, its device, and whether it is there already.
pub(crate) fn of_step(action: &Action) -> Option<(&DeviceName, &Kit, bool)> {
    let (device, qdisc, there) = match action {
        Action::AddQdisc { device, qdisc, .. } | Action::ReplaceQdisc { device, qdisc, .. } => {
            (device, qdisc, false)
        }
        Action::ChangeQdisc { device, qdisc, .. } => (device, qdisc, true),
        _ => return None,
    };
    match &qdisc.kind {
        QdiscKind::Kit(kit) => Some((device, kit, there)),
        _ => None,
    }
}

impl Kernel {
    /// Loads the shaper where it is not yet, and tells it what it is to do on a
    /// device: at once where it is there, else as soon as it comes.
    pub(crate) async fn set_kit(
        &self,
        step: &Step,
        device: u32,
        kit: &Kit,
    ) -> Result<(), KernelError> {
        let object = || step.action.to_string();
        let place = self.place(device).await?;
        let said = || {
            let classes = classes(kit)?;
            let store = Store::open()?;
            let shaper = store.shaper_or_load()?;
            self.mark(&store, &shaper, place, &classes)?;
            shaper.set(place, &classes)
        };
        said().map_err(|source| KernelError::Kit {
            object: object(),
            source,
        })
    }

    /// Lets a shaper mark packets, or not. That the kernel does not take the
    /// program for it is an error: packets would be dropped that are to be
    /// marked.
    fn mark(
        &self,
        store: &Store,
        shaper: &Shaper,
        place: Place,
        classes: &Classes,
    ) -> Result<(), BpfError> {
        let all = || classes.classes.iter().map(|class| &class.settings);
        if !all().any(Settings::marks) {
            return store.unmark_shaper(shaper, place);
        }
        if store.marks_shaper(shaper, place)? {
            return Ok(());
        }
        let marked = within(self.netns.as_ref(), || store.mark_shaper(shaper, place));
        marked.map_err(BpfError::Namespace).flatten()
    }

    /// What the shaper at a device's root is told; `None` where there is none,
    /// or this process may not look.
    pub(crate) async fn read_kit(&self, device: u32, kind: &QdiscKind) -> Option<Kit> {
        if kind.name() != Kit::KIND {
            return None;
        }
        let place = self.place(device).await.ok()?;
        let (store, shaper) = present()?.ok()?;
        let marks = store.marks_shaper(&shaper, place).ok()?;
        kit(&shaper.setup(place).ok()??, marks)
    }

    /// Forgets what was said for devices of this namespace that have no shaper,
    /// and unloads the program with the last.
    pub(crate) async fn tidy_kit(&self) -> Result<(), KernelError> {
        if !Path::new(Store::SHAPER_FOLDER).exists() {
            return Ok(());
        }
        let own = self.place(0).await?.netns;
        let tidied = Store::open().and_then(|store| {
            let Some(shaper) = store.shaper()? else {
                return Ok(());
            };
            for place in shaper.places() {
                if place.netns == own && shaper.instance(place)?.is_none() {
                    store.unmark_shaper(&shaper, place)?;
                    shaper.unset(place)?;
                }
            }
            if shaper.places().is_empty() && shaper.instances()?.is_empty() {
                store.remove_shaper()?;
            }
            Ok(())
        });
        tidied.map_err(|source| KernelError::Kit {
            object: format!("unload {}", Kit::KIND),
            source,
        })
    }

    async fn place(&self, ifindex: u32) -> Result<Place, KernelError> {
        let netns = self.route.namespace().await;
        let netns = netns.map_err(|error| KernelError::Kit {
            object: format!("find where {} is", Kit::KIND),
            source: BpfError::Namespace(error),
        })?;
        Ok(Place {
            netns,
            ifindex,
            queue: 0,
        })
    }
}

/// The shaper, where it is loaded, and where it is pinned.
fn present() -> Option<Result<(Store, Shaper), BpfError>> {
    if !Path::new(Store::SHAPER_FOLDER).exists() {
        return None;
    }
    let found = Store::open().and_then(|store| {
        let shaper = store.shaper()?;
        Ok(shaper.map(|shaper| (store, shaper)))
    });
    found.transpose()
}

/// What the maps hold of a shaper.
fn classes(kit: &Kit) -> Result<Classes, BpfError> {
    let class = |class: &KitClass| {
        let wrong = |text: String| BpfError::Classes(format!("class {}: {text}", class.id));
        let discipline = Discipline::named(&class.discipline)
            .ok_or_else(|| wrong(format!("the kit has no discipline `{}`", class.discipline)))?;
        let mut settings = Settings::new(discipline);
        for KitSetting { name, value, .. } in &class.settings {
            let set = settings.set(name, *value);
            set.map_err(|error| wrong(error.to_string()))?;
        }
        Ok(Class {
            classid: class.id.as_u32(),
            guarantee_bytes_s: class.guarantee.as_bytes_per_second(),
            ceiling_bytes_s: class.ceiling.map_or(0, Rate::as_bytes_per_second),
            credit_ns: class.credit.as_nanos(),
            weight: u64::from(class.weight),
            priority: u32::from(class.prio),
            settings,
        })
    };
    let all: Result<Vec<Class>, BpfError> = kit.classes.iter().map(class).collect();
    let gate = kit.gate.as_bytes_per_second();
    let framing = FRAMINGS.iter().position(|one| *one == kit.wire.framing);
    let other = kit.classes.iter().position(|class| class.id == kit.other);
    Ok(Classes {
        link: Link {
            rate_bytes_s: gate,
            mtu_bytes: kit.mtu,
            overhead_bytes: kit.wire.overhead,
            mpu_bytes: kit.wire.mpu,
            framing: framing.unwrap_or(0) as u32,
            ..Link::default()
        },
        gate_bytes_s: gate,
        classes: all?,
        // Beyond the last where it is none of them, which is refused.
        other: other.unwrap_or(kit.classes.len()),
    })
}

/// The shaper that maps hold; `None` where no plan could have made it.
fn kit(setup: &Classes, marks: bool) -> Option<Kit> {
    let class = |class: &Class| KitClass {
        id: Handle::from_u32(class.classid),
        guarantee: Rate::bytes_per_second(class.guarantee_bytes_s),
        ceiling: (class.ceiling_bytes_s != 0)
            .then(|| Rate::bytes_per_second(class.ceiling_bytes_s)),
        credit: Span::from_nanos(class.credit_ns),
        weight: u32::try_from(class.weight).unwrap_or(u32::MAX),
        prio: class.priority.min(7) as u8,
        discipline: class.settings.discipline().name().to_owned(),
        settings: class
            .settings
            .rows()
            .into_iter()
            .map(|(row, value)| KitSetting {
                name: row.name.to_owned(),
                value,
                usual: value == row.default,
            })
            .collect(),
        origin: Origin::default(),
    };
    let own = setup.classes.iter().filter(|class| class.classid != 0);
    let mut classes: Vec<KitClass> = own.map(class).collect();
    classes.sort_by_key(|class| class.id);
    Some(Kit {
        gate: Rate::bytes_per_second(setup.gate_bytes_s),
        wire: KitWire {
            overhead: setup.link.overhead_bytes,
            mpu: setup.link.mpu_bytes,
            framing: *FRAMINGS.get(setup.link.framing as usize)?,
        },
        mtu: setup.link.mtu_bytes,
        other: Handle::from_u32(setup.classes.get(setup.other)?.classid),
        marks,
        classes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut back = kit(&classes(&wanted).unwrap(), false).unwrap();
        let settings = std::mem::take(&mut back.classes[0].settings);
        let mut alike = wanted;
        alike.classes[0].settings.clear();
        assert_eq!(back, alike);
        let said: Vec<_> = settings.iter().filter(|one| !one.usual).collect();
        assert_eq!(said.len(), 1);
        assert_eq!(
            (said[0].name.as_str(), said[0].value),
            ("target_ns", 7_000_000)
        );
    }

    #[test]
    fn what_the_kit_lacks_is_told() {
        let told = |kit: &Kit| classes(kit).unwrap_err().to_string();
        assert!(told(&shaper("cdel", &[])).contains("no discipline `cdel`"));
        assert!(told(&shaper("codel", &[("limit", 7)])).contains("limit"));
    }
}
