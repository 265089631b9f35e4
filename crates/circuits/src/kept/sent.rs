// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A list as it is sent to a box: once, for several of its devices.
//!
//! It is the text that is kept, but with a first line for each device, which begins with
//! the device's name. `only` stands before them where no other device is to have circuits;
//! it stands alone where none at all is.

use super::{DIVIDES, Kept, Parts, files, head};
use crate::model::List;
use weirgate_units::Direction;
use weirgate_units::Rate;

/// The most devices of one text: each has the whole list in memory.
const MOST: usize = 16;

/// Says that devices which are not named have no circuits. A line of a device has a space.
const ONLY: &str = "only\n";

/// A device that is to have a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub device: String,
    /// Which way it sends.
    pub direction: Direction,
    /// The rate of the whole, if there is one.
    pub link: Option<Rate>,
    /// Queues of the device that may have circuits, at most.
    pub queues: Option<u32>,
}

/// Devices of a box that are to have one list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// These devices.
    pub ports: Vec<Port>,
    /// Whether no other device of the box is to have circuits.
    pub only: bool,
}

/// What devices of a box are to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Each device's name, and its list.
    pub lists: Vec<(String, Kept)>,
    /// Whether no other device is to have circuits.
    pub only: bool,
}

impl Ports {
    /// What [`Ports::read`] reads where no device of a box is to have circuits.
    pub const NONE: &'static str = ONLY;

    /// Writes what [`Ports::read`] reads.
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

    /// What each device is to have; says what is wrong.
    pub fn read(text: &str) -> Result<Sent, String> {
        let rest = text.strip_prefix(ONLY);
        let lists = match rest {
            Some("") => Vec::new(),
            rest => Self::lists(rest.unwrap_or(text))?,
        };
        let only = rest.is_some();
        Ok(Sent { lists, only })
    }

    /// Each device's name with its list.
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
                // The list is the same.
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
