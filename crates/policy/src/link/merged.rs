// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `merged` of the link: what happens to packets that arrive merged.

use super::{Inbound, Link};
use crate::codes;
use crate::field::words;
use weirgate_document::{Reader, Value};
use weirgate_state::DeviceName;

/// What happens to packets of several segments that a veth, a tap or a virtual network card brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merged {
    /// They are shaped as they are. Each of them takes the line for as long as all its segments.
    Whole,
    /// They are cut into segments before they are forwarded.
    Cut,
}

words!(Merged: "whole" => Merged::Whole, "cut" => Merged::Cut);

impl Link {
    /// Returns the setting by which merged packets are cut, if it is set.
    #[must_use]
    pub fn cuts_merged(&self) -> Option<&Value<Merged>> {
        let stated = self.merged.as_ref();
        stated.filter(|merged| merged.value == Merged::Cut)
    }

    /// Returns the devices at which merged packets are cut, each with the IFB device that cuts
    /// them. What arrives at `device` is cut if it is shaped at the LAN device. An IFB device
    /// cannot cut before another one shapes: the stack passes packets from an IFB device by the
    /// hooks of the ingress (`skb_skip_tc_classify()`, net/core/dev.c).
    #[must_use]
    pub fn cutters(&self) -> Vec<(&Value<DeviceName>, DeviceName)> {
        if self.cuts_merged().is_none() {
            return Vec::new();
        }
        let down = self.down.is_some() && self.inbound.value == Inbound::Lan;
        let outside = down.then_some(&self.device);
        let arriving = self.lan.iter().chain(outside);
        arriving
            .filter_map(|device| Some((device, cutter(&device.value)?)))
            .collect()
    }
}

/// Returns the name of the IFB device that cuts what arrives at a device, as far as 15 bytes allow.
/// Devices whose names begin alike share it, because packets return to the device where they
/// arrived.
fn cutter(device: &DeviceName) -> Option<DeviceName> {
    DeviceName::new(format!("cut-{device}").chars().take(15).collect::<String>())
}

/// Reports a link without a device at which packets could be cut, and a device that has the name of
/// one that cuts.
pub(super) fn check(table: &Reader<'_, '_>, link: &Link) {
    let Some(merged) = link.cuts_merged() else {
        return;
    };
    if link.lan.is_empty() {
        table.problems().error(
            codes::INBOUND,
            merged.span.clone(),
            "`merged = \"cut\"` needs the devices at which packets arrive from the inside",
            "name the inside devices, such as `lan = \"eth1\"`",
        );
    }
    let cutters = link.cutters();
    for taken in link.lan.iter().chain([&link.device, &link.ifb]) {
        if cutters.iter().any(|(_, cutter)| *cutter == taken.value) {
            table.problems().error(
                codes::DEVICE,
                taken.span.clone(),
                format!("`{}` is the name of the IFB that cuts packets", taken.value),
                "give the device another name",
            );
        }
    }
}
