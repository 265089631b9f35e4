// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operations on programs at a device's hooks. Each program implements the trait in its own
//! file.

use super::condition::Condition;
use crate::error::BpfError;
use std::os::fd::OwnedFd;
use weirgate_state::{Conditioner, InHooks};

/// Loading, updating and reading of a program.
pub(crate) trait Attach: InHooks {
    /// Loads the program for a device; returns a descriptor for each of its filters.
    fn load(
        settings: &Self::Settings,
        device: u32,
        loader: &mut Loader,
    ) -> Result<Vec<OwnedFd>, BpfError>;

    /// Changes the settings of the loaded program with this identifier for a device; its state
    /// stays.
    fn update(settings: &Self::Settings, id: u32, device: u32) -> Result<(), BpfError>;

    /// Reads the settings for a device at which these filters were found; `None` if they cannot
    /// be read.
    fn read(found: &[FoundFilter], device: u32) -> Option<Self::Settings>;

    /// Adapts the loaded program with this identifier to a device that was created again with
    /// another index. Most programs do not depend on the index.
    fn readdress(_id: u32, _before: u32, _after: u32) -> Result<(), BpfError> {
        Ok(())
    }
}

/// Loads the programs for the steps of a plan. All devices share one program of conditioners for
/// each hook, because loading it takes the kernel as long as all other steps for a device.
#[derive(Debug)]
pub struct Loader {
    ingress: Option<Condition>,
    egress: Option<Condition>,
    /// The largest number of devices that get conditioners.
    devices: u32,
}

/// A filter that was found at a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFilter {
    /// The identifier of its program.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Whether it is in `direct-action` mode, as all filters of weirgate are.
    pub direct: bool,
}

impl Loader {
    /// Makes a loader for at most this many devices.
    pub const fn new(devices: u32) -> Self {
        Self {
            ingress: None,
            egress: None,
            devices,
        }
    }

    /// Returns the conditioners of a device for leaving (`egress`) or for arriving packets.
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
