// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Offloads of a device whose root qdisc is a BPF program. With offloads, up to 64 kB of a
//! connection reach it as one packet. At 512 kbit/s such a packet takes a second to send, and it is
//! charged the overhead of one packet.

use crate::error::KeepError;
use crate::store::folder::folder;
use crate::store::sealed;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use weirgate_bpf::AttachPoint;
use weirgate_kernel::Kernel;
use weirgate_state::{DeviceName, Offloads};

/// The folder of files that record which offloads were on before.
const SAVED: &str = "/run/weirgate/offloads";

/// Switches off the offloads that join packets on their way to the device, and stores the former
/// settings for [`offloads_back`]. Returns whether anything was switched.
pub async fn offloads_off(
    kernel: &Kernel,
    name: &DeviceName,
    point: AttachPoint,
) -> Result<bool, KeepError> {
    let found = kernel.offloads(std::slice::from_ref(name)).await?;
    let Some(before) = found.into_iter().flatten().next() else {
        return Ok(false);
    };
    let joins = before.tso || before.gso || before.segments != Some(1);
    if joins {
        let path = saved(point);
        // Keep the settings that an earlier load found.
        if !path.exists() {
            folder(Path::new(SAVED))?;
            let text = serde_json::to_vec(&before).map_err(|error| KeepError::File {
                path: path.clone(),
                source: error.into(),
            })?;
            let written = sealed::fresh(&path).and_then(|mut file| file.write_all(&text));
            written.map_err(KeepError::file(&path))?;
        }
        let off = Offloads {
            tso: false,
            gso: false,
            segments: Some(1),
            ..before
        };
        kernel.set_offloads(name, off).await?;
    }
    Ok(joins)
}

/// Restores the offloads that [`offloads_off`] switched off.
pub async fn offloads_back(
    kernel: &Kernel,
    name: &DeviceName,
    point: AttachPoint,
) -> Result<(), KeepError> {
    let path = saved(point);
    let Ok(bytes) = fs::read(&path) else {
        return Ok(());
    };
    let before: Offloads = serde_json::from_slice(&bytes).map_err(|error| KeepError::File {
        path: path.clone(),
        source: error.into(),
    })?;
    kernel.set_offloads(name, before).await?;
    fs::remove_file(&path).map_err(KeepError::file(&path))
}

/// Deletes the stored settings of a device that is gone.
pub(crate) fn forget(point: AttachPoint) -> Result<(), KeepError> {
    let path = saved(point);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(KeepError::file(path)(error)),
        _ => Ok(()),
    }
}

/// Returns the other devices that join received packets (GRO).
pub async fn joining(kernel: &Kernel, name: &DeviceName) -> Result<Vec<DeviceName>, KeepError> {
    let all = kernel.devices().await?;
    let others: Vec<DeviceName> = all.into_keys().filter(|one| one != name).collect();
    let found = kernel.offloads(&others).await?;
    let joins = |own: Option<Offloads>| own.is_some_and(|own| own.gro);
    let joining = others.into_iter().zip(found);
    let joining = joining.filter(|(name, own)| joins(*own) && name.as_str() != "lo");
    Ok(joining.map(|(name, _)| name).collect())
}

/// Returns the path of a device's file, by its network namespace and index.
fn saved(point: AttachPoint) -> PathBuf {
    let name = format!("{}-{}.json", point.netns, point.ifindex);
    Path::new(SAVED).join(name)
}
