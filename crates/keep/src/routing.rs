// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applies or restores routing over several links, as part of a change.

use crate::error::KeepError;
use weirgate_kernel::Kernel;
use weirgate_state::Routing;

/// Routes as is wanted as far as the devices are there, and answers the steps that it took.
/// Connections of a link whose number is gone or another's are forgotten, so that each begins
/// anew.
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
            // Those that stay are lost as any of a link that dies.
            let _ = kernel.drop_connections(former.mask, *value).await;
        }
    }
    Ok(steps)
}
