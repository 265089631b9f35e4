// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The meaning of the kernel's numbers: a policy's classes and rules, and the promises to classes.

use crate::look::connections::Sorter;
use serde::Serialize;
use weirgate_kernel::DeviceName;
use weirgate_units::Handle;

/// A class of the policy in one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassLegend {
    /// The device that it is shaped on.
    pub device: String,
    /// `up` or `down`.
    pub direction: String,
    /// Its name in the policy.
    pub name: String,
    /// Its number in the scheduler.
    #[serde(serialize_with = "as_text")]
    pub handle: Handle,
    /// What it has whatever others do, in bits of the wire by the second.
    pub guaranteed: u64,
    /// What it has at most.
    pub maximum: u64,
    /// How long a packet waits at most here, in microseconds; `None` where the
    /// policy has no bound for it.
    pub bound: Option<u64>,
    /// The mean delay, in microseconds, that the objective which the policy
    /// names for it allows from end to end (ITU-T Y.1541, IPTD); `None` without
    /// one.
    pub objective: Option<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn as_text<S: serde::Serializer>(handle: &Handle, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(handle)
}

/// A rule of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleLegend {
    /// Its counter's name.
    pub counter: String,
    /// What it is for.
    pub reason: String,
    /// Its line in the policy, from 1; 0 for none.
    pub line: u32,
}

/// What is known of the applied policy.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Legend {
    /// Where it is from, in words.
    pub source: String,
    /// The number of the state that is applied, 0 for none; `None` where that is
    /// not known.
    pub applied: Option<u64>,
    /// The link by direction and device, with the gate's rate in bits of the
    /// wire by the second.
    pub links: Vec<(String, String, u64)>,
    /// How arriving packets are limited and why, in lines for people: one text for each link with
    /// something to report.
    pub arriving: Vec<String>,
    /// The devices on the inside, where hosts have addresses of their own.
    pub inside: Vec<String>,
    /// Classes.
    pub classes: Vec<ClassLegend>,
    /// Rules.
    pub rules: Vec<RuleLegend>,
    /// The tables that rules are in: whether its family is `netdev`, and its
    /// name.
    #[serde(skip)]
    pub tables: Vec<(bool, String)>,
    /// The devices at which packets are conditioned.
    #[serde(skip)]
    pub conditioned: Vec<DeviceName>,
    /// The devices at which arriving packets are held to a rate without a queue.
    #[serde(skip)]
    pub policed: Vec<DeviceName>,
    /// Tells the classes of connections.
    #[serde(skip)]
    pub sorter: Sorter,
}

impl Legend {
    /// The devices at which the link of a device is shaped: a policy's directions follow one
    /// another, upstream first.
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

    /// The class of this number on a device.
    pub fn class(&self, device: &str, handle: Handle) -> Option<&ClassLegend> {
        let mut classes = self.classes.iter();
        classes.find(|class| class.device == device && class.handle == handle)
    }
}

impl Legend {
    /// What a class of a device is called.
    pub(crate) fn name(&self, device: &str, handle: &str) -> String {
        let mut classes = self.classes.iter();
        let class =
            classes.find(|class| class.device == device && class.handle.to_string() == handle);
        class.map_or_else(|| handle.to_owned(), |class| class.name.clone())
    }
}
