// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What rules make of packets: the tables of `weirgate_state` run on a
//! sequence of packets, with connections, limits and counts as a Linux kernel
//! keeps them.
//!
//! [`Simulator`] takes packets with their times and says for each which rules
//! were tried, which matched, and what class the packet left with. Start
//! reading there; `run` has the rules, `track` the connections, `meter` the
//! limits. The kernel's tests send the same packets through the same tables
//! and compare.
//!
//! ```
//! use weirgate_explain::{Devices, Simulator, parse_line};
//!
//! let text = "udp 192.168.1.10:40000 > 203.0.113.5:53 len 60";
//! let line = parse_line(text).expect("a packet").expect("not a blank line");
//! let path = Devices { arrives: None, leaves: None };
//! let mut router = Simulator::new(&[]);
//! let fate = router.pass(line.packet, &path, 0, None);
//! assert!(fate.passes.is_empty(), "a router without tables");
//! ```
//!
//! Nothing here reads a clock, a file or a kernel: a time is what the caller
//! says.

mod build;
mod capture;
mod count;
mod fragments;
mod meter;
mod packet;
mod run;
mod sender;
mod simulator;
mod tcp;
#[cfg(test)]
mod tests;
mod text;
mod track;
mod tuple;

pub use build::{Blueprint, checksum};
pub use capture::{Capture, Captured, Carried, MOST_CAPTURED, is_capture, read_capture};
pub use count::Counting;
pub use meter::Level;
pub use packet::{GivenConnection, GivenState, Headers, IPV4, IPV6, Packet};
pub use run::{Pass, Tried, Unknown};
pub use sender::SenderValue;
pub use simulator::{Devices, Fate, Simulator, Summary};
pub use text::{MOST_REPEATED, Mistake, PacketLine, PacketTime, parse_line};
pub use track::{ESTABLISHED, INVALID, NEW, RELATED, UNTRACKED};
pub use weirgate_units::Direction;

/// Nanoseconds in a second. Times are in nanoseconds since an arbitrary moment.
pub const SECOND: u64 = 1_000_000_000;
