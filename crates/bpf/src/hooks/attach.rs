// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trait by which programs at a device's hooks are loaded, updated and read; each program
//! implements it in its own file.

use super::condition::Condition;
use crate::error::BpfError;
use std::os::fd::OwnedFd;
use weirgate_state::{Conditioner, InHooks};

/// How a program is loaded, updated and read.
pub(crate) trait Attach: InHooks {
    /// Loads it for a device, with a descriptor for each of its filters.
    fn load(
        settings: &Self::Settings,
        device: u32,
        loader: &mut Loader,
    ) -> Result<Vec<OwnedFd>, BpfError>;

    /// Writes the settings of the loaded program of this number for a device; it
    /// forgets nothing.
    fn update(settings: &Self::Settings, id: u32, device: u32) -> Result<(), BpfError>;

    /// Its settings for a device where these filters were found; `None` where they
    /// cannot be read.
    fn read(found: &[FoundFilter], device: u32) -> Option<Self::Settings>;

    /// Prepares the loaded program of this number for a device that came back under
    /// another number. Most know of no device.
    fn readdress(_id: u32, _before: u32, _after: u32) -> Result<(), BpfError> {
        Ok(())
    }
}

/// What the steps of a plan load. Conditioners have one program of each hook for all
/// devices, because to load one takes the kernel as long as all else about a device.
#[derive(Debug)]
pub struct Loader {
    ingress: Option<Condition>,
    egress: Option<Condition>,
    /// Devices at most that get conditioners.
    devices: u32,
}

/// A filter that was found at a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFilter {
    /// The number of its program.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Whether the program's answer is what becomes of a packet, as ours are.
    pub direct: bool,
}

impl Loader {
    /// For at most this many devices.
    pub const fn new(devices: u32) -> Self {
        Self {
            ingress: None,
            egress: None,
            devices,
        }
    }

    /// Conditioners of a device, for what enters it or for what leaves it.
    pub(super) fn conditioners(
        &mut self,
        egress: bool,
        rules: &[Conditioner],
        device: u32,
    ) -> Result<OwnedFd, BpfError> {
        let shared = if egress {
            &mut self.egress
        } else {
            &mut self.ingress
        };
        let mut condition = match shared.take().filter(Condition::has_room) {
            Some(condition) => condition,
            None => Condition::load(self.devices.max(1))?,
        };
        condition.add(device, rules)?;
        shared.insert(condition).attachable()
    }
}
