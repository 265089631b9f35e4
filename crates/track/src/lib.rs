// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows the rate of a line that changes: from what probes and counters tell
//! to the rate that the shaper is to keep below.
//!
//! A [`Controller`] is given [`Input`]s, each with its time, and answers with
//! [`Decision`]s. It has no clock and no sockets, so the same inputs always
//! lead to the same decisions: [`Record`] writes both down, a line each, and
//! [`replay`] makes the decisions again and compares.
//!
//! The idea. While a queue stands at the far end of the line, what arrives
//! here is what the line carries, whatever the shaper does; upstream the growth
//! of the delay tells by how much more was sent than that. So one look at a
//! standing queue says the rate, and no search is needed. The rate goes there at
//! once and stays below for as long as the queue needs to drain. It is raised
//! again only as an experiment, which ends when the delay rises. An experiment is
//! made only while the shaper is filled: without that it would show nothing.
//!
//! ```
//! use weirgate_track::{Input, Limits, Record, Settings, LineDirection, replay};
//!
//! let settings = Settings {
//!     up: None,
//!     down: Some(Limits {
//!         floor: 1_000_000,
//!         base: 8_000_000,
//!         ceiling: 10_000_000,
//!         margin_ppm: 30_000,
//!     }),
//!     reflectors: 1,
//!     probe_ns: 100_000_000,
//!     delay_ns: 5_000_000,
//!     packet: 1_696,
//! };
//! let mut record = Record::new(settings)?;
//! let at = 1_000_000;
//! let decisions = record.take(&Input::Sent { at, reflector: 0, id: 7 });
//! // The first decision is the rate to begin with.
//! assert_eq!(decisions[0].to_string(), "d 1000000 down 8000000 start");
//! assert_eq!(record.controller().rate(LineDirection::Down), Some(8_000_000));
//! // The record leads to the same decisions again.
//! let replayed = replay(&record.written()).expect("it was just written");
//! assert_eq!(replayed.decisions, decisions);
//! # Ok::<(), &str>(())
//! ```

mod controller;
mod direction;
mod model;
mod passive;
mod record;
mod reflector;
mod setup;
mod votes;

pub use controller::Controller;
pub use model::{Decided, Decision, Input, Limits, LineDirection, Reason, Settings, Trouble};
pub use record::{HEAD, Record, Replayed, Wrong, replay};
pub use setup::{Cost, Setup};
