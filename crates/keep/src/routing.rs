// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies or restores routing over several links, as part of a change.

use crate::error::KeepError;
use weirgate_kernel::Kernel;
use weirgate_state::Routing;

/// Sets up the wanted routing for the devices that are present, and returns the number of steps. If
/// the mark value of a link is gone or belongs to another device, conntrack entries with it are
/// deleted, so that these connections choose a link again.
pub(crate) async fn reroute(kernel: &Kernel, wanted: &Routing) -> Result<usize, KeepError> {
    let (before, devices) = (kernel.routing().await?, kernel.devices().await?);
    let mut wanted = wanted.clone();
    let routes = &mut wanted.routes;
    routes.retain(|route| devices.contains_key(&route.device));
    let steps = kernel.set_routing(&wanted).await?;
    let (former, now) = (before.marks.unwrap_or_default(), wanted.marks);
    let now = now.unwrap_or_default();
    for (device, value) in &former.devices {
        if former.mask != now.mask || now.devices.get(device) != Some(value) {
            // Best effort: remaining connections time out, as after any failure of a link.
            let _ = kernel.drop_connections(former.mask, *value).await;
        }
    }
    Ok(steps)
}
