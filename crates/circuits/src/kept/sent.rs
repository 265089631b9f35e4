// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The form in which a list is sent to a router: once for several of its devices.
//!
//! It is the stored form with a first line for each device, which begins with the device's name.
//! A line `only` precedes them if no other device may have circuits. It stands alone if no
//! device may have any.

use super::{DIVIDES, Kept, Parts, files, head};
use crate::model::List;
use weirgate_units::{Direction, Rate};

/// The largest number of devices in one text: each holds the whole list in memory.
const MOST: usize = 16;

/// Removes circuits from devices that are not named. It cannot be confused with a device's line,
/// which contains a space.
const ONLY: &str = "only\n";

/// A device that receives a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub device: String,
    /// The direction in which it sends.
    pub direction: Direction,
    /// The rate of the whole device, if it has a limit.
    pub link: Option<Rate>,
    /// The largest number of the device's queues that get circuits.
    pub queues: Option<u32>,
}

/// Devices of a router that receive the same list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// These devices.
    pub ports: Vec<Port>,
    /// Whether no other device of the router may have circuits.
    pub only: bool,
}

/// The lists for the devices of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Each device's name, and its list.
    pub lists: Vec<(String, Kept)>,
    /// Whether no other device of the router may have circuits.
    pub only: bool,
}

impl Ports {
    /// The text that removes all circuits from a router.
    pub const NONE: &'static str = ONLY;

    /// Writes the form that [`Ports::read`] parses.
    pub fn write(&self, list: &List) -> String {
        let heads = self.ports.iter().map(|port| {
            let head = head(port.direction, port.link, port.queues);
            format!("{} {head}", port.device)
        });
        let mut text = if self.only { ONLY } else { "" }.to_owned();
        text.push_str(&heads.collect::<Vec<_>>().join("\n"));
        files(list, &mut text);
        text
    }

    /// Parses the lists of each device. An error is the problem in words.
    pub fn read(text: &str) -> Result<Sent, String> {
        let rest = text.strip_prefix(ONLY);
        let lists = match rest {
            Some("") => Vec::new(),
            rest => Self::lists(rest.unwrap_or(text))?,
        };
        let only = rest.is_some();
        Ok(Sent { lists, only })
    }

    /// Returns each device's name with its list.
    fn lists(text: &str) -> Result<Vec<(String, Kept)>, String> {
        let (heads, rest) = text
            .split_once(DIVIDES)
            .ok_or("it is no list of circuits for devices")?;
        let mut all: Vec<(String, Kept)> = Vec::new();
        for line in heads.lines() {
            let (device, head) = line.split_once(' ').ok_or("a line names no device")?;
            if all.len() == MOST {
                return Err(format!("it is for more than {MOST} devices"));
            }
            if all.iter().any(|(other, _)| other == device) {
                return Err(format!("it is for {device} twice"));
            }
            let kept = match all.first() {
                None => Kept::read(&[head, DIVIDES, rest].concat(), "")?,
                // All devices have the same list, so parse it only once.
                Some((_, first)) => {
                    let text = [head, DIVIDES, DIVIDES, DIVIDES].concat();
                    let own = Parts::of(&text)?;
                    Kept {
                        direction: own.direction,
                        link: own.link,
                        queues: own.queues,
                        list: first.list.clone(),
                    }
                }
            };
            all.push((device.to_owned(), kept));
        }
        if all.is_empty() {
            return Err("it is for no device".to_owned());
        }
        Ok(all)
    }
}
