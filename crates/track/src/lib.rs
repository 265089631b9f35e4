// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows the rate of a line that changes: probes and counters give the rate that the shaper has
//! to stay below.
//!
//! A [`Controller`] is given [`Input`]s, each with its time, and answers with
//! [`Decision`]s. It has no clock and no sockets, so the same inputs always
//! lead to the same decisions: [`Record`] writes both down, a line each, and
//! [`replay`] makes the decisions again and compares.
//!
//! The principle: while a queue stands at the far end of the line, packets arrive at the rate
//! that the line carries, whatever the shaper does. Upstream, the growth of the delay tells by
//! how much the sent rate exceeds that rate. So one measurement of a standing queue gives the
//! rate, and no search is needed.
//!
//! The rate goes there at once, and stays below it until the queue is drained. It rises again
//! only by an experiment, which ends when the delay rises. An experiment runs only while the
//! shaper is full; otherwise it would show nothing.
//!
//! ```
//! use weirgate_track::{Input, Limits, Record, Settings, Direction, replay};
//!
//! let settings = Settings {
//!     up: None,
//!     down: Some(Limits {
//!         floor: 1_000_000,
//!         base: 8_000_000,
//!         ceiling: 10_000_000,
//!         margin_ppm: 30_000,
//!         margin_bits: 0,
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
//! assert_eq!(record.controller().rate(Direction::Down), Some(8_000_000));
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
pub use model::{Decided, Decision, Input, Limits, Reason, Settings, Trouble};
pub use record::{HEAD, Record, Replayed, Wrong, replay};
pub use reflector::Baseline;
pub use setup::{Cost, Setup};
pub use weirgate_units::Direction;
