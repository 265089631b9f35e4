// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network devices as far as shaping touches them.

use crate::{Origin, Qdisc};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A device name, at most 15 bytes (`IFNAMSIZ` of linux/if.h, less the NUL).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceName(String);

impl DeviceName {
    /// Returns the name, or `None` if the kernel would refuse it (`dev_valid_name`,
    /// net/core/dev.c).
    pub fn new(name: impl Into<String>) -> Option<Self> {
        let name = name.into();
        let fits = !name.is_empty() && name.len() <= 15 && name != "." && name != "..";
        let plain = !name
            .chars()
            .any(|c| c == '/' || c == ':' || c.is_whitespace() || c == '\0');
        (fits && plain).then_some(Self(name))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for DeviceName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::new(name.as_str()).ok_or_else(|| format!("`{name}` is not a device name"))
    }
}

impl From<DeviceName> for String {
    fn from(name: DeviceName) -> Self {
        name.0
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// True for an IFB device that weirgate creates and removes.
    pub owned_ifb: bool,
    /// Segmentation and receive offloads; `None` in a desired state leaves
    /// them as they are.
    pub offloads: Option<Offloads>,
    /// The root qdisc; `None` is the kernel's default.
    pub root: Option<Qdisc>,
    /// The policy line that requires this device.
    pub origin: Origin,
}

/// Offloads that would pass the gate more than one packet at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloads {
    /// TCP segmentation offload (`tx-tcp-segmentation` and its IPv6 sibling).
    pub tso: bool,
    /// Generic segmentation offload (`tx-generic-segmentation`).
    pub gso: bool,
    /// Generic receive offload (`rx-gro`).
    pub gro: bool,
    /// The most segments that this machine's own TCP may pass the device as one packet
    /// (`gso_max_segs`), even without offloads: the kernel splits them after the queue. `None`
    /// leaves it as it is.
    #[serde(default)]
    pub segments: Option<u32>,
}
