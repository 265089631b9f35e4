// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic conditioners: programs are loaded when a step needs them, what they
//! are told goes through their maps. They live as long as the device has them;
//! nothing is pinned.

use crate::Kernel;
use crate::error::KernelError;
use crate::tc::filters::{Holder, Holders};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use weirgate_bpf::{BpfError, Condition, ConditionCount, ConditionMaps};
use weirgate_plan::{Action, Step};
use weirgate_state::{Arriving, Conditioner, Conditioning, DeviceName};

/// What the conditioners of a device have counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditioned {
    /// Of what enters it.
    pub entering: Vec<ConditionCount>,
    /// Of what leaves it.
    pub leaving: Vec<ConditionCount>,
}

/// One of the two ways at a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Entering,
    Leaving,
}

impl Way {
    const BOTH: [Self; 2] = [Self::Entering, Self::Leaving];

    fn of(self, place: Option<&Arriving>) -> Option<&Conditioning> {
        let place = place?;
        match self {
            Self::Entering => place.entering.as_deref(),
            Self::Leaving => place.leaving.as_deref(),
        }
    }

    fn holder(self, holders: &Holders) -> Option<Holder> {
        match self {
            Self::Entering => holders.entering,
            Self::Leaving => holders.leaving,
        }
    }

    /// What a change says; `None` where it says nothing.
    fn said<'a>(
        self,
        before: Option<&Arriving>,
        after: Option<&'a Arriving>,
    ) -> Option<&'a Conditioning> {
        let wanted = self.of(after)?;
        (!Conditioning::same(Some(wanted), self.of(before))).then_some(wanted)
    }

    /// Whether the program that is there can be told something else: it is of
    /// this version.
    fn can_be_told(self, before: Option<&Arriving>) -> bool {
        self.of(before).is_some_and(|there| !there.stale)
    }
}

/// The programs that a step attaches.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    entering: Option<OwnedFd>,
    leaving: Option<OwnedFd>,
}

impl Loaded {
    pub(crate) fn entering(&self) -> Option<RawFd> {
        self.entering.as_ref().map(AsRawFd::as_raw_fd)
    }

    pub(crate) fn leaving(&self) -> Option<RawFd> {
        self.leaving.as_ref().map(AsRawFd::as_raw_fd)
    }
}

/// What the steps of a plan load: one program of each way for all devices,
/// because to load one takes the kernel as long as all else about a device.
#[derive(Debug)]
pub(crate) struct Shared {
    entering: Option<Condition>,
    leaving: Option<Condition>,
    /// Devices at most that get one.
    devices: u32,
}

impl Shared {
    pub(crate) fn of(steps: &[Step]) -> Self {
        let arriving = |step: &&Step| matches!(step.action, Action::SetArriving { .. });
        Self {
            entering: None,
            leaving: None,
            devices: steps.iter().filter(arriving).count() as u32,
        }
    }

    fn program(
        &mut self,
        way: Way,
        device: u32,
        rules: &[Conditioner],
    ) -> Result<OwnedFd, BpfError> {
        let shared = match way {
            Way::Entering => &mut self.entering,
            Way::Leaving => &mut self.leaving,
        };
        let mut condition = match shared.take().filter(Condition::has_room) {
            Some(condition) => condition,
            None => Condition::load(self.devices.max(1))?,
        };
        condition.add(device, rules)?;
        shared.insert(condition).attachable()
    }

    /// The programs that a step attaches to the device of this number.
    pub(crate) fn programs(
        &mut self,
        step: &Step,
        device: u32,
        before: Option<&Arriving>,
        after: Option<&Arriving>,
    ) -> Result<Loaded, KernelError> {
        let mut load = |way: Way| {
            let wanted = way.said(before, after);
            let wanted = wanted.filter(|_| !way.can_be_told(before));
            let loaded = wanted.map(|wanted| self.program(way, device, &wanted.conditioners));
            loaded.transpose().map_err(|source| refused(step, source))
        };
        Ok(Loaded {
            entering: load(Way::Entering)?,
            leaving: load(Way::Leaving)?,
        })
    }
}

/// What programs have been told of a device. Those that cannot be read are to be exchanged.
pub(crate) fn read(place: &mut Arriving, device: u32, holders: &Holders) {
    let found = |way: Way| {
        let holder = way.holder(holders)?;
        let rules = ConditionMaps::of_program(holder.id, device)
            .and_then(|maps| maps.rules().ok().flatten());
        Some(Box::new(Conditioning {
            stale: holder.stale || rules.is_none(),
            conditioners: rules.unwrap_or_default(),
        }))
    };
    place.entering = found(Way::Entering);
    place.leaving = found(Way::Leaving);
}

impl Kernel {
    /// Tells the conditioners of a device something else, where they can be told
    /// and a step says something else; those that are as they were forget
    /// nothing.
    pub(crate) async fn tell_conditioners(
        &self,
        step: &Step,
        index: u32,
        before: Option<&Arriving>,
        after: Option<&Arriving>,
    ) -> Result<(), KernelError> {
        for way in Way::BOTH {
            let wanted = way.said(before, after);
            let Some(wanted) = wanted.filter(|_| way.can_be_told(before)) else {
                continue;
            };
            let maps = self.conditioner_maps(index, way).await?;
            maps.ok_or(BpfError::NoProgram("condition"))
                .and_then(|maps| maps.set(&wanted.conditioners))
                .map_err(|source| refused(step, source))?;
        }
        Ok(())
    }

    /// What the conditioners of a device have counted; nothing where there are
    /// none, or this process may not look.
    ///
    /// # Errors
    ///
    /// Occurs where the kernel cannot be asked.
    pub async fn conditioned(&self, device: &DeviceName) -> Result<Conditioned, KernelError> {
        let index = self.device(device).await?.number();
        let mut counted = Conditioned::default();
        for way in Way::BOTH {
            let Some(maps) = self.conditioner_maps(index, way).await? else {
                continue;
            };
            let counts = maps.counts().map_err(|source| KernelError::Kit {
                object: format!("{device}: read what conditioners have counted"),
                source,
            })?;
            match way {
                Way::Entering => counted.entering = counts,
                Way::Leaving => counted.leaving = counts,
            }
        }
        Ok(counted)
    }

    async fn conditioner_maps(
        &self,
        index: u32,
        way: Way,
    ) -> Result<Option<ConditionMaps>, KernelError> {
        let listed = self.arriving_filters(index).await?;
        let (_, holders) = crate::tc::filters::read(&listed);
        Ok(way
            .holder(&holders)
            .and_then(|holder| ConditionMaps::of_program(holder.id, index)))
    }
}

fn refused(step: &Step, source: BpfError) -> KernelError {
    KernelError::Kit {
        object: step.action.to_string(),
        source,
    }
}
