// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a first policy from observations of a machine and three answers.
//!
//! * [`Found`] chooses the link's device and those of the hosts.
//! * [`LINES`] and [`PURPOSES`] are the tables behind questions, options and policies; [`Question`]
//!   has the texts.
//! * [`policy`] writes the policy, with comments, in at most 40 lines.
//!
//! This crate is pure: crate kernel observes the machine, and crate cli asks the questions and
//! writes the file.
//!
//! ```
//! use weirgate_init::{Answers, Asked, Found, LINES, PURPOSES, policy};
//! use weirgate_state::{DefaultRoute, DeviceName, Interface, Machine, Network};
//! use weirgate_units::Rate;
//!
//! let wan = DeviceName::new("wan").expect("a name");
//! let device = Interface { up: true, link_type: 1, mtu: 1500, ..Interface::default() };
//! let machine = Machine {
//!     devices: [(wan.clone(), device)].into(),
//!     ..Machine::default()
//! };
//! let route = DefaultRoute { device: wan, gateway: None, metric: 0, port: None };
//! let network = Network { defaults: vec![route], ..Network::default() };
//! let found = Found::of(&machine, &network, &Asked::default())?;
//! let text = policy(&found, &Answers {
//!     line: &LINES[0],
//!     up: Rate::kbit(40_000),
//!     down: Rate::kbit(100_000),
//!     measured: None,
//!     purpose: &PURPOSES[0],
//!     ports: Vec::new(),
//! });
//! assert!(text.contains("layer = \"ethernet\""));
//! # Ok::<(), weirgate_init::Lack>(())
//! ```

mod found;
mod hosts;
mod inbound;
mod line;
mod purpose;
mod question;
mod words;
mod write;

pub use found::{Asked, Found, Lack};
pub use line::{AccessLine, Dial, LINES};
pub use purpose::{PURPOSES, Purpose, USUAL_PORTS};
pub use question::{Question, Rates, line, purpose, rates};
pub use write::{Answers, MOST_LINES, policy};
