// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The connections of a machine, as plain values: crate kernel reads them, and crate init chooses
//! the devices of the link and of the hosts by them.

use crate::DeviceName;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Routes, addresses and the structure of devices, in one network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Network {
    /// The default routes of the main table: IPv4 before IPv6, and within each the lowest metric
    /// first.
    pub defaults: Vec<DefaultRoute>,
    /// The addresses of devices.
    pub addresses: BTreeMap<DeviceName, BTreeSet<IpAddr>>,
    /// The device below each 802.1Q device.
    pub below: BTreeMap<DeviceName, DeviceName>,
    /// Devices that carry a PPPoE session (`/proc/net/pppoe`).
    pub sessions: BTreeSet<DeviceName>,
    /// Devices of a radio.
    pub wireless: BTreeSet<DeviceName>,
    /// The drivers of devices with real or virtual hardware.
    pub drivers: BTreeMap<DeviceName, String>,
    /// Whether a netfilter rule translates source addresses of departing packets; `None` if that
    /// could not be determined.
    pub translates: Option<bool>,
}

/// A default route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultRoute {
    /// The outgoing device.
    pub device: DeviceName,
    /// The next hop, if there is one.
    pub gateway: Option<IpAddr>,
    /// Its metric.
    pub metric: u32,
    /// For a bridge: the port behind which the next hop is.
    pub port: Option<DeviceName>,
}
