// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filter that holds arriving packets to a rate: its program is loaded when
//! a step needs it, what it is told goes through its maps. It lives as long as
//! the device has it; nothing is pinned.

use crate::Kernel;
use crate::error::KernelError;
use crate::programs::shaper::FRAMINGS;
use crate::tc::filters::Holder;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::os::fd::OwnedFd;
use weirgate_aqm::{Link, Settings};
use weirgate_bpf::{BpfError, Filter, FilterFlow, FilterMaps, FilterSetup, FilterState};
use weirgate_plan::Step;
use weirgate_state::{CakeFraming, DeviceName, Hold, KitSetting, KitWire};
use weirgate_units::Rate;

/// What a filter that holds a rate has done so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its virtual queue, its counts.
    pub state: FilterState,
    /// The flows that it knows.
    pub flows: Vec<FilterFlow>,
}

/// The program that a step attaches; `None` where it attaches none.
pub(crate) fn program(step: &Step, wanted: Option<&Hold>) -> Result<Option<OwnedFd>, KernelError> {
    let Some(hold) = wanted else {
        return Ok(None);
    };
    // Nobody outside may know which flows have one hash: by the random keys of
    // the standard library's maps.
    let seed = RandomState::new().build_hasher().finish() as u32;
    setup(hold)
        .and_then(|setup| Filter::attachable(&setup, seed))
        .map(Some)
        .map_err(|source| refused(step, source))
}

/// What a filter has been told. One that cannot be read is one to exchange.
pub(crate) fn read(holder: Holder) -> Hold {
    let found = FilterMaps::of_program(holder.id)
        .ok()
        .flatten()
        .and_then(|maps| maps.setup().ok().flatten())
        .and_then(|setup| hold(&setup));
    match found {
        Some(hold) => Hold {
            stale: holder.stale,
            ..hold
        },
        None => Hold {
            rate: Rate::default(),
            wire: KitWire {
                overhead: 0,
                mpu: 0,
                framing: CakeFraming::None,
            },
            mtu: 0,
            parts: 0,
            settings: Vec::new(),
            stale: true,
        },
    }
}

impl Kernel {
    /// Tells the filter of a device something else; it forgets nothing.
    pub(crate) async fn tell_hold(
        &self,
        step: &Step,
        index: u32,
        wanted: &Hold,
    ) -> Result<(), KernelError> {
        let maps = self.hold_maps(index).await?;
        maps.map_err(|source| refused(step, source))?
            .ok_or_else(|| refused(step, BpfError::NoProgram("filter")))
            .and_then(|maps| {
                let set = setup(wanted).and_then(|setup| maps.set(&setup));
                set.map_err(|source| refused(step, source))
            })
    }

    /// What the filter that holds a device's arriving packets to a rate has done
    /// so far; `None` where there is none, or this process may not look.
    ///
    /// # Errors
    ///
    /// Occurs where the kernel cannot be asked.
    pub async fn held(&self, device: &DeviceName) -> Result<Option<Held>, KernelError> {
        let read = |maps: &FilterMaps| {
            let state = maps.state()?;
            maps.flows().map(|flows| Held { state, flows })
        };
        self.read_hold(device, read).await
    }

    /// The same without the flows, which are many.
    ///
    /// # Errors
    ///
    /// Occurs where the kernel cannot be asked.
    pub async fn holding(&self, device: &DeviceName) -> Result<Option<FilterState>, KernelError> {
        self.read_hold(device, FilterMaps::state).await
    }

    async fn read_hold<T>(
        &self,
        device: &DeviceName,
        read: impl Fn(&FilterMaps) -> Result<T, BpfError>,
    ) -> Result<Option<T>, KernelError> {
        let index = self.device(device).await?.number();
        let Ok(Some(maps)) = self.hold_maps(index).await? else {
            return Ok(None);
        };
        let read = read(&maps).map(Some);
        read.map_err(|source| KernelError::Kit {
            object: format!("{device}: read what holds arriving packets"),
            source,
        })
    }

    async fn hold_maps(
        &self,
        index: u32,
    ) -> Result<Result<Option<FilterMaps>, BpfError>, KernelError> {
        let listed = self.arriving_filters(index).await?;
        let (_, holders) = crate::tc::filters::read(&listed);
        Ok(match holders.hold {
            Some(holder) => FilterMaps::of_program(holder.id),
            None => Ok(None),
        })
    }
}

fn refused(step: &Step, source: BpfError) -> KernelError {
    KernelError::Kit {
        object: step.action.to_string(),
        source,
    }
}

/// What the maps hold of a filter.
fn setup(hold: &Hold) -> Result<FilterSetup, BpfError> {
    let mut settings = Settings::new(Filter::of_policies());
    for KitSetting { name, value, .. } in &hold.settings {
        let set = settings.set(name, *value);
        set.map_err(|error| BpfError::Classes(error.to_string()))?;
    }
    let framing = FRAMINGS.iter().position(|one| *one == hold.wire.framing);
    Ok(FilterSetup {
        link: Link {
            rate_bytes_s: hold.rate.as_bytes_per_second(),
            mtu_bytes: hold.mtu,
            overhead_bytes: hold.wire.overhead,
            mpu_bytes: hold.wire.mpu,
            framing: framing.unwrap_or(0) as u32,
            ..Link::default()
        },
        parts: u64::from(hold.parts),
        settings,
    })
}

/// The filter that maps hold; `None` where no plan could have made it.
fn hold(setup: &FilterSetup) -> Option<Hold> {
    let rows = setup.settings.rows().into_iter();
    Some(Hold {
        rate: Rate::bytes_per_second(setup.link.rate_bytes_s),
        wire: KitWire {
            overhead: setup.link.overhead_bytes,
            mpu: setup.link.mpu_bytes,
            framing: *FRAMINGS.get(setup.link.framing as usize)?,
        },
        mtu: setup.link.mtu_bytes,
        parts: u8::try_from(setup.parts).ok()?,
        settings: rows
            .map(|(row, value)| KitSetting {
                name: row.name.to_owned(),
                value,
                usual: value == row.default,
            })
            .collect(),
        stale: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_hold_all_of_it() {
        let said = |name: &str, value| KitSetting {
            name: name.to_owned(),
            value,
            usual: false,
        };
        let wanted = Hold {
            rate: Rate::kbit(1940),
            wire: KitWire {
                overhead: 14,
                mpu: 0,
                framing: CakeFraming::Atm,
            },
            mtu: 1514,
            parts: 31,
            settings: vec![said("min_bytes", 3392), said("mark", 2)],
            stale: false,
        };
        let back = hold(&setup(&wanted).unwrap()).unwrap();
        assert!(Hold::same(Some(&wanted), Some(&back)));
        let mut other = wanted.clone();
        other.settings.pop();
        assert!(!Hold::same(Some(&other), Some(&back)));
        other.settings = vec![said("no_such", 1)];
        assert!(setup(&other).is_err());
    }
}
