// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Offloads of a device that a discipline's gate is loaded on. With them up to
//! 64 kB of a connection reach a qdisc as one packet, which at 512 kbit/s takes a
//! second to leave and is charged one packet's overhead.

use crate::aqm::target::{Target, refused};
use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};
use weirgate_console::exit::Failure;
use weirgate_console::output;
use weirgate_state::Offloads;

/// The folder of files that say which were on before.
const SAVED: &str = "/run/weirgate/offloads";

/// Switches off what joins packets on their way to the device. What was on is
/// kept for [`restore`]. Whether anything was switched.
pub async fn switch_off(target: &Target) -> Result<bool, Failure> {
    let names = [target.name.clone()];
    let found = target.kernel.offloads(&names).await.map_err(refused)?;
    let Some(before) = found.into_iter().flatten().next() else {
        return Ok(false);
    };
    let joins = before.tso || before.gso || before.segments != Some(1);
    if joins {
        let place = saved(target);
        // What an earlier load found stays.
        if !place.exists() {
            fs::create_dir_all(SAVED).context(SAVED)?;
            let text = serde_json::to_vec(&before).context("offloads")?;
            fs::write(&place, text).with_context(|| place.display().to_string())?;
        }
        let off = Offloads {
            tso: false,
            gso: false,
            segments: Some(1),
            ..before
        };
        let switched = target.kernel.set_offloads(&target.name, off).await;
        switched.map_err(refused)?;
        output::note(&format!(
            "{}: TSO, GSO and joined packets of this machine's TCP are off until the qdisc is taken \
             off",
            target.name
        ));
    }
    Ok(joins)
}

/// Says which other devices hand on joined packets.
pub async fn warn_of_joined(target: &Target) -> Result<(), Failure> {
    let all = target.kernel.devices().await.map_err(refused)?;
    let others: Vec<_> = all.into_keys().filter(|one| *one != target.name).collect();
    let found = target.kernel.offloads(&others).await.map_err(refused)?;
    let joining = others.iter().zip(found);
    let joining: Vec<&str> = joining
        .filter(|(_, own)| own.is_some_and(|own| own.gro))
        .map(|(name, _)| name.as_str())
        .filter(|name| *name != "lo")
        .collect();
    if !joining.is_empty() {
        output::note(&format!(
            "what comes by {} may come joined (GRO), up to 64 kB as one packet; if it is \
             forwarded to {}, switch that off: `ethtool -K DEVICE gro off`",
            joining.join(", "),
            target.name
        ));
    }
    Ok(())
}

/// Switches on again what [`switch_off`] switched off.
pub async fn restore(target: &Target) -> Result<(), Failure> {
    let place = saved(target);
    let Ok(bytes) = fs::read(&place) else {
        return Ok(());
    };
    let before: Offloads =
        serde_json::from_slice(&bytes).with_context(|| place.display().to_string())?;
    let switched = target.kernel.set_offloads(&target.name, before).await;
    switched.map_err(refused)?;
    fs::remove_file(&place).with_context(|| place.display().to_string())?;
    Ok(())
}

/// A device's file, by its network namespace and number.
fn saved(target: &Target) -> PathBuf {
    let name = format!("{}-{}.json", target.place.netns, target.place.ifindex);
    Path::new(SAVED).join(name)
}
