// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Holds the programs of a device that may disappear: they are attached to the device that replaces
//! it without being loaded again.

use crate::apply::requests;
use crate::error::KernelError;
use crate::tc::filters::{self, Change, HookAttachment};
use crate::{DeviceIndex, Kernel};
use std::os::fd::OwnedFd;
use weirgate_bpf::{BpfError, readdress_program, retain_program};
use weirgate_plan::{Action, Step};
use weirgate_state::{DeviceName, HookPrograms, Origin, Program};

/// The programs at a device's hooks. They stay loaded, with their maps, as long as this exists.
#[derive(Debug)]
pub struct RetainedPrograms {
    /// The index of the device.
    device: u32,
    /// For each program, the id and an open descriptor of each of its filters.
    programs: Vec<(Program, Vec<(u32, OwnedFd)>)>,
}

impl RetainedPrograms {
    /// Returns whether there is no program.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }
}

impl Kernel {
    /// Holds the programs at a device's hooks. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    ///
    /// Occurs if a netlink request fails, or this process may not hold them.
    pub async fn retain_programs(
        &self,
        device: DeviceIndex,
    ) -> Result<RetainedPrograms, KernelError> {
        let DeviceIndex(index) = device;
        let (_, found) = filters::read(&self.hook_filters(index).await?);
        let mut programs = Vec::new();
        for program in Program::ALL {
            let own = found.of(program);
            let retained = own
                .iter()
                .map(|filter| Ok((filter.id, retain_program(program, filter.id)?)));
            let retained: Result<Vec<_>, BpfError> = retained.collect();
            let retained = retained.map_err(|source| KernelError::Kit {
                object: format!("hold the programs of device {index}"),
                source,
            })?;
            if !retained.is_empty() {
                programs.push((program, retained));
            }
        }
        Ok(RetainedPrograms {
            device: index,
            programs,
        })
    }

    /// Attaches the wanted programs at the hooks of a new device in one call, from the programs
    /// that its predecessor had. Returns whether it did: not if one of them is missing.
    ///
    /// They keep the settings of the predecessor. Nothing is read back, because a full comparison
    /// follows.
    ///
    /// # Errors
    ///
    /// The kernel's error for the first request that it refuses, or for a program that does not
    /// accept the new index.
    pub async fn put_programs(
        &self,
        name: &DeviceName,
        device: DeviceIndex,
        wanted: &HookPrograms,
        retained: &mut RetainedPrograms,
    ) -> Result<bool, KernelError> {
        let DeviceIndex(index) = device;
        let failed = |source: BpfError| KernelError::Kit {
            object: format!("{name}: attach programs again"),
            source,
        };
        let mut attached: Vec<Change<'_>> = Vec::new();
        for program in Program::ALL {
            if !wanted.has(program) {
                continue;
            }
            let own = retained
                .programs
                .iter()
                .find(|(retained, _)| *retained == program);
            let Some((_, filters)) = own else {
                return Ok(false);
            };
            let mut files = Vec::new();
            for (id, file) in filters {
                readdress_program(program, *id, retained.device, index).map_err(failed)?;
                let copied = file.try_clone().map_err(|source| KernelError::Socket {
                    doing: "holding a program",
                    source,
                })?;
                files.push(copied);
            }
            attached.push((program, Some((wanted, files))));
        }
        retained.device = index;
        let step = Step {
            action: Action::SetHooks {
                device: name.clone(),
                before: None,
                after: Some(wanted.clone()),
            },
            origin: Origin::default(),
        };
        // A device that returns has no filters of other programs yet.
        let change = filters::change(
            index,
            (None, Some(wanted)),
            &attached,
            &HookAttachment::default(),
        );
        self.route.batch(requests(&step, change)).await?;
        Ok(true)
    }
}
