// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel's numbers stand for: a policy's classes and rules, and
//! whether what classes were promised is kept.

use crate::connections::Sorter;
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
    /// The link by direction and device, with the gate's rate in bits of the
    /// wire by the second.
    pub links: Vec<(String, String, u64)>,
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
    /// The devices at which what arrives is held to a rate without a queue.
    #[serde(skip)]
    pub held: Vec<DeviceName>,
    /// Tells the classes of connections.
    #[serde(skip)]
    pub sorter: Sorter,
}

impl Legend {
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

/// Whether a class got what it was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Promise {
    /// Nothing waits: it asked for no more than it got.
    Idle,
    /// It got it.
    Kept,
    /// It waited and got less than its guarantee.
    Rate,
    /// It waited longer than the bound.
    Wait,
    /// There is nothing to tell by.
    Unknown,
}

impl Promise {
    /// Whether it was broken.
    pub fn broken(self) -> bool {
        matches!(self, Self::Rate | Self::Wait)
    }
}

/// Less than the guarantee by more than a packet's length in a second and the
/// two readings' distance can explain.
const RATE_SLACK: f64 = 0.95;
/// An estimate of a wait has the error of the rate that it is made from.
const WAIT_SLACK: f64 = 1.10;

/// What a class's numbers say about its promise. `waited` says that something
/// waited all of the time: then, and only then, it could have sent all of it.
pub fn promise(
    class: &ClassLegend,
    waited: bool,
    sent: i64,
    wait: Option<u64>,
    interval: i64,
) -> Promise {
    if !waited {
        return Promise::Idle;
    }
    if interval <= 0 {
        return Promise::Unknown;
    }
    let rate = sent as f64 * 8000.0 / interval as f64;
    if rate < class.guaranteed as f64 * RATE_SLACK {
        return Promise::Rate;
    }
    match (class.bound, wait) {
        (Some(bound), Some(wait)) if wait as f64 > bound as f64 * WAIT_SLACK => Promise::Wait,
        _ => Promise::Kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_broken_only_where_the_class_asked() {
        let class = ClassLegend {
            device: String::from("wan"),
            direction: String::from("up"),
            name: String::from("voice"),
            handle: Handle::new(2, 0x10),
            guaranteed: 80_000,
            maximum: 500_000,
            bound: Some(40_000),
        };
        // 10,000 bytes a second are the guarantee.
        assert_eq!(promise(&class, false, 0, None, 1000), Promise::Idle);
        assert_eq!(
            promise(&class, true, 10_000, Some(30_000), 1000),
            Promise::Kept
        );
        assert_eq!(
            promise(&class, true, 9_000, Some(30_000), 1000),
            Promise::Rate
        );
        assert_eq!(
            promise(&class, true, 9_000, Some(30_000), 900),
            Promise::Kept
        );
        assert_eq!(
            promise(&class, true, 20_000, Some(60_000), 1000),
            Promise::Wait
        );
        assert_eq!(promise(&class, true, 20_000, None, 1000), Promise::Kept);
    }
}
