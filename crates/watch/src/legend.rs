// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The meaning of the kernel's numbers: the classes and rules of a policy, and the promises to
//! classes.

use crate::sorter::Sorter;
use serde::Serialize;
use weirgate_kernel::DeviceName;
use weirgate_units::Handle;

/// A class of the policy in one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassLegend {
    /// The device on which it is shaped.
    pub device: String,
    /// `up` or `down`.
    pub direction: String,
    /// Its name in the policy.
    pub name: String,
    /// Its class identifier in the scheduler.
    #[serde(serialize_with = "as_text")]
    pub handle: Handle,
    /// The guaranteed rate in bits per second on the wire.
    pub guaranteed: u64,
    /// The maximum rate in bits per second on the wire.
    pub maximum: u64,
    /// The longest wait of a packet here in microseconds; `None` if the policy has no bound for
    /// it.
    pub bound: Option<u64>,
    /// The mean end-to-end delay in microseconds that the objective in the policy allows (ITU-T
    /// Y.1541, IPTD); `None` without an objective.
    pub objective: Option<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn as_text<S: serde::Serializer>(handle: &Handle, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(handle)
}

/// A rule of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleLegend {
    /// The name of its counter.
    pub counter: String,
    /// A description.
    pub reason: String,
    /// Its line in the policy, counted from 1; 0 for none.
    pub line: u32,
}

/// What is known about the applied policy.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Legend {
    /// A description of where it comes from.
    pub source: String,
    /// The number of the applied state, 0 for none; `None` if it is unknown.
    pub applied: Option<u64>,
    /// The direction, device and gate rate of each shaped link, in bits per second on the wire.
    pub links: Vec<(String, String, u64)>,
    /// A description of how arriving packets are limited and why: one text for each link that
    /// has something to report.
    pub arriving: Vec<String>,
    /// The inside devices, on which hosts have their own addresses.
    pub inside: Vec<String>,
    /// The classes.
    pub classes: Vec<ClassLegend>,
    /// The rules.
    pub rules: Vec<RuleLegend>,
    /// The tables that contain rules: whether the family is `netdev`, and the name.
    #[serde(skip)]
    pub tables: Vec<(bool, String)>,
    /// The devices with traffic conditioners.
    #[serde(skip)]
    pub conditioned: Vec<DeviceName>,
    /// The devices whose arriving packets are limited without a queue.
    #[serde(skip)]
    pub policed: Vec<DeviceName>,
    /// Determines the classes of connections.
    #[serde(skip)]
    pub sorter: Sorter,
}

impl Legend {
    /// Returns the devices on which the link of a device is shaped. The directions of a policy
    /// are adjacent, upstream first.
    pub fn link_devices(&self, device: &str) -> Vec<&str> {
        let (mut found, mut inside) = (Vec::new(), false);
        for (direction, shaped, _) in &self.links {
            if direction == "up" {
                inside = shaped == device;
            }
            if inside {
                found.push(&**shaped);
            }
        }
        found
    }

    /// Returns how a class is called. With several links, its direction does not say which one
    /// it belongs to, so its device does.
    pub fn class_name(&self, device: &str, direction: &str, class: &str) -> String {
        let up = self.links.iter().filter(|link| link.0 == "up");
        match direction {
            "" => format!("{device} {class}"),
            direction if up.count() > 1 => format!("{device} {direction} {class}"),
            direction => format!("{direction} {class}"),
        }
    }

    /// Returns the class with this identifier on a device.
    pub fn class(&self, device: &str, handle: Handle) -> Option<&ClassLegend> {
        let mut classes = self.classes.iter();
        classes.find(|class| class.device == device && class.handle == handle)
    }
}

impl Legend {
    /// Returns the name of a class on a device.
    pub(crate) fn name(&self, device: &str, handle: &str) -> String {
        let mut classes = self.classes.iter();
        let class =
            classes.find(|class| class.device == device && class.handle.to_string() == handle);
        class.map_or_else(|| handle.to_owned(), |class| class.name.clone())
    }
}
