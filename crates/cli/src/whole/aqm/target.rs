// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device of a `weirgate aqm` command.

use weirgate_bpf::AttachPoint;
use weirgate_console::discipline::failed;
use weirgate_console::exit::{Failure, wrong};
use weirgate_console::json::Document;
use weirgate_kernel::{DeviceIndex, Kernel, KernelError};
use weirgate_state::DeviceName;

/// A device of this network namespace.
pub struct Target {
    pub kernel: Kernel,
    pub name: DeviceName,
    pub device: DeviceIndex,
    pub point: AttachPoint,
}

impl Target {
    pub async fn find(name: &str) -> Result<Self, Failure> {
        let name = DeviceName::new(name)
            .ok_or_else(|| wrong(format!("`{name}` cannot be a network device's name")))?;
        let kernel = Kernel::open().map_err(refused)?;
        let device = kernel.device(&name).await.map_err(refused)?;
        let point = AttachPoint::root(device.number()).map_err(failed)?;
        Ok(Self {
            kernel,
            name,
            device,
            point,
        })
    }
}

/// Writes what a command changed into its document, in the words of `aqm show --json`.
pub fn placed(document: &Document, device: &str, at: &str, kind: &str) {
    for (name, value) in [("device", device), ("at", at), ("kind", kind)] {
        document.put(name, value.into());
    }
}

/// Returns the failure of a kernel error. After a refusal, the old state is unchanged.
pub fn refused(error: KernelError) -> Failure {
    match error {
        KernelError::NoDevice(_) => wrong(error),
        error => Failure::Refused(error.to_string()),
    }
}
