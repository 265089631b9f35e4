// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a machine is connected, as plain values: crate kernel reads them, crate
//! init chooses the link and the hosts' devices by them.

use crate::DeviceName;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Routes, addresses and what devices are made of, in one network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Network {
    /// Default routes of the main table: of each IP version the least metric
    /// first, IPv4 before IPv6.
    pub defaults: Vec<DefaultRoute>,
    /// The addresses of devices.
    pub addresses: BTreeMap<DeviceName, BTreeSet<IpAddr>>,
    /// The device that an 802.1Q device is made on.
    pub below: BTreeMap<DeviceName, DeviceName>,
    /// Devices that carry a PPPoE session (`/proc/net/pppoe`).
    pub sessions: BTreeSet<DeviceName>,
    /// Devices of a radio.
    pub wireless: BTreeSet<DeviceName>,
    /// Drivers of devices that have hardware, or a hypervisor's, behind them.
    pub drivers: BTreeMap<DeviceName, String>,
    /// Whether a rule of netfilter translates addresses of what leaves; `None`
    /// where that could not be seen.
    pub translates: Option<bool>,
}

/// A default route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultRoute {
    /// The device that packets leave by.
    pub device: DeviceName,
    /// The next hop, where there is one.
    pub gateway: Option<IpAddr>,
    /// Its metric.
    pub metric: u32,
    /// Where the device is a bridge: the port behind which the next hop is.
    pub port: Option<DeviceName>,
}
